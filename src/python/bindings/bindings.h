// The parts of the module `_nestor`, each of which adds its classes, and what they share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <vector>

#include "nestor/driver.h"
#include "nestor/specialize.h"

namespace nestor::python {

namespace nb = nanobind;

void add_errors(nb::module_& m);
void add_models(nb::module_& m);
void add_schedules(nb::module_& m);
void add_threads(nb::module_& m);
void add_tuner(nb::module_& m);

// Options that `compile`, `func` and `tune` share, as keywords.
struct ModelKeywords {
  std::string target = "native";
  int threads = 0;                                     // 0: as many as the target has cores
  std::map<std::string, int64_t> dims;                 // symbolic dimensions
  std::map<std::string, std::string> open;             // those that calls decide: "1..64~16"
  std::map<std::string, std::vector<int64_t>> shapes;  // of inputs
  ChosenSizes specialize;                              // for `compile` alone
  std::map<std::string, nb::object> constants;         // arrays
  std::string db;                                      // empty: none
  std::string schedule;                                // "", "default", "naive", or a .sched file's path
  std::vector<std::string> ops;                        // .nest files with operators of the user's
  bool exact_conv = false;
  bool check_indices = false;
  int64_t max_trips = 0;  // 0: any number
};
CompileOptions compile_options(const ModelKeywords& k);

// Each warning of the compiler as Python's: warnings.warn(message); of work on another thread (threads.h)
// when it is done.
void warn(const std::string& message);

}  // namespace nestor::python
