// Dependencies point one way: every #include of ours is read and held against the table below.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "catch.h"

namespace fs = std::filesystem;

namespace {

using Names = std::set<std::string>;

// A part of the tree and the parts it may include, itself always.
const std::map<std::string, Names> kMayInclude = {
    {"ir", {}},
    {"cost", {"ir"}},
    {"halide", {"ir"}},
    {"ops", {"ir"}},
    {"graph", {"ir", "ops"}},
    {"schedules", {"ir"}},
    {"library", {"ir", "schedules"}},
    {"plans", {"ir", "schedules", "library"}},
    {"passes", {"ir"}},
    {"codegen", {"ir", "passes", "runtime", "kernel_rt"}},
    {"emulate", {"ir", "codegen", "runtime", "kernel_rt"}},
    {"verify", {"ir", "schedules", "passes"}},
    {"runtime", {"kernel_rt"}},
    {"driver",
     {"ir", "ops", "graph", "schedules", "library", "passes", "codegen", "emulate", "verify", "runtime",
      "kernel_rt"}},
    {"tuner",
     {"ir", "cost", "ops", "graph", "schedules", "library", "plans", "passes", "codegen", "verify", "runtime",
      "driver"}},
    {"report",
     {"ir", "ops", "graph", "schedules", "library", "passes", "codegen", "verify", "runtime", "driver"}},
    {"cli",
     {"ir", "cost", "ops", "graph", "schedules", "library", "passes", "codegen", "verify", "runtime",
      "driver", "tuner", "report"}},
    {"python",
     {"ir", "ops", "graph", "schedules", "library", "passes", "codegen", "verify", "runtime", "driver",
      "tuner", "report", "cli"}},
};

const Names kKernelRuntime = {"kernel_rt", "cpus_rt", "cuda_driver_rt", "features_rt", "hash_rt",
                              "nodes_rt",  "pace_rt", "pool_rt",        "text_rt",     "wait_rt"};

// Public headers by the part that implements them; others belong to the part that has a .cpp of the same
// name. Headers of the vocabulary (no part) may be included by all.
const std::map<std::string, std::string> kHeaderPart = {
    {"dtype", ""},
    {"embedded", ""},
    {"error", ""},
    {"files", ""},
    {"half", ""},
    {"limits", ""},
    {"read_text", ""},
    {"scalef", ""},
    {"halide_plugin", ""},
    {"tensor", ""},
    {"target", ""},
    {"unwanted", ""},
    {"ir", "ir"},
    {"expr", "ir"},
    {"walk", "ir"},
    {"print", "ir"},
    {"parse", "ir"},
    {"check", "ir"},
    {"simplify", "ir"},
    {"interpret", "ir"},
    {"instruction", "ir"},
    {"cost", "cost"},
    {"gpu_cost", "cost"},
    {"plan", "plans"},
    {"graph", "ops"},
    {"ops", "ops"},
    {"npz", "graph"},
    {"import", "graph"},
    {"schedule", "schedules"},
    {"library", "library"},
    {"passes", "passes"},
    {"codegen", "codegen"},
    {"cuda", "codegen"},
    {"halide", "codegen"},
    {"out_of_memory", "codegen"},
    {"artifact", "codegen"},
    {"verify", "verify"},
    {"runtime", "runtime"},
    {"driver", "driver"},
    {"tune", "tuner"},
    {"memory_counts", ""},
};

// The part a file belongs to, from its path; empty where no rule applies to it.
std::string part_of(const fs::path& relative) {
  auto it = relative.begin();
  const std::string top = it->string();
  if (top == "src") return (++it)->string();
  if (top == "schedules") {
    const std::string part = std::next(it)->string();
    return part == "library" || part == "plans" ? part : "schedules";
  }
  if (top == "runtime") return kKernelRuntime.count(relative.stem().string()) ? "kernel_rt" : "runtime";
  return top == "tuner" ? "tuner" : "";
}

std::string included_part(const std::string& path) {
  if (path.rfind("nestor/", 0) != 0) return part_of(path);
  const std::string header = fs::path(path).stem().string();
  if (const auto it = kHeaderPart.find(header); it != kHeaderPart.end()) return it->second;
  for (const char* top : {"src", "schedules", "tuner", "runtime"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(NESTOR_SOURCE_DIR) / top))
      if (entry.path().filename() == header + ".cpp")
        return part_of(fs::relative(entry.path(), NESTOR_SOURCE_DIR));
  return "no part has " + header + ".cpp; list it";
}

}  // namespace

TEST_CASE("every include follows the one direction of dependencies") {
  const fs::path root = NESTOR_SOURCE_DIR;
  int checked = 0;
  for (const char* top : {"src", "schedules", "tuner", "runtime"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".h" && extension != ".c") continue;
      const fs::path relative = fs::relative(entry.path(), root);
      const std::string part = part_of(relative);
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        if (line.rfind("#include \"", 0) != 0) continue;
        const std::string path = line.substr(10, line.find('"', 10) - 10);
        if (path.find('/') == std::string::npos) continue;  // beside the file itself
        const std::string target = included_part(path);
        ++checked;
        INFO(relative.string() << " (part " << part << ") includes " << path << " (part " << target << ")");
        const auto allowed = kMayInclude.find(part);
        const bool fine = target.empty() || target == part ||
                          (allowed != kMayInclude.end() && allowed->second.count(target) > 0);
        CHECK(fine);
      }
    }
  }
  CHECK(checked > 20);
}
