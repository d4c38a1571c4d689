// Files come whole or not at all, and nothing but files is replaced.
#include "nestor/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/error.h"

using namespace nestor;
namespace fs = std::filesystem;

namespace {

struct Folder {  // of a test's own: tests run side by side
  fs::path path;
  Folder() {
    std::string name = (fs::path(NESTOR_BINARY_DIR) / "files_test.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  std::string at(const char* name) const { return (path / name).string(); }
  int64_t entries() const { return std::distance(fs::directory_iterator(path), fs::directory_iterator()); }
};

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, const std::string& text) {
  PendingFiles files;
  files.write(path, text);
  files.commit();
}

}  // namespace

TEST_CASE("what isn't committed leaves nothing, what is committed is all there") {
  const Folder folder;
  {
    PendingFiles files;
    files.write(folder.at("a"), "half");
    CHECK_FALSE(fs::exists(folder.at("a")));
  }
  CHECK(folder.entries() == 0);
  write(folder.at("a"), "whole");
  CHECK(text_of(folder.at("a")) == "whole");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a pipe is written to and stays one") {
  const Folder folder;
  const std::string path = folder.at("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const int reader = open(path.c_str(), O_RDWR | O_NONBLOCK);
  write(path, "some text");
  char bytes[32] = {};
  CHECK(read(reader, bytes, sizeof bytes) == 9);
  CHECK(std::string(bytes) == "some text");
  close(reader);
  CHECK(fs::is_fifo(path));
  CHECK(folder.entries() == 1);
}

TEST_CASE("a link is followed, and what it leads to is replaced") {
  const Folder folder;
  write(folder.at("file"), "old");
  fs::create_symlink("file", folder.at("link"));
  write(folder.at("link"), "new");
  CHECK(fs::is_symlink(folder.at("link")));
  CHECK(text_of(folder.at("file")) == "new");
}

TEST_CASE("a folder is refused") {
  const Folder folder;
  PendingFiles files;
  CHECK_THROWS_AS(files.write(folder.path.string(), "text"), UserError);
}
