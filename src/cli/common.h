// What the verbs share: from flags to compile options, inputs and text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nestor/device.h"
#include "nestor/specialize.h"
#include "src/cli/options.h"

namespace nestor::cli {

Target target_of(const ModelOptions& o);
int threads_of(const ModelOptions& o, const Target& target);

// What no --schedule means: tuned where --db is given, else default.
std::string usual_schedule(const ModelOptions& o);

// `schedule`: naive, default, tuned (needs --db), a .sched file, for whose other functions --db is asked too,
// or empty. Registers --op files, reads --dim and --const. `open`: sizes that are given no value are decided
// by runs.
CompileOptions compile_options(const ModelOptions& o, const std::string& schedule, bool open = false);

// CompileOptions::refused of the verbs that want a model to run, whatever it takes; those that look for what
// is wrong take no other schedule.
void warn_of_refusal(const PrimFunc& func, const ScheduleError& why);

// One line for each tuning record that isn't used.
void warn_of_record(const std::string& what);

bool is_artifact(const std::string& path);  // ends in .so

// A model with its code for where it runs.
struct OnDevice {
  OnDevice(CompiledModel compiled, bool emulate) : model(std::move(compiled)), device(model, emulate) {}
  OnDevice(const OnDevice&) = delete;
  CompiledModel model;
  Device device;
};

// --input flags, their files read.
using InputSources = std::map<std::string, TensorSource>;
InputSources read_sources(const std::vector<std::string>& specs);
// The sizes that the model leaves open are those of the files.
void shapes_from(const InputSources& given, BuildOptions& build);
// What goes in. Inputs that aren't given are random from `fill_seed`, or an error where it is negative.
// `sizes`: of symbols, where the model's runs decide them and no file says them.
using Sizes = std::map<std::string, int64_t>;
NamedTensors read_inputs(const InputSources& given, const std::vector<PlanTensor>& expected,
                         int64_t fill_seed, const Sizes& sizes = {});
// For that run, which takes the inputs' sizes or refuses them before any is made.
NamedTensors read_inputs(const InputSources& given, Runnable& runnable, int64_t fill_seed,
                         const Sizes& sizes = {});
// What --dim says of symbols: numbers, and what open ones usually are.
Sizes sizes_of(const ModelOptions& o);
ChosenSizes chosen_sizes(const ModelOptions& o);  // of --specialize

std::string counted(size_t n, const std::string& what);  // "1 function", "3 functions"

bool matches(const std::string& glob, const std::string& name);

// Functions whose name matches, by index or compiled; UserError listing the names where none does.
std::vector<size_t> select(const std::vector<PrimFunc>& funcs, const std::string& glob);
std::vector<const CompiledFunction*> select(const CompiledModel& model, const std::string& glob);

// Writes beside, then renames, so that a failure leaves no half-written file.
void write_text(const std::string& path, const std::string& text);

}  // namespace nestor::cli
