#include "nestor/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "nestor/error.h"

namespace nestor {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw UserError("can't write " + path + ": " + why);
}

}  // namespace

PendingFiles::~PendingFiles() {
  std::error_code ignored;
  for (const auto& [temporary, final] : files_) std::filesystem::remove(temporary, ignored);
}

std::string PendingFiles::add(const std::string& final) {
  std::string temporary = final + ".tmp" + std::to_string(getpid());
  std::error_code ignored;
  if (std::filesystem::is_directory(final, ignored)) fail(final, "it is a directory");
  const std::ofstream probe(temporary, std::ios::binary);
  if (!probe) fail(final, std::strerror(errno));
  files_.emplace_back(temporary, final);
  return temporary;
}

void PendingFiles::write(const std::string& final, std::string_view bytes) {
  std::ofstream out(add(final), std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) fail(final, std::strerror(errno));
}

void PendingFiles::commit() {
  for (const auto& [temporary, final] : files_) {
    std::error_code error;
    std::filesystem::rename(temporary, final, error);
    if (error) fail(final, error.message());
  }
  files_.clear();
}

}  // namespace nestor
