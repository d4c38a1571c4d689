// Schedule files: schedules, and definitions that they apply.
//
//   include "more.sched"                                 # its definitions; in this file's folder or below
//   define tiled(T, i=i, j=j, mr=4, nr=16) -> i0 j1 {    # parameters, some with defaults; names it gives
//     i0 i1 = split T.i [_, mr]
//     j0 j1 = split T.j [_, nr]
//     reorder T (i0 j0 i1 j1)
//   }
//   schedule matmul {                                    # header and braces optional for a single one
//     a b = apply tiled(Y, mr=8)
//     vectorize Y.b
//   }
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nestor/schedule.h"
#include "schedules/words.h"

namespace nestor::schedules {

struct Definition {
  std::string name;
  std::vector<std::pair<std::string, std::optional<std::string>>> params;  // with their defaults
  std::vector<std::string> returns;
  std::vector<Step> steps;  // as written: over parameters, with `apply`
  SourceLoc loc;
};
using Definitions = std::map<std::string, Definition>;

// "gemm(T, mr=14)" as a name and arguments.
struct Call {
  std::string name;
  std::vector<std::string> positional;
  std::vector<std::pair<std::string, std::string>> named;
};
Call read_call(const Step& apply);

// Traces that somebody else made are input: records of a database, jobs of a worker. They are read as what
// the tuner writes, primitives only: no definitions, nothing applied or included, and no file named by
// `from=`.
Trace parse_primitives(std::string_view text, const std::string& file);

// More would be no schedule that somebody wrote.
inline constexpr size_t kMostSteps = 100'000;
inline constexpr size_t kLongestLine = 65536;
inline constexpr size_t kDeepest = 64;  // of files that include files, of definitions that apply others
inline constexpr size_t kMostText = 64 << 20;  // bytes of all files

// The steps with each `apply` replaced by what it stands for; throws UserError where one can't be.
std::vector<Step> expand(const std::vector<Step>& steps, const Definitions& definitions);

// The definitions that come with the compiler (schedules/library/*.sched).
const Definitions& library_definitions();

Definition read_definition_header(const std::vector<Word>& words, const SourceLoc& line);

}  // namespace nestor::schedules
