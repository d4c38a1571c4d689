#include "nestor/pinning.h"

#include <hwloc.h>

#include <map>
#include <set>
#include <tuple>

#include "nestor/error.h"
#include "runtime/kernel_rt.h"
#include "runtime/nodes_rt.h"

namespace nestor {

namespace {

struct Cpu {
  int32_t number = 0;
  unsigned group = 0;  // of those that share memory or a cache
  int round = 0;       // the how-manieth of its core
};

// In the order of the hierarchy, those of this machine that the process may run on, or all of a described
// one.
std::vector<Cpu> allowed_cpus(const std::string& machine = "") {
  std::vector<Cpu> out;
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return out;
  const bool here = machine.empty();
  if ((here || hwloc_topology_set_synthetic(topology, machine.c_str()) == 0) &&
      hwloc_topology_load(topology) == 0) {
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (!here || hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) != 0) hwloc_bitmap_fill(allowed);
    const bool nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) > 1;
    std::map<hwloc_obj_t, int> of_core;
    for (hwloc_obj_t pu = nullptr; (pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu));) {
      if (!hwloc_bitmap_isset(allowed, pu->os_index)) continue;
      Cpu c;
      c.number = static_cast<int32_t>(pu->os_index);
      const hwloc_obj_t l3 = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_L3CACHE, pu);
      if (nodes)
        c.group = static_cast<unsigned>(hwloc_bitmap_first(pu->nodeset));
      else if (l3)
        c.group = l3->logical_index;
      const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
      c.round = core ? of_core[core]++ : 0;
      out.push_back(c);
    }
    hwloc_bitmap_free(allowed);
  }
  hwloc_topology_destroy(topology);
  return out;
}

}  // namespace

Pinning parse_pinning(const std::string& name) {
  if (name == "none") return Pinning::none;
  if (name == "compact") return Pinning::compact;
  if (name == "spread") return Pinning::spread;
  throw UserError(Diagnostic{"unknown pinning '" + name + "'", {}, {}, "there are none, compact and spread"});
}

namespace {

std::vector<int32_t> in_order(const std::vector<Cpu>& cpus, int threads, Pinning how) {
  if (cpus.empty()) throw UserError("can't find out which CPUs this process may run on");
  // Sorted by (round, turn): the turn counts within a round and, when spread, within a group.
  std::map<std::pair<int, unsigned>, int> count;
  std::map<std::tuple<int, int, unsigned>, int32_t> order;
  for (const Cpu& c : cpus) {
    const unsigned group = how == Pinning::spread ? c.group : 0;
    order[{c.round, count[{c.round, group}]++, group}] = c.number;
  }
  std::vector<int32_t> ordered, out;
  for (const auto& [key, number] : order) ordered.push_back(number);
  for (int i = 0; i < threads; ++i) out.push_back(ordered[static_cast<size_t>(i) % ordered.size()]);
  return out;
}

}  // namespace

std::vector<int32_t> cpus_for(int threads, Pinning how) {
  if (how == Pinning::none) return {};
  static const std::vector<Cpu> cpus = allowed_cpus();  // before the first thread was pinned
  return in_order(cpus, threads, how);
}

std::vector<int32_t> cpus_for(int threads, Pinning how, const std::string& machine) {
  if (how == Pinning::none) return {};
  return in_order(allowed_cpus(machine), threads, how);
}

Placement parse_placement(const std::string& name, const std::vector<int32_t>& cpus) {
  if (name == "replicate")
    throw UserError(
        Diagnostic{"weights can't be replicated: all threads of a model read them at one address",
                   {},
                   {},
                   "start one process a node, each bound to its own: numactl --cpunodebind=N --membind=N"});
  if (name != "none" && name != "parts" && name != "interleave")
    throw UserError(
        Diagnostic{"unknown placement '" + name + "'", {}, {}, "there are none, parts and interleave"});
  if (name == "none") return Placement::anywhere;
  if (cpus.empty())
    throw UserError(Diagnostic{"memory can't be placed near threads that move", {}, {}, "add --pin spread"});
  return name == "parts" ? Placement::parts : Placement::interleave;
}

int memory_nodes_of(const std::vector<int32_t>& cpus) {
  std::set<int32_t> nodes;
  for (const int32_t c : cpus) nodes.insert(nestor_node_of_cpu("", c));
  return static_cast<int>(nodes.size());
}

void pin_thread(int32_t cpu) {
  if (nestor_pin_thread(cpu) != 0) throw UserError("a thread can't be bound to CPU " + std::to_string(cpu));
}

}  // namespace nestor
