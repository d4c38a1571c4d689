// Memory nodes: the node of a CPU, on descriptions of other machines, and where this system puts memory.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/pinning.h"
#include "runtime/nodes_rt.h"

using namespace nestor;

namespace {

namespace fs = std::filesystem;
using Cpus = std::vector<int32_t>;

// The memory policy of the page at the address; -1 where the system doesn't say.
int policy_of(const void* address) {
  int mode = -1;
  unsigned long nodes[16] = {};
  constexpr int kOfAddress = 2;
  if (syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, address, kOfAddress) != 0) return -1;
  return mode;
}
constexpr int kDefault = 0, kPreferred = 1, kInterleave = 3;

}  // namespace

TEST_CASE("the node of a CPU is the one that lists it") {
  const fs::path root = fs::temp_directory_path() / ("nestor_nodes_" + std::to_string(getpid()));
  const auto write = [&](const std::string& file, const std::string& text) {
    const fs::path path = root / "sys/devices/system/node" / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  const std::string at = root.string();
  CHECK(nestor_node_of_cpu(at.c_str(), 0) == -1);
  write("online", "0-1,8\n");
  write("node0/cpulist", "0-3,8-11\n");
  write("node1/cpulist", "4-7,12\n");
  write("node8/cpulist", "\n");  // memory only
  const std::pair<int, int> expected[] = {{0, 0},  {3, 0},  {4, 1},   {7, 1},  {8, 0},
                                          {11, 0}, {12, 1}, {13, -1}, {-1, -1}};
  for (const auto& [cpu, node] : expected) {
    INFO("CPU " << cpu);
    CHECK(nestor_node_of_cpu(at.c_str(), cpu) == node);
  }
  fs::remove_all(root);
}

TEST_CASE("memory is placed by whole pages, with what is in it") {
  const Cpus cpus = cpus_for(2, Pinning::compact);
  if (policy_of(&cpus) < 0 || nestor_node_of_cpu("", cpus[0]) < 0) {
    WARN("SKIPPED: this system has no memory policies");
    return;
  }
  const int64_t page = sysconf(_SC_PAGESIZE), bytes = 64 * page;
  char* memory =
      static_cast<char*>(std::aligned_alloc(static_cast<size_t>(page), static_cast<size_t>(bytes)));
  std::memset(memory, 7, static_cast<size_t>(bytes));
  // From the middle of the second page to the middle of the last.
  char* begin = memory + page + 64;
  const int64_t length = 62 * page;
  for (const auto& [how, mode] : {std::pair{NESTOR_PLACE_ANYWHERE, kDefault},
                                  {NESTOR_PLACE_PARTS, kPreferred},
                                  {NESTOR_PLACE_INTERLEAVE, kInterleave}}) {
    CHECK(nestor_place(begin, length, how, cpus.data(), 2) == 0);
    CHECK(policy_of(memory + page) == kDefault);
    for (const int64_t inside : {2, 31, 32, 33, 62}) CHECK(policy_of(memory + inside * page) == mode);
    CHECK(policy_of(memory + 63 * page) == kDefault);
  }
  CHECK(std::all_of(memory, memory + bytes, [](char c) { return c == 7; }));
  const int32_t nowhere[] = {cpus[0], 100000};
  CHECK(nestor_place(begin, length, NESTOR_PLACE_INTERLEAVE, nowhere, 2) == -1);
  CHECK(nestor_place(begin, 10, NESTOR_PLACE_INTERLEAVE, cpus.data(), 2) == 0);  // less than a page
  std::free(memory);
}

TEST_CASE("threads on a machine with two memory nodes") {
  const std::string machine = "node:2 core:2 pu:2";
  CHECK(cpus_for(4, Pinning::compact, machine) == Cpus{0, 2, 4, 6});
  CHECK(cpus_for(4, Pinning::spread, machine) == Cpus{0, 4, 2, 6});
  CHECK(cpus_for(9, Pinning::spread, machine) ==
        Cpus{0, 4, 2, 6, 1, 5, 3, 7, 0});                                    // a core's second thread last
  CHECK(cpus_for(3, Pinning::spread, "l3:2 core:2 pu:1") == Cpus{0, 2, 1});  // one node, two caches
  CHECK(cpus_for(3, Pinning::none, machine).empty());
  CHECK_THROWS_AS(cpus_for(2, Pinning::compact, "no machine"), UserError);
}

TEST_CASE("placements by name") {
  const Cpus cpus = cpus_for(2, Pinning::compact);
  CHECK(parse_placement("none", {}) == Placement::anywhere);
  CHECK(parse_placement("parts", cpus) == Placement::parts);
  CHECK(parse_placement("interleave", cpus) == Placement::interleave);
  CHECK_THROWS_WITH(parse_placement("parts", {}), Catch::Matchers::ContainsSubstring("threads that move"));
  CHECK_THROWS_WITH(parse_placement("replicate", cpus), Catch::Matchers::ContainsSubstring("at one address"));
  CHECK_THROWS_WITH(parse_placement("far", cpus), Catch::Matchers::ContainsSubstring("unknown placement"));
  CHECK(memory_nodes_of(cpus) >= 1);
}
