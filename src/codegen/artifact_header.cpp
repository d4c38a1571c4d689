// What an artifact says of itself: the C header for people and compilers, and the JSON for load_artifact.

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "nestor/artifact.h"

namespace nestor {

namespace {

// C and C++ words that can't name a member.
const std::set<std::string>& reserved_words() {
  static const std::set<std::string> words = {
      "alignas",   "alignof",  "and",    "asm",      "auto",     "bool",     "break",     "case",
      "catch",     "char",     "class",  "const",    "continue", "default",  "delete",    "do",
      "double",    "else",     "enum",   "explicit", "export",   "extern",   "false",     "float",
      "for",       "friend",   "goto",   "if",       "inline",   "int",      "long",      "mutable",
      "namespace", "new",      "not",    "operator", "or",       "private",  "protected", "public",
      "register",  "restrict", "return", "short",    "signed",   "sizeof",   "static",    "struct",
      "switch",    "template", "this",   "throw",    "true",     "try",      "typedef",   "typename",
      "union",     "unsigned", "using",  "virtual",  "void",     "volatile", "while",     "xor"};
  return words;
}

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
    case DType::u8:
    case DType::boolean:
      return "uint8_t";
  }
  return "void";
}

// Member names, in order: identifiers made of the tensors' names, each once.
std::string members(const std::vector<PlanTensor>& tensors, const char* qualifier) {
  std::set<std::string> used;
  std::string out;
  for (const PlanTensor& t : tensors) {
    std::string name = c_identifier(t.name);
    for (int n = 2; !used.insert(name).second; ++n) name = c_identifier(t.name) + "_" + std::to_string(n);
    out += fmt::format("  {}{}* {}; /* {}{} */\n", qualifier, c_type(t.dtype), name,
                       to_string(t.dtype, t.shape), name == t.name ? "" : ", '" + t.name + "'");
  }
  return out.empty() ? "  void* none;\n" : out;
}

nlohmann::ordered_json list_of(const std::vector<PlanTensor>& tensors) {
  auto list = nlohmann::ordered_json::array();
  for (const PlanTensor& t : tensors)
    list.push_back({{"name", t.name}, {"dtype", std::string(name_of(t.dtype))}, {"shape", t.shape}});
  return list;
}

constexpr const char* kHeader =
    R"(/* {name}, made by Nestor for {target}. Link with the object beside this header; it needs libc and libm only.
 *
 *   struct {name}* m = {name}_create(NULL);
 *   struct {name}_inputs in = {{...}};
 *   struct {name}_outputs out = {{...}};
 *   {name}_run(m, &in, &out);
 *   {name}_destroy(m);
 *
 * Tensors are dense and row major; outputs overlap nothing. An instance does one run at a time; any number of instances
 * may run at the same time on threads of their own. */
#ifndef {guard}_H
#define {guard}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {guard}_ARENA_BYTES {arena}     /* memory of an instance: values between kernels */
#define {guard}_WORKSPACE_BYTES {workspace} /* and scratch */
#define {guard}_WEIGHTS_BYTES {weights}   /* shared by all instances */
#define {guard}_THREADS {threads}

struct {name}; /* an instance */

struct {name}_inputs {{
{inputs}}};

struct {name}_outputs {{
{outputs}}};

/* Runs iterations [begin, end); worker is in 0 .. threads-1 and distinct among calls running at the same time. */
typedef void (*{name}_task)(void* ctx, int64_t begin, int64_t end, int32_t worker);

struct {name}_options {{
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
}};

struct {name}* {name}_create(const struct {name}_options* options); /* NULL for defaults; returns NULL on failure */
int32_t {name}_run(struct {name}* instance, const struct {name}_inputs* inputs, const struct {name}_outputs* outputs); /* 0 */
void {name}_destroy(struct {name}* instance);

#ifdef __cplusplus
}}
#endif
#endif
)";

}  // namespace

std::string c_identifier(const std::string& text) {
  std::string out;
  for (char c : text) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) || out[0] == '_') out = "m" + out;
  return reserved_words().count(out) ? out + "_" : out;
}

std::string artifact_header(const Plan& plan, const std::string& name, const Target& target) {
  std::string guard;
  for (char c : name) guard += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(fmt::runtime(kHeader), fmt::arg("name", name), fmt::arg("guard", guard),
                     fmt::arg("target", target.name + (target.cpu.empty() ? "" : " (" + target.cpu + ")")),
                     fmt::arg("arena", plan.arena_bytes), fmt::arg("workspace", plan.workspace_bytes),
                     fmt::arg("weights", plan.weights.bytes()), fmt::arg("threads", plan.threads),
                     fmt::arg("inputs", members(plan.inputs, "const ")),
                     fmt::arg("outputs", members(plan.outputs, "")));
}

std::string artifact_description(const Plan& plan, const std::string& name, const Target& target) {
  nlohmann::ordered_json json = {{"name", name},
                                 {"target", target.name},
                                 {"cpu", target.cpu},
                                 {"threads", plan.threads},
                                 {"arena_bytes", plan.arena_bytes},
                                 {"workspace_bytes", plan.workspace_bytes},
                                 {"weights_bytes", plan.weights.bytes()},
                                 {"inputs", list_of(plan.inputs)},
                                 {"outputs", list_of(plan.outputs)}};
  return json.dump();
}

}  // namespace nestor
