#include "src/emulate/device.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <vector>

#include "src/emulate/blocks.h"
#include "src/emulate/driver.h"
#include "src/emulate/races.h"

namespace nestor {

namespace {

// The driver's codes.
enum Status {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinary = 209,
  kUnsupportedPtx = 222,
  kNotFound = 500,
  kLaunchFailed = 719
};

constexpr int kMostShared = 227 << 10, kMostUnasked = 48 << 10;

struct Function {
  const EmulatedLibrary* library;
  const EmulatedKernel* kernel;
  unsigned most_shared = kMostUnasked;  // of a launch
};

struct Module {
  std::vector<std::unique_ptr<EmulatedLibrary>> libraries;
  std::map<std::string, Function> functions;
};

struct Work {
  const Function* function = nullptr;  // null: a copy
  EmulatedLaunch launch;
  std::vector<unsigned long long> args;
  nestor_device_pointer to = 0, from = 0;
  size_t bytes = 0;
};
using Graph = std::vector<Work>;

struct Stream {
  std::unique_ptr<Graph> captured;  // null: not now
};

// One device, which does one thing at a time.
struct State {
  std::mutex mutex;
  EmulatedDevice device;
  std::map<nestor_device_pointer, std::unique_ptr<unsigned char[]>> memory;
  std::map<nestor_device_pointer, size_t> sizes;
  size_t used = 0;
  std::string problem;  // of the last launch
};
State& state() {
  static State s;
  return s;
}

void* to_host(nestor_device_pointer p) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(p));
}

// How many bytes each argument points to, at most: up to the next argument, or to the end of what was
// allocated.
std::vector<size_t> room_of(const std::vector<unsigned long long>& args) {
  std::vector<size_t> out;
  for (const nestor_device_pointer p : args) {
    auto it = state().sizes.upper_bound(p);
    if (it == state().sizes.begin()) return {};
    --it;
    nestor_device_pointer end = it->first + it->second;
    for (const nestor_device_pointer other : args)
      if (other > p) end = std::min(end, other);
    out.push_back(end > p ? end - p : 0);
  }
  return out;
}

int do_now(const Work& w) {
  if (!w.function) {
    std::memmove(to_host(w.to), to_host(w.from), w.bytes);
    return kSuccess;
  }
  const EmulatedLibrary* library = w.function->library;
  const EmulatedKernel* kernel = w.function->kernel;
  std::vector<unsigned long long> values = w.args;
  std::vector<void*> args;
  for (unsigned long long& v : values) args.push_back(&v);
  args.push_back(nullptr);
  ++state().device.launches;
  EmulatedLaunch launch = w.launch;
  RaceChecker races(*kernel);
  if (library->traced()) {
    launch.bytes = room_of(w.args);
    launch.observers = {&races};
  }
  state().problem = run_emulated(*library, *kernel, args.data(), launch);
  return state().problem.empty() ? kSuccess : kLaunchFailed;
}

int enqueue(void* stream, Work w) {
  std::lock_guard lock(state().mutex);
  auto* s = static_cast<Stream*>(stream);
  if (!s || !s->captured) return do_now(w);
  s->captured->push_back(std::move(w));
  return kSuccess;
}

// Where the kernels of an image are: a library's path itself, or what stands for a real image that this
// device could load.
int find_libraries(const char* image, std::string& paths) {
  const EmulatedDevice& device = state().device;
  if (image[0] == '/' && image[1] != '/') {
    paths = image;
    return kSuccess;
  }
  if (device.kernels.empty()) return kInvalidImage;
  paths = device.kernels;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) {  // PTX
    const char* target = std::strstr(image, ".target sm_");
    return target && !device.refuses && std::atoi(target + std::strlen(".target sm_")) <= device.sm
               ? kSuccess
               : kUnsupportedPtx;
  }
  constexpr int kCuda = 190;
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  // As of version 8 of NVIDIA's ELF files; the lowest byte before.
  const unsigned sm = (header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 : header.e_flags) & 0xff;
  const bool loads =
      sm / 10 == static_cast<unsigned>(device.sm) / 10 && sm <= static_cast<unsigned>(device.sm);
  return header.e_machine == kCuda && loads && !device.refuses ? kSuccess : kNoBinary;
}

}  // namespace

EmulatedDevice& emulated_device() {
  return state().device;
}

namespace emulated {

int init(unsigned) {
  return kSuccess;
}
int version(int* version) {
  *version = state().device.driver_version;
  return kSuccess;
}
int device(int* device, int number) {
  *device = number;
  return number == 0 ? kSuccess : kInvalidDevice;
}
int device_count(int* count) {
  *count = 1;
  return kSuccess;
}
int device_name(char* name, int size, int) {
  std::strncpy(name, state().device.name.c_str(), static_cast<size_t>(size));
  return kSuccess;
}
int attribute(int* value, int which, int) {
  *value = which == NESTOR_CUDA_MAJOR             ? state().device.sm / 10
           : which == NESTOR_CUDA_MINOR           ? state().device.sm % 10
           : which == NESTOR_CUDA_MULTIPROCESSORS ? 1
           : which == NESTOR_CUDA_CLOCK_KHZ       ? 1000000
                                                  : 0;
  return kSuccess;
}
int error_text(int status, const char** text) {
  switch (status) {
    case kOutOfMemory:
      *text = "out of memory";
      break;
    case kInvalidDevice:
      *text = "invalid device ordinal";
      break;
    case kInvalidImage:
      *text = "device kernel image is invalid";
      break;
    case kNoBinary:
      *text = "no kernel image is available for execution on the device";
      break;
    case kUnsupportedPtx:
      *text = "the provided PTX was compiled with an unsupported toolchain.";
      break;
    case kNotFound:
      *text = "named symbol not found";
      break;
    case kLaunchFailed:
      *text = state().problem.c_str();
      break;
    default:
      *text = "invalid argument";
  }
  return kSuccess;
}
int retain(void** context, int) {
  *context = &state();
  return kSuccess;
}
int release(int) {
  return kSuccess;
}
int push(void*) {
  return kSuccess;
}
int pop(void**) {
  return kSuccess;
}
int load(void** module, const void* image) {
  std::lock_guard lock(state().mutex);
  std::string paths;
  if (const int status = find_libraries(static_cast<const char*>(image), paths)) return status;
  auto m = std::make_unique<Module>();
  std::istringstream list(paths);
  for (std::string path; std::getline(list, path, ':');) {
    m->libraries.push_back(std::make_unique<EmulatedLibrary>(path));
    if (!m->libraries.back()->loaded()) return kInvalidImage;
  }
  *module = m.release();
  return kSuccess;
}
int unload(void* module) {
  delete static_cast<Module*>(module);
  return kSuccess;
}
int function(void** function, void* module, const char* name) {
  auto* m = static_cast<Module*>(module);
  for (const auto& l : m->libraries) {
    const EmulatedKernel* kernel = l->kernel(name);
    if (!kernel) continue;
    *function = &(m->functions[name] = {.library = l.get(), .kernel = kernel});
    return kSuccess;
  }
  return kNotFound;
}
int set_attribute(void* function, int attribute, int value) {
  if (attribute != NESTOR_CUDA_DYNAMIC_SHARED || value < 0 || value > kMostShared) return kInvalidValue;
  static_cast<Function*>(function)->most_shared = static_cast<unsigned>(value);
  return kSuccess;
}
int memory(size_t* free, size_t* total) {
  *total = state().device.memory;
  *free = *total - state().used;
  return kSuccess;
}
int allocate(nestor_device_pointer* memory, size_t bytes) {
  std::lock_guard lock(state().mutex);
  if (bytes > state().device.memory - state().used) return kOutOfMemory;
  constexpr size_t kAligned = 256;
  auto owned = std::make_unique<unsigned char[]>(bytes + kAligned);
  std::memset(owned.get(), 0xff, bytes + kAligned);
  *memory = (reinterpret_cast<uintptr_t>(owned.get()) + kAligned - 1) / kAligned * kAligned;
  state().used += bytes;
  state().sizes[*memory] = bytes;
  state().memory[*memory] = std::move(owned);
  return kSuccess;
}
int free(nestor_device_pointer memory) {
  std::lock_guard lock(state().mutex);
  const auto it = state().sizes.find(memory);
  if (it == state().sizes.end()) return kInvalidValue;
  state().used -= it->second;
  state().sizes.erase(it);
  state().memory.erase(memory);
  return kSuccess;
}
int pointer(void* value, int attribute, nestor_device_pointer pointer) {
  std::lock_guard lock(state().mutex);
  auto it = state().sizes.upper_bound(pointer);
  if (attribute != NESTOR_CUDA_MEMORY_TYPE || it == state().sizes.begin()) return kInvalidValue;
  --it;
  if (pointer - it->first >= it->second) return kInvalidValue;
  const unsigned type = NESTOR_CUDA_DEVICE_MEMORY;
  std::memcpy(value, &type, sizeof type);
  return kSuccess;
}
int to_device(nestor_device_pointer to, const void* from, size_t bytes, void*) {
  std::memcpy(nestor::to_host(to), from, bytes);
  return kSuccess;
}
int to_host(void* to, nestor_device_pointer from, size_t bytes, void*) {
  std::memcpy(to, nestor::to_host(from), bytes);
  return kSuccess;
}
int on_device(nestor_device_pointer to, nestor_device_pointer from, size_t bytes, void* stream) {
  Work w;
  w.to = to;
  w.from = from;
  w.bytes = bytes;
  return enqueue(stream, w);
}
int create_stream(void** stream, unsigned) {
  *stream = new Stream;
  return kSuccess;
}
int destroy_stream(void* stream) {
  delete static_cast<Stream*>(stream);
  return kSuccess;
}
int synchronize(void*) {
  return kSuccess;
}
int launch(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
           unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** args, void**) {
  constexpr unsigned kMostAlongYAndZ = 65535, kMostThreads = 1024;
  if (grid_y > kMostAlongYAndZ || grid_z > kMostAlongYAndZ || block_x * block_y * block_z > kMostThreads ||
      grid_x == 0 || grid_y == 0 || grid_z == 0 || block_x == 0 || block_y == 0 || block_z == 0)
    return kInvalidValue;
  Work w;
  w.function = static_cast<const Function*>(function);
  if (shared > w.function->most_shared) return kInvalidValue;
  w.launch.grid = {grid_x, grid_y, grid_z};
  w.launch.block = {block_x, block_y, block_z};
  w.launch.dynamic_shared = shared;
  for (int a = 0; a < w.function->kernel->args; ++a) {
    w.args.push_back(0);
    std::memcpy(&w.args.back(), args[a], sizeof(unsigned long long));  // all are pointers
  }
  return enqueue(stream, std::move(w));
}
int begin_capture(void* stream, int) {
  static_cast<Stream*>(stream)->captured = std::make_unique<Graph>();
  return kSuccess;
}
int end_capture(void* stream, void** graph) {
  *graph = static_cast<Stream*>(stream)->captured.release();
  return kSuccess;
}
int instantiate(void** executable, void* graph, unsigned long long) {
  *executable = new Graph(*static_cast<Graph*>(graph));
  return kSuccess;
}
int launch_graph(void* executable, void*) {
  std::lock_guard lock(state().mutex);
  ++state().device.graph_launches;
  for (const Work& w : *static_cast<Graph*>(executable))
    if (const int status = do_now(w)) return status;
  return kSuccess;
}
int destroy_graph(void* graph) {
  delete static_cast<Graph*>(graph);
  return kSuccess;
}
int destroy_executable(void* executable) {
  delete static_cast<Graph*>(executable);
  return kSuccess;
}

}  // namespace emulated

const nestor_cuda_driver& emulated_driver() {
#define NESTOR_MEMBER(member, symbol, parameters, arguments) emulated::member,
  static const nestor_cuda_driver driver = {NESTOR_CUDA_FUNCTIONS(NESTOR_MEMBER)
                                                NESTOR_CUDA_GRAPH_FUNCTIONS(NESTOR_MEMBER)};
#undef NESTOR_MEMBER
  return driver;
}

}  // namespace nestor
