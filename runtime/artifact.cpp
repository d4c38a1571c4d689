// Loading an artifact back: `nestor run m.so` and the tests use the same C ABI that the model's header
// declares. What the artifact says of itself (names, types, shapes) is JSON from its one generic symbol:
//
//   const char* nestor_model_v2(void);
//   {"name":"digits","target":"...","threads":1,"arena_bytes":4096,"workspace_bytes":0,"weights_bytes":1000,
//    "flops":9000.0,"effective_flops":9000.0,"inputs":[{"name":"x","dtype":"f32","shape":[1,64]}],
//    "outputs":[...]}
//
// "flops_of" has the shapes of the inputs for which operations were counted, where runs decide sizes.

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nestor/error.h"
#include "nestor/runtime.h"
#include "runtime/artifact_rt.h"
#include "runtime/fitted_sizes.h"

namespace nestor {

namespace {

std::vector<PlanTensor> tensors_of(const nlohmann::json& list) {
  std::vector<PlanTensor> tensors;
  for (const auto& entry : list) {
    const auto dtype = parse_dtype(entry.at("dtype").get<std::string>());
    if (!dtype) throw UserError("unknown element type " + entry.at("dtype").get<std::string>());
    PlanTensor t{entry.at("name").get<std::string>(), *dtype, {}};
    for (const auto& size : entry.at("shape")) {
      t.shape.push_back(size.is_string() ? kOpenSize : size.get<int64_t>());
      t.symbols.push_back(size.is_string() ? size.get<std::string>() : std::to_string(t.shape.back()));
    }
    if (std::find(t.shape.begin(), t.shape.end(), kOpenSize) == t.shape.end()) t.symbols.clear();
    tensors.push_back(std::move(t));
  }
  return tensors;
}

struct Closer {
  void operator()(void* handle) const { dlclose(handle); }
};

// What the file is code for, by its ELF header: the loader's own message for code of another machine is "no
// such file". Empty where this machine can run it.
std::string why_not_loadable(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return "it isn't a shared object";
  in.seekg(0, std::ios::end);  // the section headers end a file; where it is cut short the loader would crash
  const uint64_t sections = uint64_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff > 0 && static_cast<uint64_t>(in.tellg()) < header.e_shoff + sections)
    return "it is cut short";
  const auto name = [](int machine) -> std::string {
    return machine == EM_X86_64 ? "x86-64" : machine == EM_AARCH64 ? "aarch64" : "another processor";
  };
#if defined(__x86_64__)
  constexpr int kHere = EM_X86_64;
#elif defined(__aarch64__)
  constexpr int kHere = EM_AARCH64;
#endif
  if (header.e_machine == kHere) return "";
  return "it is code for " + name(header.e_machine) + ", and this machine is " + name(kHere);
}

// The file's path in a spelling that was never used: the loader gives the library again that it loaded by the
// same one, whatever the file holds by now. Of one file under two spellings it makes one library.
class Spelling {
 public:
  explicit Spelling(const std::string& path) {
    static std::atomic<uint64_t> used{0};
    const std::filesystem::path whole = std::filesystem::absolute(path);
    plain_ = new_ = whole.parent_path().string();
    for (uint64_t n = ++used; n > 0; n /= 2) new_ += n % 2 ? "/." : "/";
    file_ = "/" + whole.filename().string();
  }
  std::string text() const { return new_ + file_; }
  // What was said of it, in the usual spelling.
  std::string plain(std::string said) const {
    for (size_t at; (at = said.find(new_ + "/")) != std::string::npos;) said.replace(at, new_.size(), plain_);
    return said;
  }

 private:
  std::string plain_, new_, file_;
};

class Artifact : public Runnable {
 public:
  Artifact(const std::string& path, int threads, const std::vector<int32_t>& cpus, Placement placement)
      : path_(path), spelling_(path) {
    if (const std::string why = why_not_loadable(path); !why.empty())
      throw UserError(Diagnostic{
          "can't load " + path + ": " + why, {}, {}, "nestor compile --target native makes one for here"});
    handle_.reset(dlopen(spelling_.text().c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!handle_) throw UserError("can't load " + path + ": " + spelling_.plain(dlerror()));
    auto describe = reinterpret_cast<const char* (*)()>(dlsym(handle_.get(), "nestor_model_v2"));
    if (!describe)
      throw UserError(path + " is not an artifact of this version of nestor: it has no nestor_model_v2");
    read_description(describe());
    create_ = symbol<decltype(create_)>("_create");
    run_ = symbol<decltype(run_)>("_run");
    destroy_ = symbol<decltype(destroy_)>("_destroy");
    if (dlsym(handle_.get(), (name_ + "_fit").c_str())) {
      fit_ = symbol<decltype(fit_)>("_fit");
      why_ = symbol<decltype(why_)>("_why");
    }
    if (dlsym(handle_.get(), (name_ + "_made").c_str())) made_ = symbol<decltype(made_)>("_made");
    if (threads < 0) throw UserError("threads is negative");
    if (threads > 0) threads_ = std::min(threads, threads_);
    for (size_t i = 0; !cpus.empty() && i < static_cast<size_t>(threads_); ++i)
      cpus_.push_back(cpus[i % cpus.size()]);
    placement_ = placement == Placement::parts        ? NESTOR_PLACE_PARTS
                 : placement == Placement::interleave ? NESTOR_PLACE_INTERLEAVE
                                                      : NESTOR_PLACE_ANYWHERE;
    make_instance();
  }
  ~Artifact() override {
    if (instance_) destroy_(instance_);
  }
  Artifact(const Artifact&) = delete;

  void forked() override {
    destroy_(std::exchange(instance_, nullptr));
    make_instance();
  }

  const std::string& name() const override { return name_; }
  const std::vector<PlanTensor>& inputs() const override { return inputs_; }
  const std::vector<PlanTensor>& outputs() const override { return outputs_; }
  FlopCount flops() const override { return flops_; }
  int threads() const override { return threads_; }
  std::vector<Shape> fit(const std::vector<Shape>& inputs) override {
    if (!fit_) return Runnable::fit(inputs);
    std::vector<int64_t> dims = dims_of(inputs_, inputs), made;
    for (const PlanTensor& t : outputs_) made.resize(made.size() + t.shape.size());
    dims.push_back(0);  // a pointer also where there are none
    made.push_back(0);
    const int32_t rc = fit_(instance_, dims.data(), made.data());
    if (rc == NESTOR_BUSY) throw UserError(path_ + " is in a run of another thread: one run at a time");
    if (rc != 0) throw UserError(why_(instance_));
    return shapes_of(made);
  }
  std::vector<Shape> made() const override {
    if (!made_) return {};
    std::vector<int64_t> dims;
    for (const PlanTensor& t : outputs_) dims.resize(dims.size() + t.shape.size());
    dims.push_back(0);
    made_(instance_, dims.data());
    return shapes_of(dims);
  }
  void run_raw(const void* const* inputs, void* const* outputs) override {
    const int32_t rc = run_(instance_, inputs, outputs);
    if (rc == NESTOR_BUSY) throw UserError(path_ + " is in a run of another thread: one run at a time");
    if (rc == NESTOR_BAD_INDEX)
      throw UserError(path_ + ": an index is out of range, or a branch was taken that isn't for these sizes");
    if (rc == NESTOR_TOO_MANY_TRIPS)
      throw UserError(path_ + ": a loop goes on for more iterations than it was compiled for");
    if (rc == NESTOR_BAD_SIZES) throw UserError(path_ + ": " + why_(instance_));
    if (rc == NESTOR_DEVICE_FAILED)
      throw UserError(
          path_ + " failed on the device: " + symbol<const char* (*)(nestor_instance*)>("_why")(instance_));
    if (rc != 0) throw InternalError(path_ + ": " + name_ + "_run returned " + std::to_string(rc));
  }

 private:
  // Of the outputs, whose dimensions stand one after another.
  std::vector<Shape> shapes_of(const std::vector<int64_t>& dims) const {
    std::vector<Shape> out;
    auto size = dims.begin();
    for (const PlanTensor& t : outputs_) {
      out.emplace_back(size, size + static_cast<std::ptrdiff_t>(t.shape.size()));
      size += static_cast<std::ptrdiff_t>(t.shape.size());
    }
    return out;
  }
  void make_instance() {
    nestor_options options{};
    options.threads = threads_;
    options.cpus = cpus_.empty() ? nullptr : cpus_.data();
    options.placement = placement_;
    std::array<char, 1024> why{};
    options.why = why.data();
    options.why_bytes = why.size();
    instance_ = create_(&options);
    if (!instance_) throw UserError("can't start " + path_ + ": " + spelling_.plain(why.data()));
  }
  void read_description(const char* text) {
    try {
      const auto json = nlohmann::json::parse(text);
      name_ = json.at("name").get<std::string>();
      inputs_ = tensors_of(json.at("inputs"));
      outputs_ = tensors_of(json.at("outputs"));
      threads_ = json.at("threads").get<int>();
      flops_ = {json.at("flops").get<double>(), json.at("effective_flops").get<double>()};
      if (json.contains("flops_of")) flops_.of = json["flops_of"].get<std::vector<Shape>>();
    } catch (const nlohmann::json::exception& e) {
      throw UserError(path_ + ": its description can't be read: " + e.what());
    }
  }
  template <class F>
  F symbol(const char* suffix) {
    void* p = dlsym(handle_.get(), (name_ + suffix).c_str());
    if (!p) throw UserError(path_ + " has no symbol " + name_ + suffix);
    return reinterpret_cast<F>(p);
  }

  std::string path_, name_;
  int threads_ = 1;
  std::vector<int32_t> cpus_;
  nestor_placement placement_ = NESTOR_PLACE_ANYWHERE;
  Spelling spelling_;
  std::unique_ptr<void, Closer> handle_;
  std::vector<PlanTensor> inputs_, outputs_;
  FlopCount flops_;
  nestor_instance* (*create_)(const nestor_options*) = nullptr;
  int32_t (*run_)(nestor_instance*, const void* const*, void* const*) = nullptr;
  void (*destroy_)(nestor_instance*) = nullptr;
  int32_t (*fit_)(nestor_instance*, const int64_t*, int64_t*) = nullptr;  // where runs decide sizes
  const char* (*why_)(const nestor_instance*) = nullptr;
  void (*made_)(const nestor_instance*, int64_t*) = nullptr;  // where values do
  nestor_instance* instance_ = nullptr;
};

}  // namespace

std::unique_ptr<Runnable> load_artifact(const std::string& path, int threads,
                                        const std::vector<int32_t>& cpus, Placement placement) {
  if (!std::filesystem::exists(path)) throw UserError("can't load " + path + ": there is no such file");
  return std::make_unique<Artifact>(path, threads, cpus, placement);
}

}  // namespace nestor
