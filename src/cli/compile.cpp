// `nestor compile`: an artifact, and any form on the way to it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "nestor/artifact.h"
#include "nestor/cuda.h"
#include "nestor/flops.h"
#include "nestor/nest_file.h"
#include "nestor/print.h"
#include "nestor/specialize.h"
#include "src/cli/common.h"
#include "src/cli/records_used.h"

namespace nestor::cli {

namespace {

namespace fs = std::filesystem;

struct Form {
  const char *name, *ending;
  std::optional<ArtifactForm> code = {};
};
constexpr Form kForms[] = {{"so", ".so", ArtifactForm::shared},
                           {"archive", ".a", ArtifactForm::archive},
                           {"obj", ".o", ArtifactForm::object},
                           {"header", ".h"},
                           {"ir", ".nest"},
                           {"llvm", ".ll", ArtifactForm::llvm},
                           {"asm", ".s", ArtifactForm::assembly},
                           {"cuda", ".cu"},
                           {"ptx", ".ptx"}};

const Form& form_called(const std::string& name) {
  std::string known;
  for (const Form& f : kForms) {
    if (name == f.name) return f;
    known += (known.empty() ? "" : ", ") + std::string(f.name);
  }
  throw UserError(Diagnostic{"--emit " + name + " isn't supported", {}, {}, known});
}

// What is made: as --emit says, else as the ending of -o. Code that programs link to comes with its header.
std::vector<Form> forms_of(const CompileVerb& v) {
  const std::string ending = fs::path(v.output).extension().string();
  const bool device = is_written_through(v.output);
  const Form* of_ending = nullptr;
  std::string known;
  for (const Form& f : kForms) {
    if (ending == f.ending) of_ending = &f;
    known += (known.empty() ? "" : ", ") + std::string("m") + f.ending;
  }
  if (!device && !of_ending && (!ending.empty() || v.emit.empty()))
    throw UserError(Diagnostic{"-o " + v.output +
                                   (ending.empty() ? " has no ending, which says what to write"
                                                   : ": no output form ends in " + ending),
                               {},
                               {"m.so is a shared object, m.a an archive to link, m.o an object"},
                               known});
  std::vector<Form> out;
  std::set<std::string> seen;
  for (const std::string& name : v.emit)
    if (const Form& form = form_called(name); seen.insert(name).second) out.push_back(form);
  if (v.emit.empty()) {
    out.push_back(device ? kForms[0] : *of_ending);
    if (out[0].code >= ArtifactForm::object && !device) out.push_back(form_called("header"));
  }
  if (device && out.size() > 1)
    throw UserError(Diagnostic{
        "--emit " + v.emit.back() + " would be written beside " + v.output + ", which isn't a file",
        {},
        {},
        "give -o a path in a folder, or one form"});
  return out;
}

std::string path_of(const Form& form, const std::string& output) {
  return is_written_through(output) ? output : fs::path(output).replace_extension(form.ending).string();
}

// What a command reads isn't where it writes.
void keep_inputs(const CompileVerb& v, const std::vector<Form>& forms) {
  std::vector<std::string> inputs = v.common.ops;
  inputs.insert(inputs.end(), {v.common.model, v.schedule, v.common.db});
  std::error_code none;
  for (const Form& f : forms)
    for (const std::string& input : inputs)
      if (const std::string path = path_of(f, v.output);
          fs::is_regular_file(path) && fs::equivalent(path, input, none))
        throw UserError(Diagnostic{
            "--emit " + std::string(f.name) + " would overwrite " + input + ", which this command reads",
            {},
            {},
            "give -o another name"});
}

bool wants(const std::vector<Form>& forms, std::string_view name) {
  return std::any_of(forms.begin(), forms.end(), [&](const Form& f) { return f.name == name; });
}

void check_target(const Target& target, const std::vector<Form>& forms) {
  if (target.kind != TargetKind::cuda && (wants(forms, "cuda") || wants(forms, "ptx")))
    throw UserError(Diagnostic{"--emit cuda needs a CUDA target", {}, {}, "--target cuda:sm_80"});
}

// An artifact is made for use, and weights that we draw are of no use to anybody.
void refuse_drawn(const std::vector<std::string>& names) {
  std::string list, files, random;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + name;
    files += " --const " + name + "=@" + name + ".npy";
    random += " --const " + name + "=random:1";
  }
  throw UserError(Diagnostic{"the weights " + list + " have no values",
                             {},
                             {"bench, inspect, verify and run use random values"},
                             files.substr(1) + "\n" + random.substr(1) + " for an artifact to measure"});
}

// Of --const NAME=random:SEED, for the header.
std::vector<std::string> notes_on_weights(const std::vector<std::string>& constants) {
  std::vector<std::string> out;
  for (const std::string& c : constants)
    if (const size_t equals = c.find('='); c.compare(equals + 1, 7, "random:") == 0)
      out.push_back(c.substr(0, equals) + " is random (" + c.substr(equals + 1) +
                    "): for measuring, not for use.");
  return out;
}

ArtifactOptions artifact_options(const CompileVerb& v, const std::vector<Form>& forms) {
  ArtifactOptions out;
  out.path = v.output;
  out.name = artifact_name(v.name.empty() ? fs::path(v.output).stem().string() : v.name);
  out.weights = v.weights == "inside"   ? WeightsPlace::inside
                : v.weights == "beside" ? WeightsPlace::beside
                                        : WeightsPlace::automatic;
  out.forms.clear();
  for (const Form& f : forms)
    if (f.code) out.forms.push_back(*f.code);
  out.header = wants(forms, "header");
  out.notes = notes_on_weights(v.common.constants);
  return out;
}

// The kernels alone: functions one after another, or one CUDA source for all.
void write_kernels(const CompiledModel& m, const std::vector<Form>& forms, const std::string& output,
                   PendingFiles& out) {
  for (const Form& form : forms) {
    const std::string_view name = form.name;
    std::string text;
    if (name == "ir") {
      for (const CompiledFunction& f : m.funcs) text += print(f.lowered) + "\n";
    } else if (name == "cuda" || name == "ptx") {
      const CudaModule module = make_cuda_module(m.lowered(), m.target);
      text = name == "ptx" ? compile_ptx(module.source, m.target)
                           : describe(make_cuda_plan(*m.plan, module)) + module.source;
    } else {
      continue;
    }
    out.write(path_of(form, output), text);
  }
}

CudaArtifact cuda_artifact(const CompiledModel& m, const std::vector<Target>& targets, bool header_alone) {
  const CudaModule module = make_cuda_module(m.lowered(), m.target);
  CudaArtifact out{make_cuda_plan(*m.plan, module), {}, nvrtc_version(), "cuda:"};
  if (!header_alone) out.images = compile_images(module.source, targets);
  for (const Target& t : targets) out.targets += (&t == &targets[0] ? "" : ",") + t.sm;
  return out;
}

// The artifact's files, or its header alone.
ArtifactFiles write_code(const CompiledModel& m, const std::vector<Target>& targets,
                         const ArtifactOptions& artifact, PendingFiles& out) {
  const bool cuda = m.target.kind == TargetKind::cuda, header_alone = artifact.forms.empty();
  if (header_alone && !artifact.header) return {};
  std::optional<CudaArtifact> on_device;
  if (cuda) on_device = cuda_artifact(m, targets, header_alone);
  if (!header_alone)
    return cuda ? write_artifact(*on_device, artifact, out)
                : write_artifact(*m.plan, m.lowered(), m.target, artifact, out);
  ArtifactFiles files;
  files.header = path_of(form_called("header"), artifact.path);
  out.write(files.header, cuda ? artifact_header(*on_device, artifact.name, artifact.notes)
                               : artifact_header(*m.plan, artifact.name, m.target, artifact.notes));
  return files;
}

void report(const CompiledModel& m, const ArtifactFiles& files, double seconds, bool json) {
  nlohmann::json functions = nlohmann::json::array();
  for (const CompiledFunction& f : m.funcs) {
    const double flops = flops_of(with_dims(f.func, m.partition.typical));  // of open sizes, the usual ones
    if (!json)
      fmt::print("  {:<40} {:>9.1f} MFLOP  {} schedule\n", f.func.name, flops / 1e6, f.choice.origin);
    functions.push_back({{"func", f.func.name}, {"flops", flops}, {"schedule", f.choice.origin}});
  }
  if (json)
    fmt::print("{}\n", nlohmann::json{{"object", files.object},
                                      {"header", files.header},
                                      {"weights", files.weights},
                                      {"object_bytes", files.object_bytes},
                                      {"arena_bytes", m.plan ? m.plan->arena_bytes : 0},
                                      {"winograd_bytes", winograd_bytes(m.graph).added},
                                      {"compile_s", seconds},
                                      {"funcs", functions}}
                           .dump());
}

// What Winograd's algorithm costs in size; empty where no convolution has it.
std::string winograd_words(const Graph& g) {
  const WinogradBytes w = winograd_bytes(g);
  if (w.convolutions == 0 && w.over_budget == 0) return "";
  std::string out = fmt::format("Winograd's algorithm in {} needs {} KiB more for weights",
                                counted(static_cast<size_t>(w.convolutions), "convolution"), w.added / 1024);
  if (w.over_budget > 0) out += fmt::format("; {} more would exceed the budget", w.over_budget);
  return out;
}

// Functions that have no schedule as for known sizes, because some stay open: they are slow.
void warn_of_open_sizes(const CompiledModel& m) {
  if (!m.graph.symbols) return;
  const auto slow = std::count_if(m.funcs.begin(), m.funcs.end(),
                                  [](const CompiledFunction& f) { return f.choice.reduced; });
  if (slow > 0)
    fmt::print(stderr,
               "warning: {} of {} can't have the usual schedule while sizes stay open, and may be many times "
               "slower\n"
               "hint: {} fixes sizes; nestor inspect --why names the steps\n",
               slow, counted(m.funcs.size(), "function"), m.graph.symbols->hint());
}

void say_what_was_made(const CompiledModel& m, const std::vector<Form>& forms,
                       const ArtifactOptions& artifact, const ArtifactFiles& files, double seconds) {
  std::FILE* const to = is_written_through(artifact.path) ? stderr : stdout;  // a device may be stdout
  if (!files.object.empty())
    fmt::print(to, "{}: {} KiB, {}, {}, compiled in {:.2f} s\n", files.object, files.object_bytes / 1024,
               counted(m.funcs.size(), "function"),
               m.target.kind == TargetKind::cuda ? "for CUDA devices"
                                                 : counted(static_cast<size_t>(m.plan->threads), "thread"),
               seconds);
  for (const Form& f : forms)
    if (const std::string path = path_of(f, artifact.path); path != files.object && path != files.header)
      fmt::print(to, "{}: {} KiB\n", path, fs::file_size(path) / 1024);
  if (const std::string words = winograd_words(m.graph); !words.empty())
    fmt::print(to, "{}: {}\n", files.object, words);
  if (!files.weights.empty())
    fmt::print(
        to, "{}: {} KiB of weights; keep this file beside it{}\n", files.weights, files.weights_bytes / 1024,
        artifact.weights == WeightsPlace::automatic ? ", since they are too large for the object" : "");
  if (!files.header.empty()) fmt::print(to, "{}: the C interface\n", files.header);
  warn_of_open_sizes(m);
}

void say_what_is_special(const SpecializedModel& m, const std::string& path) {
  std::string sizes;
  for (const auto& combination : m.sizes) {
    sizes += sizes.empty() ? "" : "; ";
    for (const auto& [name, value] : combination)
      sizes += fmt::format("{}{}={}", name == combination.begin()->first ? "" : " ", name, value);
  }
  fmt::print(is_written_through(path) ? stderr : stdout,
             "kernels of their own: {}; {} KiB of weights are for these alone\n", sizes,
             m.weight_bytes / 1024);
}

}  // namespace

int run(const CompileVerb& v) {
  if (v.backend != "llvm")
    throw UserError(
        Diagnostic{"an artifact can't be made by '" + v.backend +
                       "': Halide's code needs Halide at run time, and an artifact needs no library",
                   {},
                   {},
                   "nestor bench --backend " + v.backend + ", or compile --backend llvm"});
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Form> forms = forms_of(v);
  keep_inputs(v, forms);
  PendingFiles out;
  for (const Form& f : forms) out.add(path_of(f, v.output));  // a bad path fails before the work
  CompileOptions options = compile_options(v.common, v.schedule, true);
  options.refused = warn_of_refusal;
  options.drawn = refuse_drawn;
  options.keep_constants = false;
  check_target(options.target, forms);
  const SpecializedModel specialized = compile_model(v.common.model, options, chosen_sizes(v.common));
  const CompiledModel& model = specialized.model;
  say_records_used(model, v.common, v.schedule);
  write_kernels(model, forms, v.output, out);
  const ArtifactOptions artifact = artifact_options(v, forms);
  const ArtifactFiles files = write_code(model, parse_targets(v.common.target), artifact, out);
  out.commit();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!v.common.json) say_what_was_made(model, forms, artifact, files, seconds);
  if (!v.common.json && !specialized.sizes.empty()) say_what_is_special(specialized, artifact.path);
  if (v.report || v.common.json) report(model, files, seconds, v.common.json);
  return 0;
}

}  // namespace nestor::cli
