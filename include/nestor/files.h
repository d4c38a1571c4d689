// Writing files so that a reader, a crash or a full disk never meets half of one: the bytes go beside the
// final place, and are renamed over it once all are there. A link is followed, and a device or a pipe is
// written to: renaming would put a file in the place of /dev/null.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nestor {

// Files under temporary names beside their final ones. What isn't committed is removed. Throws UserError with
// the path and the system's reason where a file can't be written.
class PendingFiles {
 public:
  PendingFiles() = default;
  PendingFiles(const PendingFiles&) = delete;
  PendingFiles& operator=(const PendingFiles&) = delete;
  ~PendingFiles();
  std::string add(const std::string& final);  // the temporary name, for somebody else to write to
  void write(const std::string& final, std::string_view bytes);
  void commit();

 private:
  struct File {
    std::string temporary, final;
    bool replaces;  // `final`; else it is something that bytes are written to
  };
  std::vector<File> files_;
};

}  // namespace nestor
