// Files of a test process: several run at once, and mustn't write each other's.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace nestor {

// A path in a folder of this process, which is gone with it.
inline std::string own_file(const std::string& name) {
  struct Folder {
    std::filesystem::path path =
        std::filesystem::path(NESTOR_BINARY_DIR) / ("own-" + std::to_string(getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() {
      std::error_code none;
      std::filesystem::remove_all(path, none);
    }
  };
  static const Folder folder;
  return (folder.path / name).string();
}

}  // namespace nestor
