#include "schedules/schedule_folder.h"

#include <filesystem>

namespace nestor::schedules {

namespace fs = std::filesystem;

NamedFile find_in_folder(const std::string& folder, const std::string& beside, const std::string& name,
                         const std::string& ending) {
  const auto refused = [&](const std::string& why, const std::string& hint) {
    return NamedFile{"", "`" + name + "` " + why, hint};
  };
  if (!name.ends_with(ending)) return refused("doesn't end in " + ending, "name it " + name + ending);
  std::error_code bad_folder, bad_path, no_status;
  const auto here = [](const std::string& path) { return fs::path(path.empty() ? "." : path); };
  const fs::path root = fs::weakly_canonical(here(folder), bad_folder);
  const fs::path path = fs::weakly_canonical(here(beside) / name, bad_path);
  if (bad_folder || bad_path) return refused("can't be looked for: " + bad_path.message(), "");
  // The same answer for what is there and what isn't.
  const fs::path inside = path.lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..")
    return refused("is outside of the schedule's folder", "put it beside the schedule, or in a folder below");
  const fs::file_status status = fs::status(path, no_status);
  if (!fs::exists(status)) return refused("isn't there", "");
  if (!fs::is_regular_file(status)) return refused("isn't a regular file", "");
  return {path.string(), "", ""};
}

}  // namespace nestor::schedules
