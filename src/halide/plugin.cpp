// The library's C functions: text to Halide's machine code, and calls of it. Halide reports by exceptions,
// which end here.
#include <array>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "nestor/halide_plugin.h"
#include "nestor/parse.h"
#include "src/halide/translate.h"

struct nestor_halide_function {
  Halide::Callable code;
  std::string schedule;
  struct Argument {
    size_t parameter = 0;
    std::vector<halide_dimension_t> dims;
    halide_type_t type;
  };
  std::vector<Argument> arguments;  // in the order of the callable's
};

namespace {

using nestor::halide::Translation;
using nestor::halide::Unsupported;

constexpr size_t kMostArguments = 12;

// The callable is variadic, so that its arguments' number is fixed here.
template <size_t... I>
int call_with(const Halide::Callable& code, halide_buffer_t* b, std::index_sequence<I...>) {
  return code((b + I)...);
}

template <size_t N = 1>
int call(const Halide::Callable& code, halide_buffer_t* b, size_t count) {
  if constexpr (N <= kMostArguments) {
    if (count == N) return call_with(code, b, std::make_index_sequence<N>());
    return call<N + 1>(code, b, count);
  }
  return halide_error_code_internal_error;
}

std::string autoschedule(Halide::Pipeline& pipeline, const Halide::Target& target,
                         const std::string& scheduler, int threads) {
  static std::set<std::string> loaded;
  const std::string name = scheduler == "mullapudi2016" ? "Mullapudi2016" : "Adams2019";
  if (loaded.insert(scheduler).second)
    Halide::load_plugin(std::string(NESTOR_HALIDE_LIBRARIES) + "/libautoschedule_" + scheduler + ".so");
  Halide::AutoschedulerParams params(name, {{"parallelism", std::to_string(threads)}});
  return pipeline.apply_autoscheduler(target, params).schedule_source;
}

// The arguments' extents and strides, which never change.
nestor_halide_function::Argument argument(const nestor::PrimFunc& f, size_t parameter) {
  nestor_halide_function::Argument a;
  a.parameter = parameter;
  const nestor::BufferDecl& decl = f.params[parameter].decl;
  a.type = nestor::halide::type_of(decl.buffer->type.dtype);
  int stride = 1;
  for (const int extent : nestor::halide::extents_of(decl)) {
    a.dims.emplace_back(0, extent, stride);
    stride *= extent;
  }
  return a;
}

nestor_halide_function* compile(const char* text, const std::string& scheduler, int threads) {
  const nestor::PrimFunc f = nestor::parse_func(text);
  Translation t = nestor::halide::translate(f);
  auto out = std::make_unique<nestor_halide_function>();
  for (const bool outputs : {false, true})
    for (size_t p = 0; p < f.params.size(); ++p)
      if ((f.params[p].role == nestor::Role::out) == outputs) out->arguments.push_back(argument(f, p));
  if (out->arguments.size() > kMostArguments)
    throw Unsupported("more than " + std::to_string(kMostArguments) + " parameters");
  const Halide::Target target = Halide::get_jit_target_from_environment();
  Halide::Pipeline pipeline(t.outputs);
  if (scheduler == "none") {
    for (const Halide::Func& output : t.outputs)
      for (auto& [name, function] : Halide::Internal::find_transitive_calls(output.function()))
        Halide::Func(function).compute_root();
  } else if (scheduler == "mullapudi2016" || scheduler == "adams2019") {
    out->schedule = autoschedule(pipeline, target, scheduler, threads);
  } else {
    throw Unsupported("the autoscheduler " + scheduler + "; there are mullapudi2016, adams2019 and none");
  }
  Halide::Internal::JITSharedRuntime::set_num_threads(threads);
  std::vector<Halide::Argument> arguments;
  for (const Halide::ImageParam& p : t.inputs) arguments.push_back(p);
  out->code = pipeline.compile_to_callable(arguments, target);
  return out.release();
}

char* copy(const char* text) {
  char* out = static_cast<char*>(std::malloc(std::strlen(text) + 1));
  return out ? std::strcpy(out, text) : nullptr;
}

}  // namespace

extern "C" {

nestor_halide_function* nestor_halide_compile(const char* func, const char* scheduler, int32_t threads,
                                              char** error) try {
  return compile(func, scheduler, threads);
} catch (const Unsupported& e) {
  *error = copy((std::string("Halide's back end doesn't support ") + e.what()).c_str());
  return nullptr;
} catch (const Halide::Error& e) {
  *error = copy((std::string("Halide: ") + e.what()).c_str());
  return nullptr;
} catch (const std::exception& e) {
  *error = copy(e.what());
  return nullptr;
}

int32_t nestor_halide_run(nestor_halide_function* f, void* const* args, char** error) try {
  std::array<halide_buffer_t, kMostArguments> buffers{};
  for (size_t i = 0; i < f->arguments.size(); ++i) {
    nestor_halide_function::Argument& a = f->arguments[i];
    buffers[i].host = static_cast<uint8_t*>(args[a.parameter]);
    buffers[i].type = a.type;
    buffers[i].dimensions = static_cast<int32_t>(a.dims.size());
    buffers[i].dim = a.dims.data();
  }
  const int code = call(f->code, buffers.data(), f->arguments.size());
  if (code == 0) return 0;
  *error = copy(("Halide: error " + std::to_string(code)).c_str());
  return 1;
} catch (const Halide::Error& e) {
  *error = copy((std::string("Halide: ") + e.what()).c_str());
  return 1;
}

const char* nestor_halide_schedule(const nestor_halide_function* f) {
  return f->schedule.c_str();
}
void nestor_halide_free(nestor_halide_function* f) {
  delete f;
}
void nestor_halide_free_text(char* text) {
  std::free(text);
}
const char* nestor_halide_version() {
  static const std::string version = std::to_string(HALIDE_VERSION_MAJOR) + "." +
                                     std::to_string(HALIDE_VERSION_MINOR) + "." +
                                     std::to_string(HALIDE_VERSION_PATCH);
  return version.c_str();
}
}
