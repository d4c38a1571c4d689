// The targets. A CPU target lists all its features rather than only a CPU name, so that comparing two lists
// shows whether this machine can run its code.
#include "nestor/target.h"

#include <hwloc.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <sstream>

#include "nestor/error.h"
#include "runtime/kernel_rt.h"
#include "src/codegen/named_cpu.h"

namespace nestor {

namespace {

constexpr const char* kV2 =
    "+cmov,+cx8,+cx16,+fxsr,+mmx,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+sahf";
constexpr const char* kV3 = ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave";
constexpr const char* kV4 = ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl";

// Shader counts are those of the data-centre part of each generation; `cores` only sizes default grids.
// Shared memory is what one block may have at most (CUDA C++ Programming Guide, "Compute Capabilities").
struct Sm {
  const char* name;
  int cores;
  int64_t shared;
};
constexpr std::array<Sm, 8> kSms = {{{"sm_75", 40, 64 << 10},
                                     {"sm_80", 108, 163 << 10},
                                     {"sm_86", 84, 99 << 10},
                                     {"sm_89", 142, 99 << 10},
                                     {"sm_90", 132, 227 << 10},
                                     {"sm_90a", 132, 227 << 10},
                                     {"sm_100", 148, 227 << 10},
                                     {"sm_120", 170, 99 << 10}}};

struct Topology {
  int64_t l1 = 32 << 10, l2 = 1 << 20, l3 = 0, l1_ways = 8, l2_ways = 8;
  int cores = 1;
};

// Of the processors this process may run on.
Topology read_topology() {
  Topology t;
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return t;
  if (hwloc_topology_load(topology) == 0) {
    const auto cache = [&](hwloc_obj_type_t type, int64_t fallback) {
      const hwloc_obj_t o = hwloc_get_obj_by_type(topology, type, 0);
      return o && o->attr->cache.size ? static_cast<int64_t>(o->attr->cache.size) : fallback;
    };
    const auto ways = [&](hwloc_obj_type_t type, int64_t fallback) {
      const hwloc_obj_t o = hwloc_get_obj_by_type(topology, type, 0);  // 0: unknown, -1: all lines
      return o && o->attr->cache.associativity > 0 ? int64_t{o->attr->cache.associativity} : fallback;
    };
    t.l1 = cache(HWLOC_OBJ_L1CACHE, t.l1);
    t.l1_ways = ways(HWLOC_OBJ_L1CACHE, t.l1_ways);
    t.l2_ways = ways(HWLOC_OBJ_L2CACHE, t.l2_ways);
    t.l2 = cache(HWLOC_OBJ_L2CACHE, t.l2);
    t.l3 = cache(HWLOC_OBJ_L3CACHE, t.l3);
    t.cores = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE));
    t.cores = std::min(t.cores, nestor_allowed_cpus());
  }
  hwloc_topology_destroy(topology);
  return t;
}

const Topology& topology() {
  static const Topology t = read_topology();
  return t;
}

// What a portable target stands for: instructions and the smaller caches of the processors that have them, so
// that it makes the same code on every machine. Its cores are those of this one. Many of those with AVX2 take
// up 4 micro-operations a cycle: what helps them costs the others little, what they lack room for costs them
// a quarter (Cascade Lake, 1024^3).
struct Level {
  int number;
  int64_t l1, l2, l3, l2_ways;
  int issue_width;
};
constexpr std::array<Level, 3> kLevels = {{{2, 32 << 10, 256 << 10, 8 << 20, 8, 6},
                                           {3, 32 << 10, 512 << 10, 16 << 20, 8, 4},
                                           {4, 32 << 10, 1 << 20, 32 << 20, 16, 6}}};

Target x86(const std::string& name, const Level& l) {
  const int level = l.number;
  Target t;
  t.name = t.cpu = name;
  t.triple = "x86_64-unknown-linux-gnu";
  t.features = std::string(kV2) + (level >= 3 ? kV3 : "") + (level >= 4 ? kV4 : "");
  t.vector_bits = level >= 4 ? 512 : level == 3 ? 256 : 128;
  t.vector_registers = level >= 4 ? 32 : 16;
  t.issue_width = l.issue_width;
  t.l1_bytes = l.l1;
  t.l1_ways = 8;
  t.l2_bytes = l.l2;
  t.l2_ways = l.l2_ways;
  t.l3_bytes = l.l3;
  t.cores = topology().cores;
  return t;
}

Target aarch64(const std::string& name) {
  Target t;
  t.name = name;
  t.triple = "aarch64-unknown-linux-gnu";
  t.cpu = "generic";
  t.features = "+fp-armv8,+neon";
  t.vector_bits = 128;
  t.l1_bytes = 64 << 10;
  t.l1_ways = 4;
  t.l2_bytes = 512 << 10;
  t.l3_bytes = 8 << 20;
  t.cores = 4;
  return t;
}

Target cuda(const Sm& sm) {
  Target t;
  t.kind = TargetKind::cuda;
  t.name = std::string("cuda:") + sm.name;
  t.sm = sm.name;
  t.vector_bits = 128;  // the widest load of one thread
  t.vector_registers = 255;
  t.l1_bytes = sm.shared;
  t.l2_bytes = 40 << 20;
  t.l3_bytes = 0;
  t.cores = sm.cores;
  return t;
}

std::set<std::string> host_features() {
  std::set<std::string> on;
  for (const auto& f : llvm::sys::getHostCPUFeatures())
    if (f.second) on.insert(f.first().str());
  return on;
}

// Intel's servers since Skylake have a mesh between the cores and the slices of the third level. No other
// property tells: a guest is shown few of the cores that share it, and its size may be that of a near one.
bool has_mesh(const std::string& cpu) {
  static const std::set<std::string> known = {
      "skylake-avx512", "cascadelake",   "cooperlake",      "icelake-server", "sapphirerapids",
      "emeraldrapids",  "graniterapids", "graniterapids-d", "sierraforest",   "clearwaterforest"};
  return known.count(cpu) > 0;
}

// Measured: 23 GB/s read or written at 2.4 GHz on a mesh (Cascade Lake, 36 MB); where the whole chip's are
// one of hundreds of megabytes, less than half when products spill to it (Granite Rapids, 480 MB).
double l3_bytes_per_cycle(const Target& t) {
  constexpr double kShared = 16, kMesh = 9, kChip = 4;
  if (t.l3_bytes > (int64_t{96} << 20)) return kChip;
  return has_mesh(t.cpu) ? kMesh : kShared;
}

}  // namespace

// By name: LLVM's scheduling models, which tell the issue width, say it of Zen 5 and of Sapphire Rapids too,
// whose servers multiply and add two whole vectors a cycle.
bool double_pumped(const std::string& cpu) {
  return cpu == "znver4";
}

Target host_target() {
  const std::set<std::string> on = host_features();
  Target t;
  t.name = "native";
  t.triple = llvm::sys::getProcessTriple();
  t.cpu = llvm::sys::getHostCPUName().str();
  for (const std::string& f : on) t.features += (t.features.empty() ? "+" : ",+") + f;
  const bool avx512 =
      on.count("avx512f") && on.count("avx512bw") && on.count("avx512dq") && on.count("avx512vl");
  if (t.arch() == "x86_64") {
    t.vector_bits = avx512 ? 512 : on.count("avx") ? 256 : 128;
    t.vector_registers = avx512 ? 32 : 16;
  } else {
    t.vector_bits = 128;
  }
  t.issue_width = issue_width(t.triple, t.cpu);
  t.double_pumped = t.vector_bits == 512 && double_pumped(t.cpu);
  t.l1_bytes = topology().l1;
  t.l1_ways = topology().l1_ways;
  t.l2_ways = topology().l2_ways;
  t.l2_bytes = topology().l2;
  t.l3_bytes = topology().l3;
  t.l3_bytes_per_cycle = l3_bytes_per_cycle(t);
  t.cores = topology().cores;
  return t;
}

std::vector<std::string> known_targets() {
  std::vector<std::string> names = {"native", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"};
  for (const Sm& sm : kSms) names.push_back(std::string("cuda:") + sm.name);
  return names;
}

Target parse_target(const std::string& name) {
  if (name == "native") return host_target();
  for (const Level& l : kLevels)
    if (name == "x86-64-v" + std::to_string(l.number)) return x86(name, l);
  if (name == "aarch64") return aarch64(name);
  for (const Sm& sm : kSms)
    if (name == std::string("cuda:") + sm.name) return cuda(sm);
  if (std::optional<Target> t = named_cpu(name)) {
    if (t->arch() == "x86_64") t->l3_bytes_per_cycle = l3_bytes_per_cycle(*t);
    return *t;
  }
  std::string list;
  for (const std::string& t : known_targets()) list += (list.empty() ? "" : ", ") + t;
  throw UserError(Diagnostic{
      "unknown target '" + name + "'",
      {},
      {},
      "the targets are " + list + ", and processors by LLVM's names: cortex-a76, neoverse-n1, znver4, ..."});
}

namespace {

std::optional<Diagnostic> why_not_here(const Target& target) {
  const auto only = [](const std::string& message) { return Diagnostic{message, {}, {}, {}}; };
  if (target.kind != TargetKind::cpu) return only("code for " + target.name + " can't run on a CPU");
  const Target host = host_target();
  if (target.arch() != host.arch())
    return only("code for " + target.name + " (" + target.arch() + ") can't run on this machine (" +
                host.arch() + ")");
  std::string missing;
  std::istringstream wanted(target.features);
  // Of AArch64, host detection reports only some of the features, and not under their usual names.
  const auto reported = llvm::sys::getHostCPUFeatures();
  for (std::string f; std::getline(wanted, f, ',');) {
    if (f.size() < 2 || f[0] != '+') continue;
    const auto at = reported.find(f.substr(1));
    if (at != reported.end() ? !at->second : target.arch() != "aarch64")
      missing += (missing.empty() ? "" : ", ") + f.substr(1);
  }
  if (missing.empty()) return std::nullopt;
  return Diagnostic{
      "this machine (" + host.cpu + ") can't run code for " + target.name + ": it lacks " + missing,
      {},
      {},
      "use --target native"};
}

}  // namespace

bool runs_here(const Target& target) {
  return !why_not_here(target);
}

void require_runs_here(const Target& target) {
  if (const auto why = why_not_here(target)) throw UserError(*why);
}

}  // namespace nestor
