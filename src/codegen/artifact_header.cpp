// Describes an artifact: the C header for people and compilers, and the JSON for load_artifact.

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>

#include "nestor/artifact.h"

namespace nestor {

namespace {

const char* c_type(DType t) {
  switch (t) {
    case DType::f64:
      return "double";
    case DType::f32:
      return "float";
    case DType::f16:
    case DType::bf16:
      return "uint16_t";  // bits
    case DType::i64:
      return "int64_t";
    case DType::i32:
      return "int32_t";
    case DType::i16:
      return "int16_t";
    case DType::i8:
      return "int8_t";
    case DType::u64:
      return "uint64_t";
    case DType::u32:
      return "uint32_t";
    case DType::u16:
      return "uint16_t";
    case DType::u8:
    case DType::boolean:
      return "uint8_t";
  }
  return "void";
}

// A tensor may have any name: none ends the comment that it stands in, begins another or a line.
std::string in_comment(const std::string& name) {
  std::string out;
  for (char c : name) {
    const bool marks = !out.empty() && ((out.back() == '*' && c == '/') || (out.back() == '/' && c == '*'));
    if (marks) out += ' ';
    out += std::iscntrl(static_cast<unsigned char>(c)) ? '?' : c;
  }
  return out;
}

std::string members(const std::vector<PlanTensor>& tensors, const std::string& name, const char* qualifier) {
  const std::vector<std::string> names = member_names(tensors, name);
  std::string out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const PlanTensor& t = tensors[i];
    out += fmt::format("  {}{}* {}; /* {}{} */\n", qualifier, c_type(t.dtype), names[i], to_string(t),
                       names[i] == t.name ? "" : ", '" + in_comment(t.name) + "'");
  }
  return out.empty() ? "  void* none;\n" : out;
}

nlohmann::ordered_json list_of(const std::vector<PlanTensor>& tensors) {
  auto list = nlohmann::ordered_json::array();
  for (const PlanTensor& t : tensors) {
    auto shape = nlohmann::ordered_json::array();
    for (size_t d = 0; d < t.shape.size(); ++d) {
      if (t.shape[d] == kOpenSize)
        shape.push_back(t.symbols[d]);
      else
        shape.push_back(t.shape[d]);
    }
    list.push_back({{"name", t.name}, {"dtype", std::string(name_of(t.dtype))}, {"shape", shape}});
  }
  return list;
}

// The dimensions of tensors, for a model whose sizes runs decide.
std::string shape_members(const std::vector<PlanTensor>& tensors, const std::string& name) {
  const std::vector<std::string> names = member_names(tensors, name);
  std::string out;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].shape.empty())
      out += fmt::format("  int64_t {}[{}]; /* {} */\n", names[i], tensors[i].shape.size(),
                         to_string(tensors[i]));
  return out.empty() ? "  int64_t none[1];\n" : out;
}

// "seq: 1 to 2048, y.count: as values decide"
std::string symbol_lines(const PlanSizes& sizes) {
  std::string out;
  for (const PlanSymbol& s : sizes.symbols)
    out +=
        fmt::format("{}{}: {}", out.empty() ? "" : ", ", in_comment(s.name),
                    s.place == kFoundByRun ? "as values decide" : fmt::format("{} to {}", s.least, s.most));
  return out;
}

constexpr const char* kSizes =
    R"(
/* Sizes that a run decides: {symbols}. Before a run on inputs of other shapes than those of the last one,
 * {name}_fit checks these, makes room, and says the outputs' shapes (outputs may be NULL). It returns 0, {guard}_BUSY, or
 * {guard}_BAD_SIZES: then {name}_why says why. Memory only grows: up to what the largest sizes needed. */
#define {guard}_BAD_SIZES 5
struct {name}_input_shapes {{
{input_shapes}}};
struct {name}_output_shapes {{
{output_shapes}}};
int32_t {name}_fit(struct {name}* instance, const struct {name}_input_shapes* inputs,
                   struct {name}_output_shapes* outputs);
const char* {name}_why(const struct {name}* instance);
/* Bytes of memory that an instance has for runs of these sizes; -1 where they are bad. */
int64_t {name}_memory_size(const struct {name}_input_shapes* inputs);
/* Runs take no memory but these bytes of the host's, which it frees after the instance; NULL: their own again. Before the
 * next run, {name}_fit is to be called: it fails where the sizes need more ({name}_memory_size). Returns 0 or {guard}_BUSY. */
int32_t {name}_use_memory(struct {name}* instance, void* memory, int64_t bytes);
)";

constexpr const char* kMade =
    R"(/* The outputs' shapes in the last run, whose values stand in front of the buffers: values decide some. Those that
 * {name}_fit gives are the largest that they may have. */
void {name}_made(const struct {name}* instance, struct {name}_output_shapes* outputs);
)";

constexpr const char* kOptions = R"(struct {name}_options {{
  /* More than {guard}_THREADS is taken as that. 0: that, or as many as there are CPUs to run on. */
  int32_t threads;
  /* On a machine with several memory nodes (NUMA): 0: memory lies where it is first touched; 1: in equal parts, the
     i-th near the i-th of cpus; 2: page by page near all of them. 1 and 2 need cpus. */
  int32_t placement;
  /* The host's own loop: calls task over all of [0, n), returns when done. NULL: threads of the instance. */
  void (*parallel_for)(void* host, int64_t n, {name}_task task, void* ctx);
  void* host;               /* parallel_for's first argument */
  const char* weights_path; /* where weights lie beside the object: their file; NULL: in the object's directory */
  /* A CPU for each thread, where it stays; the first is the caller's, which isn't touched. NULL: the system chooses. */
  const int32_t* cpus;
  /* Room for a text of why_bytes, its end included: why {name}_create returned NULL. May be NULL. */
  char* why;
  int64_t why_bytes;
}};
)";

// Laid out as those for CPUs, so that one program can be compiled for either.
constexpr const char* kCudaOptions = R"(struct {name}_options {{
  int32_t threads, placement; /* of artifacts for CPUs, as the next two and cpus; not used */
  void (*parallel_for)(void* host, int64_t n, {name}_task task, void* ctx);
  void* host;
  const char* weights_path; /* where weights lie beside the object: their file; NULL: in the object's directory */
  const int32_t* cpus;
  /* Room for a text of why_bytes, its end included: why {name}_create returned NULL. May be NULL. */
  char* why;
  int64_t why_bytes;
  int32_t device; /* its number, as CUDA counts them */
}};
)";

constexpr const char* kHeader =
    R"(/* {name}, made by Nestor for {target}. Link with the object beside this header; it needs {needs}.
{notes} *
 *   struct {name}* m = {name}_create(NULL);
 *   struct {name}_inputs in = {{...}};
 *   struct {name}_outputs out = {{...}};
 *   {name}_run(m, &in, &out);
 *   {name}_destroy(m);
 *
 * Tensors are dense and row major; outputs overlap nothing. An instance does one run at a time: another thread's gets
 * {guard}_BUSY. Any number of instances may run at the same time on threads of their own.{device_notes} */
#ifndef NESTOR_{name}_H
#define NESTOR_{name}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {guard}_ARENA_BYTES {arena}     /* memory of an instance: values between kernels */
#define {guard}_WORKSPACE_BYTES {workspace} /* and scratch */
#define {guard}_WEIGHTS_BYTES {weights}   /* {weights_note} */
#define {guard}_THREADS {threads}

/* What {name}_run returns besides 0. */
#define {guard}_BUSY 1 /* the instance is in a run, of another thread; nothing was done */
#define {guard}_BAD_INDEX 2 /* an index is out of range, where it was compiled with --check-indices, or a branch was taken that isn't for these sizes; outputs are undefined */
#define {guard}_TOO_MANY_TRIPS 4 /* a loop goes on for more iterations than --max-trips allows; outputs are undefined */
{device_results}
struct {name}; /* an instance */

struct {name}_inputs {{
{inputs}}};

struct {name}_outputs {{
{outputs}}};

/* Runs iterations [begin, end); worker is in 0 .. threads-1 and distinct among calls running at the same time. */
typedef void (*{name}_task)(void* ctx, int64_t begin, int64_t end, int32_t worker);

{options}
struct {name}* {name}_create(const struct {name}_options* options); /* NULL for defaults; returns NULL on failure */
int32_t {name}_run(struct {name}* instance, const struct {name}_inputs* inputs, const struct {name}_outputs* outputs); /* 0 */
void {name}_destroy(struct {name}* instance);
{device_functions}
#ifdef __cplusplus
}}
#endif
#endif
)";

}  // namespace

namespace {

// What differs between artifacts for CPUs and for CUDA.
struct Words {
  std::string target, needs, weights_note, device_notes, device_results, device_functions;
  const char* options = kOptions;
};

std::string header_of(const Plan& plan, const std::string& name, const Words& words,
                      const std::vector<std::string>& notes) {
  std::string lines;
  for (const std::string& note : notes) lines += " * " + in_comment(note) + "\n";
  std::string guard;
  for (char c : name) guard += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto named = [&](const std::string& text) {
    return fmt::format(fmt::runtime(text), fmt::arg("name", name), fmt::arg("guard", guard),
                       fmt::arg("symbols", symbol_lines(plan.sizes)),
                       fmt::arg("input_shapes", shape_members(plan.inputs, name)),
                       fmt::arg("output_shapes", shape_members(plan.outputs, name)));
  };
  return fmt::format(
      fmt::runtime(kHeader), fmt::arg("name", name), fmt::arg("guard", guard), fmt::arg("notes", lines),
      fmt::arg("target", words.target), fmt::arg("needs", words.needs),
      fmt::arg("weights_note", words.weights_note), fmt::arg("device_notes", named(words.device_notes)),
      fmt::arg("device_results", named(words.device_results)),
      fmt::arg("device_functions", named(words.device_functions)), fmt::arg("options", named(words.options)),
      fmt::arg("arena", plan.arena_bytes), fmt::arg("workspace", plan.workspace_bytes),
      fmt::arg("weights", plan.weights.bytes()), fmt::arg("threads", plan.threads),
      fmt::arg("inputs", members(plan.inputs, name, "const ")),
      fmt::arg("outputs", members(plan.outputs, name, "")));
}

}  // namespace

std::string artifact_header(const Plan& plan, const std::string& name, const Target& target,
                            const std::vector<std::string>& notes) {
  Words words;
  words.target = target.name + (target.cpu.empty() ? "" : " (" + target.cpu + ")");
  words.needs = "libc and libm only";
  words.weights_note = "shared by all instances";
  if (plan.sizes.any()) words.device_functions = kSizes;
  if (plan.sizes.made != plan.sizes.outputs) words.device_functions += kMade;
  return header_of(plan, name, words, notes);
}

std::string artifact_header(const CudaArtifact& artifact, const std::string& name,
                            const std::vector<std::string>& notes) {
  Words words;
  words.target = artifact.targets;
  words.needs =
      "libc, and NVIDIA's driver\n * (libcuda.so.1), which is loaded when the first instance is made";
  words.weights_note = "of each instance, too";
  words.device_notes = R"(
 *
 * Each pointer of inputs and outputs is to memory of the host, whose content is copied, or of the device. Inputs there
 * have to be complete: a run waits for no stream of the caller's. Outputs are complete when it returns.)";
  words.device_results =
      "#define {guard}_DEVICE_FAILED 3 /* the device or its driver; {name}_why says what, outputs are "
      "undefined */\n";
  words.device_functions =
      "/* What the last run failed by that returned {guard}_DEVICE_FAILED. */\n"
      "const char* {name}_why(const struct {name}* instance);\n";
  words.options = kCudaOptions;
  return header_of(artifact.plan.plan, name, words, notes);
}

namespace {

std::string description_of(const Plan& plan, const std::string& name, const std::string& target,
                           const std::string& cpu) {
  nlohmann::ordered_json json = {{"name", name},
                                 {"target", target},
                                 {"cpu", cpu},
                                 {"threads", plan.threads},
                                 {"arena_bytes", plan.arena_bytes},
                                 {"workspace_bytes", plan.workspace_bytes},
                                 {"weights_bytes", plan.weights.bytes()},
                                 {"flops", plan.flops.done},
                                 {"effective_flops", plan.flops.effective},
                                 {"inputs", list_of(plan.inputs)},
                                 {"outputs", list_of(plan.outputs)}};
  if (!plan.flops.of.empty()) json["flops_of"] = plan.flops.of;
  return json.dump();
}

}  // namespace

std::string artifact_description(const Plan& plan, const std::string& name, const Target& target) {
  return description_of(plan, name, target.name, target.cpu);
}

std::string artifact_description(const CudaArtifact& artifact, const std::string& name) {
  return description_of(artifact.plan.plan, name, artifact.targets, "");
}

}  // namespace nestor
