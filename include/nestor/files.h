// Writing files so that a reader, a crash or a full disk never meets half of one: the bytes go beside the
// final place, and are renamed over it once all are there.
#pragma once

#include <string>
#include <string_view>
#include <utility>
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
  std::vector<std::pair<std::string, std::string>> files_;
};

}  // namespace nestor
