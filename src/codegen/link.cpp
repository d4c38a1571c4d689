// Links with LLD as a library, so that no system linker or compiler is needed. Symbols are resolved against
// the libc.so.6 and libm.so.6 of this process, so no development package is needed either.
//
// LLD reads and writes files. Here these are in memory and a pipe: a file that LLD maps on a full disk would
// end the process by SIGBUS, and its temporary files would remain after a signal.

#include "src/codegen/link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <lld/Common/Driver.h>
#include <llvm/Object/ArchiveWriter.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Triple.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

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

[[noreturn]] void fail_memory() {
  throw UserError(std::string("can't link in memory: ") + std::strerror(errno));
}

struct Descriptor {
  int number = -1;
  explicit Descriptor(int n) : number(n) {
    if (n < 0) fail_memory();
  }
  Descriptor(Descriptor&& other) noexcept : number(std::exchange(other.number, -1)) {}
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(number); }
};

Descriptor in_memory(std::string_view bytes) {
  Descriptor file(memfd_create("nestor.o", MFD_CLOEXEC));
  while (!bytes.empty()) {
    const ssize_t n = write(file.number, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (n < 0 && errno != EINTR) fail_memory();
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return file;
}

// What is written to the path, kept by a thread.
class Drain {
 public:
  Drain() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail_memory();
    write_end_.emplace(ends[1]);
    reader_ = std::thread([this, from = Descriptor(ends[0])] {
      std::array<char, size_t{1} << 16> chunk;  // what a pipe holds
      for (ssize_t n = 1; n > 0 || (n < 0 && errno == EINTR);) {
        n = read(from.number, chunk.data(), chunk.size());
        if (n > 0) bytes_.append({chunk.data(), static_cast<size_t>(n)});
      }
    });
  }
  ~Drain() {
    write_end_.reset();
    if (reader_.joinable()) reader_.join();
  }
  std::string path() const { return write_end_->path(); }
  SparseBytes take() {
    write_end_.reset();
    reader_.join();
    return std::move(bytes_);
  }

 private:
  std::optional<Descriptor> write_end_;
  SparseBytes bytes_;
  std::thread reader_;
};

}  // namespace

SparseBytes link_shared(std::string_view object, const std::string& soname, const Target& target) {
  const std::vector<std::string> libraries = c_libraries(llvm::Triple(target.triple));
  const Descriptor input = in_memory(object);
  Drain output;
  std::vector<std::string> args = {"ld.lld",
                                   "-shared",
                                   "-soname",
                                   soname,
                                   "-o",
                                   output.path(),
                                   input.path(),
                                   "-z",
                                   "relro",
                                   "-z",
                                   "now",
                                   "-z",
                                   "noexecstack",
                                   "--build-id=none",
                                   "--hash-style=gnu",
                                   "--strip-all",
                                   "--as-needed"};
  // Without the target's C library, undefined symbols can only be found when the artifact is loaded.
  if (!libraries.empty()) args.insert(args.end(), {"-z", "defs"});
  args.insert(args.end(), libraries.begin(), libraries.end());
  std::vector<const char*> argv;
  for (const std::string& a : args) argv.push_back(a.c_str());

  static std::mutex mutex;  // LLD keeps global state
  std::lock_guard lock(mutex);
  std::string words, errors;
  llvm::raw_string_ostream out(words), err(errors);
  const lld::Result result = lld::lldMain(argv, out, err, {{lld::Gnu, &lld::elf::link}});
  NESTOR_CHECK(result.retCode == 0) << "linking " << soname << " failed:\n" << errors;
  return output.take();
}

std::string archive_of(std::string_view object, const std::string& member, size_t following) {
  std::vector<llvm::NewArchiveMember> members;
  members.emplace_back(llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), member));
  auto archive = llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NormalSymtab,
                                            llvm::object::Archive::K_GNU, true, false);
  NESTOR_CHECK(static_cast<bool>(archive)) << "making an archive: " << llvm::toString(archive.takeError());
  if (following == 0) return (*archive)->getBuffer().str();
  // The size stands in the last ten characters but two of the 60 before the object (ar.h), which may have a
  // byte behind it to be even.
  const llvm::StringRef whole = (*archive)->getBuffer().drop_back(object.size() % 2);
  NESTOR_CHECK(whole.ends_with(object)) << "an archive that doesn't end with its only member";
  const llvm::StringRef before = whole.drop_back(object.size() + 12);
  return fmt::format("{}{:<10}`\n{}", std::string_view(before), object.size() + following, object);
}

}  // namespace nestor
