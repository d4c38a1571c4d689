// What code is generated for: instruction set, registers, caches. `native` asks the machine (LLVM for the
// features, hwloc for caches and cores); every other target is the same on all machines, but for x86-64's
// cores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nestor {

enum class TargetKind : uint8_t { cpu, cuda };

struct Target {
  TargetKind kind = TargetKind::cpu;
  std::string
      name;  // as given: "native", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "cuda:sm_80", ...
  std::string triple;          // LLVM target triple (cpu)
  std::string cpu;             // LLVM CPU name, "znver5"
  std::string features;        // LLVM feature string; names every feature that code for it may use
  int vector_bits = 512;       // width of a vector register
  int vector_registers = 32;   // count of them
  int issue_width = 6;         // micro-operations that a core takes up a cycle
  bool double_pumped = false;  // a vector passes in two halves: half a vector takes half of its time
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 32 << 20;
  int64_t l1_ways = 8, l2_ways = 8;  // lines of a set
  // Between one core and the third-level cache: 16 where a few cores share it, less where it is spread over
  // the chip and every line crosses a mesh.
  double l3_bytes_per_cycle = 16;
  int cores = 1;
  double parallel_us = 5;  // work from which on default schedules share it among threads
  std::string sm;          // "sm_80" (cuda)

  bool has_feature(const std::string& feature) const {  // "fma": whether `features` has +fma
    return ("," + features + ",").find(",+" + feature + ",") != std::string::npos;
  }
  // What comes from the third level comes late and slowly, hardly faster than from memory.
  bool far_l3() const { return l3_bytes_per_cycle < 12; }
  // A core that takes up fewer micro-operations a cycle than two FMAs, two loads and two of a loop.
  bool is_narrow() const { return issue_width < 6; }
  // An instruction loads some elements of so many bytes, and touches nothing else.
  bool has_masked_loads(int bytes_per_element) const {
    return arch() == "x86_64" && has_feature(bytes_per_element >= 4 ? "avx" : "avx512bw");
  }
  bool has_fma() const { return arch() != "x86_64" || has_feature("fma"); }
  int lanes(int bytes_per_element) const { return vector_bits / 8 / bytes_per_element; }
  std::string arch() const { return triple.substr(0, triple.find('-')); }  // "x86_64", "aarch64" (cpu)
};

// Throws UserError listing the targets there are.
Target parse_target(const std::string& name);
Target host_target();
std::vector<std::string> known_targets();

// What LLVM's scheduling model says of a CPU that it has a name for; Target's default for all others.
int issue_width(const std::string& triple, const std::string& cpu);
// Of the CPU of that name, vectors of 512 bits; see Target.
bool double_pumped(const std::string& cpu);

// Throws UserError naming the features that this machine lacks, where it can't run code for the target.
void require_runs_here(const Target& target);
bool runs_here(const Target& target);

}  // namespace nestor
