#include "src/cli/common.h"

#include <fnmatch.h>

#include <filesystem>
#include <thread>

#include "nestor/cuda.h"
#include "nestor/files.h"
#include "nestor/lone_thread.h"
#include "nestor/nest_file.h"
#include "nestor/npz.h"
#include "nestor/ops.h"
#include "nestor/tune.h"

namespace nestor::cli {

namespace {

bool ends_with(const std::string& s, const std::string& suffix) {
  return s.size() >= suffix.size() && s.compare(s.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::pair<std::string, std::string> split_at_equals(const std::string& flag, const std::string& text) {
  const size_t eq = text.find('=');
  if (eq == std::string::npos || eq == 0)
    throw UserError(Diagnostic{flag + " " + text + " has no NAME=", {}, {}, ""});
  return {text.substr(0, eq), text.substr(eq + 1)};
}

int64_t parse_integer(const std::string& flag, const std::string& text) {
  try {
    size_t used = 0;
    const int64_t value = std::stoll(text, &used);
    if (used == text.size()) return value;
  } catch (const std::exception&) {
  }
  throw UserError(flag + ": \"" + text + "\" isn't an integer");
}

// "1,3,224,224", and "[]" for a scalar's.
std::vector<int64_t> parse_shape(const std::string& flag, std::string text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<int64_t> out;
  std::istringstream pieces(text);
  for (std::string piece; std::getline(pieces, piece, ',');) out.push_back(parse_integer(flag, piece));
  for (const int64_t size : out)
    if (size < 0) throw UserError(flag + ": the size " + std::to_string(size) + " is negative");
  return out;
}

void read_sizes(const ModelOptions& o, BuildOptions& build) {
  for (const std::string& d : o.dims) {
    const auto [name, value] = split_at_equals("--dim", d);
    if (build.dims.count(name) || build.shapes.count(name) || build.open.count(name))
      throw UserError("--dim " + name + " is given twice");
    if (const auto open = parse_open_size("--dim " + name, value))
      build.open[name] = *open;
    else if (value.find_first_of(",[") == std::string::npos)
      build.dims[name] = parse_integer("--dim " + name, value);
    else
      build.shapes[name] = parse_shape("--dim " + name, value);
  }
}

// Inputs and weights that are fixed when compiling.
void read_constants(const ModelOptions& o, BuildOptions& build) {
  for (const std::string& c : o.constants) {
    const auto [name, value] = split_at_equals("--const", c);
    if (!build.constants.emplace(name, TensorSource("--const " + name, value, name)).second)
      throw UserError("--const " + name + " is given twice");
  }
}

}  // namespace

namespace {

void prove_file(const std::string& path, const PrimFunc& func, const PrimFunc& scheduled) {
  const ScheduleReview r = review_schedule(func, scheduled);
  if (r.wrong)
    throw UserError(Diagnostic{"the schedule of " + func.name + " in " + path + " is wrong",
                               {},
                               {describe(r)},
                               "--no-proof applies it all the same"});
  std::fprintf(stderr, "%s: the schedule of %s is %s\n", path.c_str(), func.name.c_str(),
               describe(r).c_str());
}

void warn_of_lone_threads(const PrimFunc& func, const PrimFunc& scheduled) {
  for (const LoneBlock& b : lone_blocks(scheduled)) {
    std::fprintf(stderr, "warning: block %s of %s runs on one of %lld threads\n", b.name.c_str(),
                 func.name.c_str(), static_cast<long long>(b.threads));
    for (size_t i = 0; i < b.steps.size(); ++i)
      std::fprintf(stderr, "%s%s\n", i == 0 ? "hint: " : "  ", b.steps[i].c_str());
  }
}

// A schedule written by hand is proved where it is applied: one line on stderr, or a refusal. What it leaves
// to one thread of a CUDA kernel is said.
auto review_file(const std::string& path, bool proof, bool cuda) {
  return [=](const PrimFunc& func, const ScheduleChoice& choice, const PrimFunc& scheduled) {
    if (choice.origin != path) return;
    if (proof) prove_file(path, func, scheduled);
    if (cuda) warn_of_lone_threads(func, scheduled);
  };
}

}  // namespace

Target target_of(const ModelOptions& o) {
  return parse_targets(o.target).front();
}

int threads_of(const ModelOptions& o, const Target& target) {
  if (o.threads < 0) throw UserError("--threads is negative");
  return o.threads > 0 ? o.threads : std::max(1, target.cores);
}

namespace {

void warn(const std::string& note) {
  std::fprintf(stderr, "warning: %s\n", note.c_str());
}

}  // namespace

void warn_of_refusal(const PrimFunc& func, const ScheduleError& why) {
  std::fprintf(stderr,
               "warning: the default schedule of %s is refused; a simple, slower one is used:\n%s\nThis is a "
               "bug in Nestor; please report it with the command.\n",
               func.name.c_str(), why.what());
}

void warn_of_record(const std::string& what) {
  std::fprintf(stderr, "warning: %s\n", what.c_str());
}

std::string usual_schedule(const ModelOptions& o) {
  return o.db.empty() ? "default" : "tuned";
}

CompileOptions compile_options(const ModelOptions& o, const std::string& given, bool open) {
  const std::string schedule = given.empty() ? usual_schedule(o) : given;
  for (const std::string& file : o.ops)
    register_nest_file(file, [file](const PrimFunc& f) { check_nest(f, file, warn); });
  CompileOptions c;
  c.target = target_of(o);
  c.threads = threads_of(o, c.target);
  if (c.target.kind == TargetKind::cpu) c.target.cores = c.threads;  // which the default schedules are for
  c.note = warn;
  c.exact_conv = o.exact_conv;
  c.winograd_budget = o.winograd_budget;
  c.blocked_io = o.blocked_io;
  c.check_indices = o.check_indices;
  read_sizes(o, c.build);
  read_constants(o, c.build);
  c.build.warn = warn;
  const bool cpu = c.target.kind == TargetKind::cpu;
  if (!cpu && !c.build.open.empty())
    throw UserError(Diagnostic{"--dim " + c.build.open.begin()->first +
                                   " leaves a size open, which code for " + c.target.name + " can't",
                               {},
                               {"code for CPUs can"},
                               "--dim " + c.build.open.begin()->first + "=8"});
  c.build.symbolic = open && cpu;
  c.build.max_trips = o.max_trips;
  choose_schedules(c, schedule, o.db, warn_of_record);
  const bool cuda = c.target.kind == TargetKind::cuda;
  if ((o.proof || cuda) && ends_with(schedule, ".sched")) c.review = review_file(schedule, o.proof, cuda);
  return c;
}

bool is_artifact(const std::string& path) {
  return ends_with(path, ".so");
}

InputSources read_sources(const std::vector<std::string>& specs) {
  InputSources out;
  for (const std::string& spec : specs) {
    if (spec.starts_with('@')) {  // every array of an .npz, by name
      for (const auto& [name, tensor] : read_npz(spec.substr(1)))
        out.insert_or_assign(name, TensorSource("--input " + name, tensor));
      continue;
    }
    const auto [name, source] = split_at_equals("--input", spec);
    out.insert_or_assign(name, TensorSource("--input " + name, source, name));
  }
  return out;
}

void shapes_from(const InputSources& given, BuildOptions& build) {
  for (const auto& [name, source] : given)
    if (source.file().defined()) build.shapes.try_emplace(name, source.file().shape());
}

Sizes sizes_of(const ModelOptions& o) {
  BuildOptions build;
  read_sizes(o, build);
  Sizes out = build.dims;
  for (const auto& [name, size] : build.open)
    if (size.typical > 0) out.emplace(name, size.typical);
  return out;
}

ChosenSizes chosen_sizes(const ModelOptions& o) {
  ChosenSizes out;
  for (const std::string& s : o.specialize) add_chosen_sizes("--specialize", s, out);
  if (!out.empty() && target_of(o).kind != TargetKind::cpu)
    throw UserError("--specialize is for CPUs: code for " + o.target + " has all sizes known");
  return out;
}

namespace {

// The shape of an input: a file's, where the model leaves sizes open, else as `sizes` say.
std::vector<int64_t> shape_of(const PlanTensor& t, const TensorSource* source, const Sizes& sizes) {
  if (t.symbols.empty()) return t.shape;
  if (source && source->file().defined()) {
    const std::vector<int64_t>& file = source->file().shape();
    if (fits(file, t)) return file;
    throw UserError("--input " + t.name + " is " + to_string(t.dtype, file) + ", the model takes " +
                    to_string(t));
  }
  std::vector<int64_t> out = t.shape;
  for (size_t d = 0; d < out.size(); ++d) {
    if (out[d] != kOpenSize) continue;
    auto it = sizes.find(t.name + "." + std::to_string(d));
    if (it == sizes.end()) it = sizes.find(t.symbols[d]);
    if (it == sizes.end())
      throw UserError(
          Diagnostic{"the size " + t.symbols[d] + " of input '" + t.name + "' is open: " + to_string(t),
                     {},
                     {},
                     "--dim " + t.symbols[d] + "=8, or a file for the input"});
    out[d] = it->second;
  }
  return out;
}

}  // namespace

NamedTensors read_inputs(const InputSources& given, const std::vector<PlanTensor>& expected,
                         int64_t fill_seed, const Sizes& sizes) {
  NamedTensors out;
  std::string names;
  for (const PlanTensor& t : expected) {
    names += (names.empty() ? "" : ", ") + t.name;
    if (const auto it = given.find(t.name); it != given.end())
      out[t.name] = it->second.of({t.dtype, shape_of(t, &it->second, sizes)});
    else if (fill_seed >= 0)
      out[t.name] = Tensor::random(t.dtype, shape_of(t, nullptr, sizes), static_cast<uint64_t>(fill_seed++));
  }
  for (const auto& entry : given)
    if (!out.count(entry.first))
      throw UserError(
          Diagnostic{"the model has no input \"" + entry.first + "\"", {}, {}, "its inputs are " + names});
  for (const PlanTensor& t : expected)
    if (!out.count(t.name))
      throw UserError(Diagnostic{"input '" + t.name + "' is not given",
                                 {},
                                 {"the model takes " + t.name + ": " + to_string(t)},
                                 "--input " + t.name + "=@x.npy, or --input " + t.name + "=random:1"});
  return out;
}

NamedTensors read_inputs(const InputSources& given, Runnable& runnable, int64_t fill_seed,
                         const Sizes& sizes) {
  std::vector<Runnable::Shape> shapes;
  bool open = false;
  for (const PlanTensor& t : runnable.inputs()) {
    const auto it = given.find(t.name);
    if (it == given.end() && fill_seed < 0) continue;
    shapes.push_back(shape_of(t, it == given.end() ? nullptr : &it->second, sizes));
    open = open || !t.symbols.empty();
  }
  if (open && shapes.size() == runnable.inputs().size()) runnable.fit(shapes);
  return read_inputs(given, runnable.inputs(), fill_seed, sizes);
}

std::string counted(size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

bool matches(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

std::vector<size_t> select(const std::vector<PrimFunc>& funcs, const std::string& glob) {
  std::vector<size_t> out;
  std::string names;
  for (size_t i = 0; i < funcs.size(); ++i) {
    if (matches(glob, funcs[i].name)) out.push_back(i);
    names += (names.empty() ? "" : ", ") + funcs[i].name;
  }
  const bool nothing_asked = funcs.empty() && glob == "*";  // a model may be nothing but reshapes
  if (out.empty() && !nothing_asked)
    throw UserError(Diagnostic{"no function matches --func " + glob, {}, {}, "there are " + names});
  return out;
}

std::vector<const CompiledFunction*> select(const CompiledModel& model, const std::string& glob) {
  std::vector<const CompiledFunction*> out;
  for (const size_t i : select(model.partition.funcs, glob)) out.push_back(&model.funcs[i]);
  return out;
}

void write_text(const std::string& path, const std::string& text) {
  PendingFiles files;
  files.write(path, text);
  files.commit();
}

}  // namespace nestor::cli
