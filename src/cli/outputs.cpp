#include "src/cli/outputs.h"

#include <filesystem>

#include "nestor/error.h"
#include "nestor/files.h"

namespace nestor::cli {

void require_ending(const std::string& flag, const std::string& path,
                    std::initializer_list<const char*> endings) {
  if (path.empty() || is_written_through(path)) return;
  const std::filesystem::path given(path);
  for (const char* ending : endings)
    if (given.extension() == ending) return;
  std::filesystem::path right = given;
  right.replace_extension(*endings.begin());
  throw UserError(
      Diagnostic{flag + " " + path + " doesn't end in " + *endings.begin() + ", which is what is written",
                 {},
                 {},
                 flag + " " + right.string()});
}

}  // namespace nestor::cli
