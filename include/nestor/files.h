// Writes files so that no reader, crash or full disk leaves half a file: the bytes go to a temporary file in
// the same folder, which is renamed at the end. A link is followed. Pipes, terminals and devices such as
// /dev/null are written to directly, because renaming would replace them by a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nestor {

// Whether bytes go into what is there (a pipe, a terminal) rather than into a file: nothing can lie beside
// it. UserError for what can't be written to, as a directory.
bool is_written_through(const std::string& path);

// Files that appear together. Throws UserError with the path and the system's reason where one can't be
// written; what isn't committed is removed.
class PendingFiles {
 public:
  PendingFiles() = default;
  PendingFiles(const PendingFiles&) = delete;
  PendingFiles& operator=(const PendingFiles&) = delete;
  ~PendingFiles();
  // Opens a place for the file, so that a bad path fails before the work. A file that is never written to is
  // left as it is.
  void add(const std::string& path);
  void write(const std::string& path, std::string_view bytes);  // all of it, once; adds it where nobody has
  void write(const std::string& path, const std::vector<std::string_view>& pieces);  // one after another
  // Renames in the order of writing, once all bytes are on the disk: put last what uses the others.
  void commit();

 private:
  struct File {
    std::string path;              // as given
    std::string final, temporary;  // no temporary: `final` is written to
    int descriptor = -1;           // of the temporary
    bool written = false;
    std::string held;  // what is for `final` itself
  };
  File& find_or_add(const std::string& path);
  void discard();
  std::vector<File> files_;
  std::vector<size_t> order_;  // of writing
};

// For programs: on SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGPIPE, if they would end the process, and where it
// ends by exit(), temporaries of pending files are removed first. A file beyond the limit of size (ulimit -f)
// is an error instead of a signal.
void remove_pending_files_on_signals();
// For a handler that ends the process at once, by _exit(): takes no lock and no memory.
void remove_pending_files();

}  // namespace nestor
