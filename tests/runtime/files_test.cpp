// Files come whole or not at all, and nothing but files is replaced.
#include "nestor/files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
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

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

// How a child of this process ends that writes a file and doesn't come to its commit.
template <class End>
int writes_and_ends(const Folder& folder, End end) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) std::signal(s, SIG_DFL);
    remove_pending_files_on_signals();
    PendingFiles files;
    files.write(folder.at("a"), "half");
    files.add(folder.at("b"));
    end();
    _exit(99);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
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

TEST_CASE("a link to a file that isn't there yet stays a link, one in a circle is refused") {
  const Folder folder;
  fs::create_directory(folder.at("sub"));
  fs::create_symlink("sub/file", folder.at("one"));
  fs::create_symlink("one", folder.at("two"));
  write(folder.at("two"), "new");
  CHECK(fs::is_symlink(folder.at("one")));
  CHECK(fs::is_symlink(folder.at("two")));
  CHECK(text_of(folder.at("sub/file")) == "new");
  fs::create_symlink("circle", folder.at("circle"));
  CHECK_THROWS_AS(write(folder.at("circle"), "new"), UserError);
}

TEST_CASE("what a descriptor names is written to, be it a file") {
  const Folder folder;
  const int file = open(folder.at("a").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  REQUIRE(::write(file, "one ", 4) == 4);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  CHECK(is_written_through(path));
  fs::remove(folder.at("a"));
  CHECK_NOTHROW(write(path, "two"));
  struct stat status {};
  REQUIRE(fstat(file, &status) == 0);
  CHECK(status.st_size == 7);
  close(file);
  CHECK(folder.entries() == 0);
}

TEST_CASE("a new file has the mode that the umask leaves, an old one keeps its own") {
  const Folder folder;
  std::ofstream(folder.at("usual")) << "by the library";
  write(folder.at("new"), "text");
  CHECK(mode_of(folder.at("new")) == mode_of(folder.at("usual")));
  fs::permissions(folder.at("new"), fs::perms(0640));
  write(folder.at("new"), "text");
  CHECK(mode_of(folder.at("new")) == 0640);
}

TEST_CASE("names may be as long as names are") {
  const Folder folder;
  write(folder.at(std::string(255, 'x').c_str()), "text");
  CHECK(folder.entries() == 1);
  CHECK_THROWS_AS(write(folder.at(std::string(256, 'x').c_str()), "text"), UserError);
  CHECK(folder.entries() == 1);
  CHECK_THROWS_AS(write("", "text"), UserError);
}

TEST_CASE("a file that was added and isn't written stays as it was") {
  const Folder folder;
  write(folder.at("a"), "old");
  PendingFiles files;
  files.add(folder.at("a"));
  files.add(folder.at("b"));
  files.write(folder.at("c"), "new");
  files.commit();
  CHECK(text_of(folder.at("a")) == "old");
  CHECK(folder.entries() == 2);
}

TEST_CASE("a signal or an exit leaves nothing behind, and ends the process as it would have") {
  const Folder folder;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    const int status = writes_and_ends(folder, [signal] { raise(signal); });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK(folder.entries() == 0);
  }
  const int status = writes_and_ends(folder, [] { std::exit(3); });
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(folder.entries() == 0);
}

TEST_CASE("a signal that is ignored stays so, and a child's exit leaves its parent's files") {
  const Folder folder;
  const int ignored = writes_and_ends(folder, [] {
    std::signal(SIGHUP, SIG_IGN);
    remove_pending_files_on_signals();
    raise(SIGHUP);
    if (const pid_t child = fork()) {
      waitpid(child, nullptr, 0);
      _exit(7);
    }
    std::exit(0);
  });
  CHECK(WEXITSTATUS(ignored) == 7);
  CHECK(folder.entries() == 2);  // _exit asks nobody
}

TEST_CASE("a file that gets too large is an error, not a signal") {
  const Folder folder;
  const int status = writes_and_ends(folder, [&folder] {
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write(folder.at("large"), std::string(5000, 'x'));
    } catch (const UserError& e) {
      std::exit(std::string(e.what()).find("File too large") == std::string::npos ? 1 : 0);
    }
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(folder.entries() == 0);
}

TEST_CASE("a folder is refused") {
  const Folder folder;
  PendingFiles files;
  CHECK_THROWS_AS(files.write(folder.path.string(), "text"), UserError);
}
