#include "tests/fuzz/inputs/target.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "nestor/error.h"

namespace nestor::fuzz {

namespace {

constexpr rlim_t kStack = rlim_t{2} << 30;  // four times the command line's: sanitizers make frames larger

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("nestor_fuzz_" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() {
    std::error_code ec;
    std::filesystem::remove_all(path, ec);
  }
};

[[noreturn]] void found(const char* what, const char* message) {
  std::fprintf(stderr, "%s: %s\n", what, message);
  std::abort();
}

}  // namespace

std::string as_file(const std::string& name, std::string_view bytes) {
  static const Folder folder;
  const std::string path = (folder.path / name).string();
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace nestor::fuzz

// The limit of the stack counts from a process's start on.
extern "C" int LLVMFuzzerInitialize(int*, char*** argv) {
  rlimit limit{};
  getrlimit(RLIMIT_STACK, &limit);
  if (limit.rlim_cur >= nestor::fuzz::kStack || limit.rlim_max < nestor::fuzz::kStack) return 0;
  limit.rlim_cur = nestor::fuzz::kStack;
  if (setrlimit(RLIMIT_STACK, &limit) == 0) execv("/proc/self/exe", *argv);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    nestor::fuzz::read_input({reinterpret_cast<const char*>(data), size});
  } catch (const nestor::UserError&) {
  } catch (const nestor::InternalError& e) {
    nestor::fuzz::found("internal error", e.what());
  } catch (const std::exception& e) {
    nestor::fuzz::found("not an error of ours", e.what());
  }
  return 0;
}
