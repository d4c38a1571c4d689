#include "nestor/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "nestor/error.h"

namespace nestor {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw UserError("can't write " + path + ": " + why);
}

// A file beside a device or a pipe would be the wrong place: its folder is the system's.
std::string temporary_elsewhere(const std::string& for_whom) {
  std::error_code no_folder;
  std::string name = (fs::temp_directory_path(no_folder) / "nestor.XXXXXX").string();
  const int file = no_folder ? -1 : mkstemp(name.data());
  if (file < 0) fail(for_whom, std::strerror(errno));
  close(file);
  return name;
}

std::error_code copy_bytes(const std::string& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  std::ofstream out(to, std::ios::binary | std::ios::app);
  if (in.peek() != std::ifstream::traits_type::eof()) out << in.rdbuf();
  out.close();
  return out ? std::error_code() : std::error_code(errno, std::generic_category());
}

}  // namespace

PendingFiles::~PendingFiles() {
  std::error_code ignored;
  for (const File& f : files_) fs::remove(f.temporary, ignored);
}

std::string PendingFiles::add(const std::string& name) {
  std::error_code ignored, no_path;
  if (fs::is_directory(name, ignored)) fail(name, "it is a directory");
  if (fs::exists(name, ignored) && !fs::is_regular_file(name, ignored)) {
    files_.push_back({temporary_elsewhere(name), name, false});
    return files_.back().temporary;
  }
  const fs::path followed = fs::canonical(name, no_path);
  const std::string final = no_path ? name : followed.string();
  std::string temporary = final + ".tmp" + std::to_string(getpid());
  const std::ofstream probe(temporary, std::ios::binary);
  if (!probe) fail(name, std::strerror(errno));
  files_.push_back({temporary, final, true});
  return temporary;
}

void PendingFiles::write(const std::string& final, std::string_view bytes) {
  std::ofstream out(add(final), std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) fail(final, std::strerror(errno));
}

void PendingFiles::commit() {
  for (const File& f : files_) {
    std::error_code error;
    if (f.replaces) {
      fs::rename(f.temporary, f.final, error);
    } else {
      error = copy_bytes(f.temporary, f.final);
      std::error_code ignored;
      fs::remove(f.temporary, ignored);
    }
    if (error) fail(f.final, error.message());
  }
  files_.clear();
}

}  // namespace nestor
