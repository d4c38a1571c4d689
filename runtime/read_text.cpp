#include "nestor/read_text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "nestor/error.h"

namespace nestor {

std::string read_text(const std::string& path, size_t most) {
  const auto fail = [&](const std::string& why) { throw UserError("can't read " + path + ": " + why); };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail("it is a directory");  // opens, and reads as empty
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(errno == ENOENT ? "there is no such file" : std::strerror(errno));
  std::string text;
  char part[1 << 16];
  while (text.size() <= most && (in.read(part, sizeof part), in.gcount() > 0))
    text.append(part, static_cast<size_t>(in.gcount()));
  if (text.size() > most) fail("it has more than " + std::to_string(most >> 20) + " MiB");
  return text;
}

}  // namespace nestor
