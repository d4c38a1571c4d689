#include "src/graph/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace nestor {

namespace fs = std::filesystem;

void file_error(const std::string& file, const std::string& message, const std::string& hint) {
  throw UserError(Diagnostic{message, SourceLoc{file, 0, 0, 1, ""}, {}, hint});
}

std::string read_file(const std::string& path) {
  return read_range(path, 0, std::nullopt);
}

std::ifstream open_file(const std::string& path) {
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  if (!fs::exists(status))
    file_error(path, "the file doesn't exist",
               path.starts_with("~/") ? "only a shell replaces ~ by a folder" : "");
  if (fs::is_directory(status)) file_error(path, "a folder, not a file");
  if (!fs::is_regular_file(status)) file_error(path, "not a regular file");
  std::ifstream in(path, std::ios::binary);
  if (!in) file_error(path, fmt::format("can't be read: {}", std::strerror(errno)));
  return in;
}

std::string read_range(const std::string& path, int64_t offset, std::optional<int64_t> length) {
  std::error_code ec;
  std::ifstream in = open_file(path);
  const auto size = static_cast<int64_t>(fs::file_size(path, ec));
  if (ec) file_error(path, "its size can't be read: " + ec.message());
  if (offset < 0 || offset > size)
    file_error(path, fmt::format("offset {} is outside the file's {} bytes", offset, size));
  const int64_t count = length.value_or(size - offset);
  if (count < 0 || count > size - offset)
    file_error(path, fmt::format("too short: {} bytes are wanted at offset {}, the file has {}", count,
                                 offset, size));
  std::string out(static_cast<size_t>(count), '\0');
  in.seekg(offset);
  in.read(out.data(), count);
  if (in.gcount() != count) file_error(path, "reading stopped before the end");
  return out;
}

std::string resolve_beside(const std::string& model_path, const std::string& location) {
  std::error_code ec;
  const fs::path folder = fs::weakly_canonical(fs::absolute(model_path).parent_path(), ec);
  const fs::path target = fs::weakly_canonical(folder / location, ec);
  const fs::path relative = target.lexically_relative(folder);
  if (location.empty() || fs::path(location).is_absolute() || relative.empty() || *relative.begin() == "..")
    file_error(model_path, fmt::format("external data at '{}' is outside the model's folder", location),
               "put the weights beside the model and name them relative to it");
  return target.string();
}

}  // namespace nestor
