#include "nestor/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "nestor/error.h"
#include "runtime/temporaries.h"

namespace nestor {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw UserError("can't write " + path + ": " + why);
}
[[noreturn]] void fail(const std::string& path, int error) {
  fail(path, std::strerror(error));
}

// Where a path leads, and whether bytes go into what is there instead of into a new file.
struct Target {
  std::string final;
  bool through = false;
};

// The links of /proc/PID/fd name open files: what they seem to lead to may have moved or be gone.
bool names_open_file(const fs::path& link) {
  std::error_code none;
  return fs::canonical(link.parent_path(), none).string().starts_with("/proc/");
}

// Links are followed one by one, since the last may lead to a file that isn't there yet.
Target follow(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux has it
  fs::path at = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(at, error)); ++links) {
    if (links == kMostLinks) fail(path, ELOOP);
    if (names_open_file(fs::absolute(at))) return {at.string(), true};
    const fs::path next = fs::read_symlink(at, error);
    if (error) fail(path, error.message());
    at = at.parent_path() / next;
  }
  const fs::file_status status = fs::status(at, error);
  switch (status.type()) {
    case fs::file_type::directory:
      fail(path, "it is a directory");
    case fs::file_type::block:
    case fs::file_type::socket:
      fail(path, "it is neither a file nor something to write to");
    case fs::file_type::character:
    case fs::file_type::fifo:
      return {at.string(), true};
    case fs::file_type::regular:
      if (access(at.c_str(), W_OK) != 0) fail(path, errno);
      break;
    default:
      if (!at.has_filename()) fail(path, "it names no file");
  }
  return {at.string(), false};
}

// What a new file may be allowed, as the user's umask has it.
mode_t usual_mode() {
  static const mode_t mask = [] {
    const mode_t before = umask(077);
    umask(before);
    return before;
  }();
  return 0666 & ~mask;
}

int write_all(int file, std::string_view bytes) {  // 0 or the error
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

int write_through(const std::string& path, std::string_view bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return errno;
  const int error = write_all(file, bytes);
  return close(file) != 0 && !error ? errno : error;
}

int to_disk(int file) {  // not every file system has that
  return fsync(file) == 0 || errno == EINVAL || errno == ENOSYS || errno == EROFS ? 0 : errno;
}

}  // namespace

bool is_written_through(const std::string& path) {
  return follow(path).through;
}

PendingFiles::~PendingFiles() {
  discard();
}

void PendingFiles::discard() {
  for (const File& f : files_) {
    if (f.descriptor >= 0) close(f.descriptor);
    if (!f.temporary.empty()) temporaries::remove(f.temporary);
  }
  files_.clear();
  order_.clear();
}

PendingFiles::File& PendingFiles::find_or_add(const std::string& path) {
  for (File& f : files_)
    if (f.path == path) return f;
  const Target target = follow(path);
  File file{path, target.final, {}, -1, false, {}};
  if (!target.through) {
    // A short name, in case the final one is as long as names may be.
    file.temporary = (fs::path(target.final).parent_path() / ".nestor-XXXXXX").string();
    file.descriptor = temporaries::create(file.temporary);
    if (file.descriptor < 0) fail(path, errno);
    struct stat old;
    const mode_t mode = stat(target.final.c_str(), &old) == 0 ? old.st_mode & 0777 : usual_mode();
    static_cast<void>(fchmod(file.descriptor, mode));  // a file system without modes needs none
  }
  files_.push_back(std::move(file));
  return files_.back();
}

void PendingFiles::add(const std::string& path) {
  find_or_add(path);
}

void PendingFiles::write(const std::string& path, std::string_view bytes) {
  write(path, std::vector{bytes});
}

void PendingFiles::write(const std::string& path, const std::vector<std::string_view>& pieces) {
  File& f = find_or_add(path);
  NESTOR_CHECK(!f.written) << path << " is written twice";
  f.written = true;
  order_.push_back(static_cast<size_t>(&f - files_.data()));
  for (const std::string_view bytes : pieces)
    if (f.temporary.empty())
      f.held += bytes;
    else if (const int error = write_all(f.descriptor, bytes))
      fail(path, error);
}

void PendingFiles::commit() {
  for (const size_t i : order_) {
    File& f = files_[i];
    if (f.temporary.empty()) continue;
    const int error = to_disk(f.descriptor);
    const int closed = close(std::exchange(f.descriptor, -1)) == 0 ? 0 : errno;
    if (error || closed) fail(f.path, error ? error : closed);
  }
  std::vector<std::string> replaced;  // by now
  {
    const temporaries::Hold hold;
    for (const size_t i : order_) {
      File& f = files_[i];
      if (f.temporary.empty()) continue;
      if (const int error = temporaries::rename(f.temporary, f.final))
        throw UserError(Diagnostic{"can't write " + f.path + ": " + std::strerror(error), {}, replaced, ""});
      f.temporary.clear();
      replaced.push_back(f.path + " is already the new one");
    }
  }
  for (const size_t i : order_)
    if (const File& f = files_[i]; !f.held.empty())
      if (const int error = write_through(f.final, f.held)) fail(f.path, error);
  discard();
}

}  // namespace nestor
