#include "src/cli/common.h"

#include <fnmatch.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "nestor/files.h"
#include "nestor/library.h"
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
  throw UserError(flag + ": \"" + text + "\" is no integer");
}

// The tensor that the right side of NAME=... asks for.
Tensor read_source(const std::string& source, const PlanTensor& wanted) {
  if (source == "zeros") return Tensor(wanted.dtype, wanted.shape);
  if (source.rfind("random:", 0) == 0)
    return Tensor::random(wanted.dtype, wanted.shape,
                          static_cast<uint64_t>(parse_integer("--input " + wanted.name, source.substr(7))));
  if (source.empty() || source[0] != '@')
    throw UserError(Diagnostic{"--input " + wanted.name + "=" + source + " says nothing that can be read",
                               {},
                               {},
                               "@file.npy, @file.npz:KEY, random:SEED or zeros"});
  const std::string path = source.substr(1);
  if (ends_with(path, ".npy")) return read_npy(path);
  const size_t colon = path.rfind(".npz:");
  const std::string file = colon == std::string::npos ? path : path.substr(0, colon + 4);
  const std::string key = colon == std::string::npos ? wanted.name : path.substr(colon + 5);
  const auto arrays = read_npz(file);
  const auto it = arrays.find(key);
  if (it != arrays.end()) return it->second;
  std::string keys;
  for (const auto& [name, tensor] : arrays) keys += (keys.empty() ? "" : ", ") + name;
  throw UserError(
      Diagnostic{file + " has no array \"" + key + "\"", {}, {"it has " + keys}, "@" + file + ":KEY"});
}

}  // namespace

namespace {

// A schedule written by hand is proved where it is applied: one line on stderr, or a refusal.
auto prove_files(const std::string& path) {
  return [path](const PrimFunc& func, const ScheduleChoice& choice, const PrimFunc& scheduled) {
    if (choice.origin != path) return;
    const ScheduleReview r = review_schedule(func, scheduled);
    if (r.wrong)
      throw UserError(Diagnostic{"the schedule of " + func.name + " in " + path + " is wrong",
                                 {},
                                 {describe(r)},
                                 "--no-proof applies it all the same"});
    std::fprintf(stderr, "%s: the schedule of %s is %s\n", path.c_str(), func.name.c_str(),
                 describe(r).c_str());
  };
}

}  // namespace

Target target_of(const ModelOptions& o) {
  return parse_target(o.target);
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
               "warning: the default schedule of %s is refused, and a plain one, which is slower, takes its "
               "place:\n%s\nThis is a bug of Nestor's; please report it with the command.\n",
               func.name.c_str(), why.what());
}

std::string usual_schedule(const ModelOptions& o) {
  return o.db.empty() ? "default" : "tuned";
}

CompileOptions compile_options(const ModelOptions& o, const std::string& given) {
  const std::string schedule = given.empty() ? usual_schedule(o) : given;
  for (const std::string& file : o.ops)
    register_nest_file(file, [file](const PrimFunc& f) { check_nest(f, file, warn); });
  CompileOptions c;
  c.target = target_of(o);
  if (schedule == "naive") c = CompileOptions::naive(c.target);
  c.threads = threads_of(o, c.target);
  if (c.target.kind == TargetKind::cpu) c.target.cores = c.threads;  // which the default schedules are for
  c.note = warn;
  c.exact_conv = o.exact_conv;
  c.blocked_io = o.blocked_io;
  for (const std::string& d : o.dims) {
    const auto [name, value] = split_at_equals("--dim", d);
    c.build.dims[name] = parse_integer("--dim " + name, value);
  }
  if (schedule == "naive") return c;
  std::vector<ScheduleProvider> providers;
  if (schedule == "tuned" && o.db.empty())
    throw UserError(
        Diagnostic{"a tuned schedule needs --db", {}, {}, "nestor tune MODEL --db t.db makes one"});
  if (schedule != "default" && schedule != "tuned") providers.push_back(file_schedules(schedule));
  if (!o.db.empty() && schedule != "default") providers.push_back(database_schedules(o.db, c.threads));
  providers.push_back(default_schedules());
  c.schedules = first_of(std::move(providers));
  if (o.proof && ends_with(schedule, ".sched")) c.review = prove_files(schedule);
  return c;
}

bool is_artifact(const std::string& path) {
  return ends_with(path, ".so");
}

NamedTensors read_inputs(const std::vector<std::string>& specs, const std::vector<PlanTensor>& expected,
                         int64_t fill_seed) {
  NamedTensors out;
  const auto find = [&](const std::string& name) -> const PlanTensor& {
    std::string names;
    for (const PlanTensor& t : expected) {
      if (t.name == name) return t;
      names += (names.empty() ? "" : ", ") + t.name;
    }
    throw UserError(Diagnostic{"the model has no input \"" + name + "\"", {}, {}, "its inputs are " + names});
  };
  for (const std::string& spec : specs) {
    if (spec.rfind('@', 0) == 0) {  // every array of an .npz, by name
      for (auto& [name, tensor] : read_npz(spec.substr(1))) {
        find(name);
        out[name] = tensor;
      }
      continue;
    }
    const auto [name, source] = split_at_equals("--input", spec);
    out[name] = read_source(source, find(name));
  }
  if (fill_seed >= 0)
    for (const PlanTensor& t : expected)
      if (!out.count(t.name))
        out[t.name] = Tensor::random(t.dtype, t.shape, static_cast<uint64_t>(fill_seed++));
  for (const PlanTensor& t : expected)
    if (!out.count(t.name))
      throw UserError(Diagnostic{"input '" + t.name + "' is not given",
                                 {},
                                 {"the model takes " + t.name + ": " + to_string(t.dtype, t.shape)},
                                 "--input " + t.name + "=@x.npy, or --input " + t.name + "=random:1"});
  return out;
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

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError("can't read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  PendingFiles files;
  files.write(path, text);
  files.commit();
}

}  // namespace nestor::cli
