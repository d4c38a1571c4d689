// The driver's functions under NVIDIA's names, for the emulated device. Environment variables describe the
// device:
//  - NESTOR_STUB_KERNELS: libraries of emulated kernels, with colons between, in place of the given images
//  - NESTOR_STUB_SM: its compute capability, by default 80
//  - NESTOR_STUB_DRIVER: the version of its driver, by default 13000
//  - NESTOR_STUB_MEMORY: its memory in bytes
//  - NESTOR_STUB_REFUSES: it can't load any image
//  - NESTOR_STUB_LOG: a file for the numbers of launches and of launched graphs, written at the end
//  - NESTOR_STUB_NO_GRAPHS: the driver has no graphs
#include <cstdio>
#include <cstdlib>

#include "src/emulate/device.h"
#include "src/emulate/driver.h"

namespace {

long long number(const char* name, long long otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

struct FromEnvironment {
  FromEnvironment() {
    nestor::EmulatedDevice& d = nestor::emulated_device();
    d.sm = static_cast<int>(number("NESTOR_STUB_SM", 80));
    d.driver_version = static_cast<int>(number("NESTOR_STUB_DRIVER", 13000));
    d.memory = static_cast<size_t>(number("NESTOR_STUB_MEMORY", 1LL << 40));
    d.refuses = std::getenv("NESTOR_STUB_REFUSES") != nullptr;
    if (const char* kernels = std::getenv("NESTOR_STUB_KERNELS")) d.kernels = kernels;
  }
  ~FromEnvironment() {
    const char* path = std::getenv("NESTOR_STUB_LOG");
    std::FILE* log = path ? std::fopen(path, "w") : nullptr;
    if (!log) return;
    const nestor::EmulatedDevice& d = nestor::emulated_device();
    std::fprintf(log, "%d launches, %d of graphs\n", d.launches, d.graph_launches);
    std::fclose(log);
  }
} from_environment;

}  // namespace

#define NESTOR_EXPORT(member, symbol, parameters, arguments) \
  extern "C" int symbol parameters {                         \
    return nestor::emulated::member arguments;               \
  }
NESTOR_CUDA_FUNCTIONS(NESTOR_EXPORT)

// A real driver without them lacks the symbols; this one can't make a graph of anything.
#define NESTOR_EXPORT_GRAPH(member, symbol, parameters, arguments)                          \
  extern "C" int symbol parameters {                                                        \
    return std::getenv("NESTOR_STUB_NO_GRAPHS") ? 801 : nestor::emulated::member arguments; \
  }
NESTOR_CUDA_GRAPH_FUNCTIONS(NESTOR_EXPORT_GRAPH)

// NVRTC asks a driver for its cache of compiled code. There is none: a table of functions without any, which
// begins with its size.
extern "C" int cuGetExportTable(const void** table, const void*) {
  static const size_t empty = sizeof empty;
  *table = &empty;
  return 0;
}
