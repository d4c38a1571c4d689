// Running on a GPU through the driver's API, loaded at run time. One context per call: this is for checking
// and measuring single functions; weights that stay on the device are the runtime's business.
#include <memory>

#include "nestor/cuda.h"
#include "nestor/error.h"
#include "src/codegen/dynamic_library.h"

namespace nestor {

namespace {

using Context = struct CudaContext*;
using Module = struct CudaModule*;
using Function = struct CudaFunction*;
using Stream = struct CudaStream*;
using DevicePointer = unsigned long long;

// The driver's functions, with its status codes as int (0: success). "_v2" are the names of the 64-bit
// interface.
struct Driver {
  DynamicLibrary library{{"libcuda.so.1", "libcuda.so"}};
  int (*init)(unsigned) = library.function<int(unsigned)>("cuInit");
  int (*device)(int*, int) = library.function<int(int*, int)>("cuDeviceGet");
  int (*attribute)(int*, int, int) = library.function<int(int*, int, int)>("cuDeviceGetAttribute");
  int (*error_name)(int, const char**) = library.function<int(int, const char**)>("cuGetErrorName");
  int (*retain)(Context*, int) = library.function<int(Context*, int)>("cuDevicePrimaryCtxRetain");
  int (*release)(int) = library.function<int(int)>("cuDevicePrimaryCtxRelease_v2");
  int (*set_current)(Context) = library.function<int(Context)>("cuCtxSetCurrent");
  int (*synchronize)() = library.function<int()>("cuCtxSynchronize");
  int (*load)(Module*, const void*) = library.function<int(Module*, const void*)>("cuModuleLoadData");
  int (*unload)(Module) = library.function<int(Module)>("cuModuleUnload");
  int (*get)(Function*, Module,
             const char*) = library.function<int(Function*, Module, const char*)>("cuModuleGetFunction");
  int (*allocate)(DevicePointer*, size_t) = library.function<int(DevicePointer*, size_t)>("cuMemAlloc_v2");
  int (*free)(DevicePointer) = library.function<int(DevicePointer)>("cuMemFree_v2");
  int (*to_device)(DevicePointer, const void*,
                   size_t) = library.function<int(DevicePointer, const void*, size_t)>("cuMemcpyHtoD_v2");
  int (*to_host)(void*, DevicePointer,
                 size_t) = library.function<int(void*, DevicePointer, size_t)>("cuMemcpyDtoH_v2");
  int (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                void**,
                void**) = library.function<int(Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                                               unsigned, unsigned, Stream, void**, void**)>("cuLaunchKernel");

  void check(int status, const std::string& what) const {
    if (status == 0) return;
    const char* name = nullptr;
    if (error_name) error_name(status, &name);
    throw UserError("the GPU refuses " + what + ": " + (name ? name : "error " + std::to_string(status)));
  }
};

const Driver& driver() {
  static const Driver instance;
  return instance;
}

// The first device's context, current in this thread.
class Session {
 public:
  Session() {
    const Driver& d = driver();
    if (!d.launch || !d.init || d.init(0) != 0 || d.device(&device_, 0) != 0)
      throw UserError(Diagnostic{
          "there is no GPU on this machine", {}, {}, "CUDA code can be made without one: --stage cuda"});
    Context context = nullptr;
    d.check(d.retain(&context, device_), "a context");
    retained_ = true;
    d.check(d.set_current(context), "its context");
  }
  ~Session() {
    if (retained_) driver().release(device_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int capability() const {
    constexpr int major_attribute = 75, minor_attribute = 76;
    int major = 0, minor = 0;
    driver().attribute(&major, major_attribute, device_);
    driver().attribute(&minor, minor_attribute, device_);
    return 10 * major + minor;
  }

 private:
  int device_ = 0;
  bool retained_ = false;
};

struct Memory {
  explicit Memory(int64_t bytes) {
    driver().check(driver().allocate(&pointer, static_cast<size_t>(bytes > 0 ? bytes : 1)),
                   std::to_string(bytes) + " bytes of memory");
  }
  ~Memory() { driver().free(pointer); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  DevicePointer pointer = 0;
};

struct LoadedModule {
  explicit LoadedModule(const std::string& code) {
    driver().check(driver().load(&module, code.c_str()), "the compiled kernels");
  }
  ~LoadedModule() { driver().unload(module); }
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  Module module = nullptr;
};

// A cubin runs on devices of its own major version; PTX is compiled by the driver for any later one.
std::string code_for(const std::string& source, const Target& target, int capability) {
  const int wanted = std::stoi(target.sm.substr(3)), major = wanted / 10;
  if (capability < wanted || (target.sm.back() == 'a' && capability != wanted))
    throw UserError(Diagnostic{
        "this machine's GPU is sm_" + std::to_string(capability) + ", it can't run code for " + target.sm,
        {},
        {},
        "use --target cuda:sm_" + std::to_string(capability)});
  return capability / 10 == major ? compile_cubin(source, target) : compile_ptx(source, target);
}

}  // namespace

void run_cuda(const PrimFunc& lowered, const Target& target, std::vector<Tensor>& args) {
  const CudaProgram program = make_cuda(lowered, target);
  NESTOR_CHECK(args.size() == lowered.params.size())
      << lowered.name << " has " << lowered.params.size() << " parameters";
  const Session session;
  const Driver& d = driver();
  const LoadedModule code(code_for(program.source, target, session.capability()));
  std::vector<std::unique_ptr<Memory>> memory;
  for (const Tensor& t : args) {
    memory.push_back(std::make_unique<Memory>(t.bytes()));
    d.check(d.to_device(memory.back()->pointer, t.data(), static_cast<size_t>(t.bytes())), "a copy");
  }
  for (const int64_t bytes : program.temporary_bytes) memory.push_back(std::make_unique<Memory>(bytes));
  for (const CudaKernel& k : program.kernels) {
    Function function = nullptr;
    d.check(d.get(&function, code.module, k.name.c_str()), "kernel " + k.name);
    std::vector<void*> pointers;
    for (const int a : k.args) pointers.push_back(&memory[static_cast<size_t>(a)]->pointer);
    const auto size = [](int64_t n) { return static_cast<unsigned>(n); };
    if (k.grid[0] * k.grid[1] * k.grid[2] * k.block[0] * k.block[1] * k.block[2] == 0) continue;
    d.check(d.launch(function, size(k.grid[0]), size(k.grid[1]), size(k.grid[2]), size(k.block[0]),
                     size(k.block[1]), size(k.block[2]), 0, nullptr, pointers.data(), nullptr),
            "to launch " + k.name);
  }
  d.check(d.synchronize(), lowered.name);
  for (size_t i = 0; i < args.size(); ++i)
    if (lowered.params[i].role == Role::out)
      d.check(d.to_host(args[i].data(), memory[i]->pointer, static_cast<size_t>(args[i].bytes())),
              "a copy back");
}

}  // namespace nestor
