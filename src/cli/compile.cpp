// `nestor compile`: an artifact, and any form on the way to it.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "nestor/artifact.h"
#include "nestor/cuda.h"
#include "nestor/flops.h"
#include "nestor/print.h"
#include "src/cli/common.h"

namespace nestor::cli {

namespace {

constexpr const char* kForms[] = {"so", "header", "obj", "ir", "llvm", "asm", "cuda", "ptx"};

std::string with_extension(const std::string& path, const char* extension) {
  return std::filesystem::path(path).replace_extension(extension).string();
}

void report(const CompiledModel& m, const ArtifactFiles& files, double seconds, bool json) {
  nlohmann::json functions = nlohmann::json::array();
  for (const CompiledFunction& f : m.funcs) {
    if (!json)
      fmt::print("  {:<40} {:>9.1f} MFLOP  {} schedule\n", f.func.name, flops_of(f.func) / 1e6,
                 f.choice.origin);
    functions.push_back({{"func", f.func.name}, {"flops", flops_of(f.func)}, {"schedule", f.choice.origin}});
  }
  if (json)
    fmt::print("{}\n", nlohmann::json{{"object", files.object},
                                      {"header", files.header},
                                      {"weights", files.weights},
                                      {"object_bytes", files.object_bytes},
                                      {"arena_bytes", m.plan->arena_bytes},
                                      {"compile_s", seconds},
                                      {"funcs", functions}}
                           .dump());
}

std::string counted(size_t n, const std::string& what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

}  // namespace

int run(const CompileVerb& v) {
  if (v.backend != "llvm")
    throw UserError(Diagnostic{"an artifact can't be made by '" + v.backend +
                                   "': Halide's code needs Halide at run time, and artifacts need nothing",
                               {},
                               {},
                               "nestor bench --backend " + v.backend + ", or compile --backend llvm"});
  const auto start = std::chrono::steady_clock::now();
  const auto wants = [&](const char* form) {
    return std::find(v.emit.begin(), v.emit.end(), form) != v.emit.end();
  };
  for (const std::string& form : v.emit)
    if (std::find(std::begin(kForms), std::end(kForms), form) == std::end(kForms))
      throw UserError(Diagnostic{"--emit " + form + " is nothing that can be made",
                                 {},
                                 {},
                                 "so, obj, header, ir, llvm, asm, cuda, ptx"});
  if (std::filesystem::exists(v.output) && !std::filesystem::is_regular_file(v.output))
    for (const std::string& form : v.emit)
      if (form != "so" && (form != "header" || v.emit.size() == 1))
        throw UserError(
            Diagnostic{"--emit " + form + " would lie beside " + v.output + ", which isn't a file",
                       {},
                       {},
                       "give -o a path in a folder"});
  CompileOptions options = compile_options(v.common, v.schedule);
  options.refused = warn_of_refusal;
  const CompiledModel model = compile_model(v.common.model, options);
  const bool cuda = model.target.kind == TargetKind::cuda;
  if (cuda && (wants("so") || wants("obj") || wants("llvm") || wants("asm")))
    throw UserError(Diagnostic{"there is no shared object for a CUDA target yet",
                               {},
                               {},
                               "--emit cuda,ptx gives the kernels; --target native a shared object"});
  if (!cuda && (wants("cuda") || wants("ptx")))
    throw UserError(Diagnostic{"--emit cuda needs a CUDA target", {}, {}, "--target cuda:sm_80"});

  if (wants("ir") || wants("cuda") || wants("ptx")) {
    std::string ir, source, ptx;
    for (const CompiledFunction& f : model.funcs) {
      if (wants("ir")) ir += print(f.lowered) + "\n";
      if (wants("cuda") || wants("ptx")) source += emit_cuda(f.lowered, model.target) + "\n";
      if (wants("ptx")) ptx += compile_ptx(emit_cuda(f.lowered, model.target), model.target) + "\n";
    }
    if (wants("ir")) write_text(with_extension(v.output, ".nest"), ir);
    if (wants("cuda")) write_text(with_extension(v.output, ".cu"), source);
    if (wants("ptx")) write_text(with_extension(v.output, ".ptx"), ptx);
  }
  if (cuda) return 0;

  const std::string name =
      c_identifier(v.name.empty() ? std::filesystem::path(v.output).stem().string() : v.name);
  const bool inside = v.weights == "inside";
  const auto emit = [&](const char* form, const char* extension, ArtifactForm as) {
    if (wants(form))
      write_text(with_extension(v.output, extension),
                 emit_artifact(*model.plan, model.lowered(), model.target, name, inside, as));
  };
  emit("llvm", ".ll", ArtifactForm::llvm);
  emit("asm", ".s", ArtifactForm::assembly);
  emit("obj", ".o", ArtifactForm::object);
  ArtifactFiles files;
  if (wants("so")) {
    ArtifactOptions options;
    options.path = v.output;
    options.name = name;
    options.weights = inside ? WeightsPlace::automatic : WeightsPlace::beside;
    files = write_artifact(*model.plan, model.lowered(), model.target, options);
  } else if (wants("header")) {
    files.header = with_extension(v.output, ".h");
    write_text(files.header, artifact_header(*model.plan, name, model.target));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!v.common.json && !files.object.empty())
    fmt::print(files.header.empty() ? stderr : stdout,  // a device may be stdout
               "{}: {} KiB, {}, {}, compiled in {:.2f} s\n{}", files.object, files.object_bytes / 1024,
               counted(model.funcs.size(), "function"),
               counted(static_cast<size_t>(model.plan->threads), "thread"), seconds,
               files.header.empty() ? "" : files.header + ": the C interface\n");
  if (v.report || v.common.json) report(model, files, seconds, v.common.json);
  return 0;
}

}  // namespace nestor::cli
