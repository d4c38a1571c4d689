// Loads libnestor_halide.so (src/halide), which programs of the build folder find by their run path, and
// speaks with it in C.
#include "nestor/halide.h"

#include "dynamic_library.h"
#include "nestor/error.h"
#include "nestor/halide_plugin.h"
#include "nestor/print.h"

namespace nestor {

namespace {

struct Plugin {
  decltype(&nestor_halide_compile) compile = nullptr;
  decltype(&nestor_halide_run) run = nullptr;
  decltype(&nestor_halide_schedule) schedule = nullptr;
  decltype(&nestor_halide_free) free = nullptr;
  decltype(&nestor_halide_free_text) free_text = nullptr;
  decltype(&nestor_halide_version) version = nullptr;
};

const Plugin* load_plugin() {
#ifdef NESTOR_HALIDE_PLUGIN
  static const DynamicLibrary library({NESTOR_HALIDE_PLUGIN});
  if (!library.loaded()) return nullptr;
  const auto get = [&]<class F>(F*& to, const char* name) { to = library.function<F>(name); };
  static Plugin p;
  get(p.compile, "nestor_halide_compile");
  get(p.run, "nestor_halide_run");
  get(p.schedule, "nestor_halide_schedule");
  get(p.free, "nestor_halide_free");
  get(p.free_text, "nestor_halide_free_text");
  get(p.version, "nestor_halide_version");
  return p.compile && p.run && p.schedule && p.free && p.free_text && p.version ? &p : nullptr;
#else
  return nullptr;
#endif
}

const Plugin* find_plugin() {
  static const Plugin* const plugin = load_plugin();
  return plugin;
}

const Plugin& plugin() {
  if (const Plugin* p = find_plugin()) return *p;
  throw UserError(Diagnostic{
      "this build of nestor has no Halide back end",
      {},
      {},
      "./dev setup installs the Halide SDK; build again after it, and use nestor of the build folder"});
}

[[noreturn]] void fail(char* error, const std::string& function) {
  const std::string text = error ? error : "out of memory";
  if (error) plugin().free_text(error);
  throw UserError("function " + function + ": " + text);
}

}  // namespace

struct HalideFunction::Impl {
  nestor_halide_function* function = nullptr;
  std::string name;
  ~Impl() {
    if (function) plugin().free(function);
  }
};

std::string halide_version() {
  const Plugin* p = find_plugin();
  return p ? p->version() : "";
}

HalideFunction::HalideFunction(const PrimFunc& f, const std::string& scheduler, int threads)
    : impl_(std::make_unique<Impl>()) {
  impl_->name = f.name;
  char* error = nullptr;
  impl_->function = plugin().compile(print(f).c_str(), scheduler.c_str(), threads, &error);
  if (!impl_->function) fail(error, f.name);
}

HalideFunction::~HalideFunction() = default;
HalideFunction::HalideFunction(HalideFunction&&) noexcept = default;

void HalideFunction::run(void* const* args) const {
  char* error = nullptr;
  if (plugin().run(impl_->function, args, &error) != 0) fail(error, impl_->name);
}

std::string HalideFunction::schedule() const {
  return plugin().schedule(impl_->function);
}

}  // namespace nestor
