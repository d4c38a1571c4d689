// Linking with LLD as a library, so that no system linker or compiler is needed. libc.so.6 and libm.so.6 of
// this very process stand for the system's: no development package has to be installed to resolve symbols
// against them.

#include "src/codegen/link.h"

#include <link.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Triple.h>

#include <filesystem>
#include <mutex>

#include "nestor/error.h"

LLD_HAS_DRIVER(elf)

namespace nestor {

namespace {

int find_c_library(dl_phdr_info* info, size_t, void* found) {
  const std::string path = info->dlpi_name ? info->dlpi_name : "";
  const std::string file = std::filesystem::path(path).filename();
  if (file == "libc.so.6" || file == "libm.so.6")
    static_cast<std::vector<std::string>*>(found)->push_back(path);
  return 0;
}

// Paths of libc and libm for the target; empty for a foreign machine without a cross sysroot.
std::vector<std::string> c_libraries(const llvm::Triple& triple) {
  std::vector<std::string> found;
  const llvm::Triple host(host_target().triple);
  if (triple.getArch() == host.getArch()) {
    dl_iterate_phdr(find_c_library, &found);
    return found;
  }
  const std::string sysroot = "/usr/" + triple.getArchName().str() + "-linux-gnu/lib/";
  for (const char* file : {"libc.so.6", "libm.so.6"})
    if (std::filesystem::exists(sysroot + file)) found.push_back(sysroot + file);
  return found;
}

}  // namespace

void link_shared(const std::string& object_path, const std::string& output_path, const std::string& soname,
                 const Target& target) {
  const std::vector<std::string> libraries = c_libraries(llvm::Triple(target.triple));
  std::vector<std::string> args = {"ld.lld",
                                   "-shared",
                                   "-soname",
                                   soname,
                                   "-o",
                                   output_path,
                                   object_path,
                                   "-z",
                                   "relro",
                                   "-z",
                                   "now",
                                   "-z",
                                   "noexecstack",
                                   "--build-id=none",
                                   "--hash-style=gnu",
                                   "--strip-all",
                                   "--gc-sections",
                                   "--as-needed"};
  // Without the target's C library, undefined symbols can only be found when the artifact is loaded.
  if (!libraries.empty()) args.insert(args.end(), {"-z", "defs"});
  args.insert(args.end(), libraries.begin(), libraries.end());
  std::vector<const char*> argv;
  for (const std::string& a : args) argv.push_back(a.c_str());

  static std::mutex mutex;  // LLD keeps global state
  std::lock_guard lock(mutex);
  std::string output, errors;
  llvm::raw_string_ostream out(output), err(errors);
  const lld::Result result = lld::lldMain(argv, out, err, {{lld::Gnu, &lld::elf::link}});
  NESTOR_CHECK(result.retCode == 0) << "linking " << soname << " failed:\n" << errors;
}

}  // namespace nestor
