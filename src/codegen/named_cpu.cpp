// A processor's instructions come from LLVM's table of processors, its caches from a short table here: LLVM
// has none. Those that aren't in it get the caches of a common processor with the same instructions. What
// the target says is the same on every machine that compiles, as for the portable targets.
#include "src/codegen/named_cpu.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/TargetParser/AArch64TargetParser.h>
#include <llvm/TargetParser/X86TargetParser.h>

#include <vector>

namespace nestor {

namespace {

// A core's own first and second level, the last level that cores share, cores of a usual chip. From the
// technical reference manuals (Arm) and the optimization guides (AMD, Intel); where the size is the chip
// maker's choice, the smaller common one.
struct Caches {
  const char* cpu;
  int64_t l1, l2, l3, l1_ways, l2_ways;
  int cores;
};
constexpr int64_t K = 1 << 10, M = 1 << 20;
constexpr Caches kCaches[] = {
    {"cortex-a53", 32 * K, 512 * K, 0, 4, 16, 4},
    {"cortex-a55", 32 * K, 128 * K, 1 * M, 4, 4, 4},
    {"cortex-a72", 32 * K, 1 * M, 0, 2, 16, 4},
    {"cortex-a76", 64 * K, 256 * K, 2 * M, 4, 8, 4},
    {"cortex-a78", 64 * K, 256 * K, 4 * M, 4, 8, 4},
    {"cortex-x1", 64 * K, 1 * M, 8 * M, 4, 8, 4},
    {"neoverse-n1", 64 * K, 1 * M, 32 * M, 4, 8, 64},
    {"neoverse-n2", 64 * K, 1 * M, 32 * M, 4, 8, 64},
    {"neoverse-v1", 64 * K, 1 * M, 32 * M, 4, 8, 64},
    {"neoverse-v2", 64 * K, 2 * M, 32 * M, 4, 8, 72},
    {"haswell", 32 * K, 256 * K, 8 * M, 8, 8, 4},
    {"skylake", 32 * K, 256 * K, 8 * M, 8, 4, 4},
    {"skylake-avx512", 32 * K, 1 * M, 32 * M, 8, 16, 24},
    {"cascadelake", 32 * K, 1 * M, 32 * M, 8, 16, 24},
    {"icelake-server", 48 * K, 1280 * K, 48 * M, 12, 20, 32},
    {"sapphirerapids", 48 * K, 2 * M, 96 * M, 12, 16, 48},
    {"znver2", 32 * K, 512 * K, 16 * M, 8, 8, 8},
    {"znver3", 32 * K, 512 * K, 32 * M, 8, 8, 8},
    {"znver4", 32 * K, 1 * M, 32 * M, 8, 8, 8},
    {"znver5", 48 * K, 1 * M, 32 * M, 12, 16, 8},
};

std::string joined(const std::vector<std::string>& features) {
  std::string out;
  for (const std::string& f : features) out += (out.empty() ? "" : ",") + f;
  return out;
}

void set_caches(Target& t) {
  for (const Caches& c : kCaches) {
    if (t.cpu != c.cpu) continue;
    t.l1_bytes = c.l1;
    t.l1_ways = c.l1_ways;
    t.l2_bytes = c.l2;
    t.l2_ways = c.l2_ways;
    t.l3_bytes = c.l3;
    t.cores = c.cores;
  }
}

std::optional<Target> arm(const std::string& name) {
  const auto cpu = llvm::AArch64::parseCpu(name);
  if (!cpu || name == "generic") return std::nullopt;
  Target t = parse_target("aarch64");
  std::vector<llvm::StringRef> on;
  llvm::AArch64::getExtensionFeatures(cpu->getImpliedExtensions(), on);
  std::vector<std::string> features;
  for (const llvm::StringRef f : on)
    if (f.starts_with("+")) features.push_back(f.str());
  t.name = t.cpu = name;
  t.features = joined(features);
  return t;
}

// What compiled code may use. Hypervisors often hide the others (`mwaitx`, `rdpru`) from their guests.
bool is_arithmetic(llvm::StringRef feature) {
  for (const char* start : {"avx", "sse", "ssse", "fma", "f16c", "bmi", "lzcnt", "popcnt", "movbe", "cmov",
                            "cx", "fxsr", "mmx", "sahf", "gfni"})
    if (feature.starts_with(start)) return true;
  return feature == "xsave";
}

std::optional<Target> x86(const std::string& name) {
  llvm::SmallVector<llvm::StringRef, 0> names, on;
  llvm::X86::fillValidCPUArchList(names, true);
  if (!llvm::is_contained(names, name)) return std::nullopt;
  llvm::X86::getFeaturesForCPU(name, on, true);
  std::vector<std::string> features;
  for (const llvm::StringRef f : on)
    if (is_arithmetic(f.drop_front())) features.push_back(f.str());
  Target found;
  found.features = joined(features);
  if (!found.has_feature("sse4.2")) return std::nullopt;
  const bool avx512 = found.has_feature("avx512f") && found.has_feature("avx512bw") &&
                      found.has_feature("avx512dq") && found.has_feature("avx512vl");
  Target t = parse_target(avx512 ? "x86-64-v4" : found.has_feature("avx2") ? "x86-64-v3" : "x86-64-v2");
  t.name = t.cpu = name;
  t.features = found.features;
  t.issue_width = issue_width(t.triple, name);
  t.double_pumped = avx512 && double_pumped(name);
  return t;
}

}  // namespace

std::optional<Target> named_cpu(const std::string& name) {
  std::optional<Target> t = arm(name);
  if (!t) t = x86(name);
  if (t) set_caches(*t);
  return t;
}

}  // namespace nestor
