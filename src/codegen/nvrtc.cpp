// CUDA C++ to PTX or cubin by NVRTC, loaded at run time. No GPU is needed for that.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "nestor/cuda.h"
#include "nestor/error.h"
#include "runtime/cuda_driver_rt.h"
#include "src/codegen/dynamic_library.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace nestor {

namespace {

// NVRTC loads a library of its own and unloads it without its memory; that isn't our leak.
struct NotOurLeaks {
#if defined(__SANITIZE_ADDRESS__)
  __lsan::ScopedDisabler disabled;
#endif
  NotOurLeaks() {}
};

using Program = struct NvrtcProgram*;

// NVRTC's functions, with its status codes as int (0: success).
struct Nvrtc {
  DynamicLibrary library;
  int (*version)(int*, int*);
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*destroy)(Program*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);

  Nvrtc() : library(names()) {
    version = library.function<int(int*, int*)>("nvrtcVersion");
    create =
        library
            .function<int(Program*, const char*, const char*, int, const char* const*, const char* const*)>(
                "nvrtcCreateProgram");
    compile = library.function<int(Program, int, const char* const*)>("nvrtcCompileProgram");
    destroy = library.function<int(Program*)>("nvrtcDestroyProgram");
    log_size = library.function<int(Program, size_t*)>("nvrtcGetProgramLogSize");
    log = library.function<int(Program, char*)>("nvrtcGetProgramLog");
    ptx_size = library.function<int(Program, size_t*)>("nvrtcGetPTXSize");
    ptx = library.function<int(Program, char*)>("nvrtcGetPTX");
    cubin_size = library.function<int(Program, size_t*)>("nvrtcGetCUBINSize");
    cubin = library.function<int(Program, char*)>("nvrtcGetCUBIN");
  }
  bool usable() const { return library.loaded() && version && create && compile && cubin; }

  static std::vector<std::string> names() {
    std::vector<std::string> out;
    if (const char* path = std::getenv("NESTOR_NVRTC")) out.emplace_back(path);
    for (const char* folder :
         {"", "/usr/local/cuda/lib64/", "/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/"})
      for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
        out.push_back(std::string(folder) + name);
    return out;
  }
};

const Nvrtc& nvrtc() {
  static const Nvrtc instance;
  return instance;
}

struct Compiled {
  std::string result, log;
};

Compiled compile_as(const std::string& source, const std::string& arch, int (*Nvrtc::*size)(Program, size_t*),
                    int (*Nvrtc::*get)(Program, char*), bool verbose = false) {
  const Nvrtc& n = nvrtc();
  if (!n.usable())
    throw UserError(
        Diagnostic{"NVRTC is not on this machine, so CUDA source can't be compiled",
                   {},
                   {},
                   "install the CUDA toolkit or the Python package nvidia-cuda-nvrtc and set NESTOR_NVRTC to "
                   "its library; the source itself needs neither (--stage cuda)"});
  const NotOurLeaks scope;
  Program program = nullptr;
  if (n.create(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr) != 0)
    throw InternalError("NVRTC can't make a program");
  const std::string flag = "--gpu-architecture=" + arch;
  // Contraction is done in the IR (contract_fma), as for CPUs, so that the emulation and the GPU agree.
  const char* flags[] = {flag.c_str(), "--std=c++17", "--fmad=false", "--ptxas-options=-v"};
  const int status = n.compile(program, verbose ? 4 : 3, flags);
  size_t bytes = 0;
  n.log_size(program, &bytes);
  std::string log(bytes, '\0');
  if (bytes > 1) n.log(program, log.data());
  std::string result;
  if (status == 0 && (n.*size)(program, &bytes) == 0) {
    result.resize(bytes);
    (n.*get)(program, result.data());
  }
  n.destroy(&program);
  if (status != 0) throw UserError(Diagnostic{"NVRTC refuses the kernel for " + arch, {}, {log.c_str()}, ""});
  return {std::move(result), std::move(log)};
}

// The number before a word; 0 where the line has none.
int64_t number_before(const std::string& line, const char* word) {
  const size_t at = line.find(word);
  if (at == std::string::npos) return 0;
  size_t from = at;
  while (from > 0 && std::isdigit(static_cast<unsigned char>(line[from - 1]))) --from;
  return from == at ? 0 : std::stoll(line.substr(from, at - from));
}

}  // namespace

std::string compile_ptx(const std::string& source, const Target& target) {
  std::string ptx =
      compile_as(source, "compute_" + target.sm.substr(3), &Nvrtc::ptx_size, &Nvrtc::ptx).result;
  while (!ptx.empty() && ptx.back() == '\0') ptx.pop_back();
  return ptx;
}

std::string compile_cubin(const std::string& source, const Target& target) {
  return compile_as(source, target.sm, &Nvrtc::cubin_size, &Nvrtc::cubin).result;
}

std::vector<KernelResources> kernel_resources(const std::string& source, const Target& target) {
  std::vector<KernelResources> out;
  std::istringstream log(compile_as(source, target.sm, &Nvrtc::cubin_size, &Nvrtc::cubin, true).log);
  for (std::string line; std::getline(log, line);) {
    const char* const entry = "Compiling entry function '";
    if (const size_t at = line.find(entry); at != std::string::npos) {
      const size_t from = at + std::strlen(entry);
      out.emplace_back().kernel = line.substr(from, line.find('\'', from) - from);
    }
    if (out.empty()) continue;
    KernelResources& k = out.back();
    k.registers = std::max(k.registers, static_cast<int>(number_before(line, " registers")));
    k.spilled_bytes = std::max(k.spilled_bytes, number_before(line, " bytes spill stores"));
    k.stack_bytes = std::max(k.stack_bytes, number_before(line, " bytes stack frame"));
  }
  return out;
}

int nvrtc_version() {
  int major = 0, minor = 0;
  return nvrtc().usable() && nvrtc().version(&major, &minor) == 0 ? 1000 * major + 10 * minor : 0;
}

CudaStatus cuda_status() {
  CudaStatus status;
  if (const int version = nvrtc_version())
    status.nvrtc = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  nestor_cuda_driver driver{};
  int device = 0;
  char text[256] = "";
  if (nestor_find_cuda_driver(&driver) || driver.device(&device, 0) != 0 ||
      driver.device_name(text, sizeof text, device) != 0)
    return status;
  status.gpu = text;
  int khz = 0, multiprocessors = 0;
  driver.attribute(&khz, NESTOR_CUDA_CLOCK_KHZ, device);
  driver.attribute(&multiprocessors, NESTOR_CUDA_MULTIPROCESSORS, device);
  // CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions": FMAs of f32 a cycle.
  const int sm = nestor_cuda_capability(&driver, device), lanes = sm == 75 || sm == 80 ? 64 : 128;
  status.gflops = 2.0 * lanes * multiprocessors * khz * 1e-6;
  return status;
}

}  // namespace nestor
