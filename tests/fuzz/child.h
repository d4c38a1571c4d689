// Work that may crash or hang, done in a forked process that reports by lines of text.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace nestor {

class Report {
 public:
  explicit Report(int fd) : fd_(fd) {}
  void line(const std::vector<std::string>& fields) const;  // fields may hold any text

 private:
  int fd_;
};

class Child {
 public:
  explicit Child(const std::function<void(const Report&)>& work);
  ~Child();  // kills it
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int fd() const { return fd_; }
  // Reads what there is; false at the end of its life.
  bool read_lines(const std::function<void(const std::vector<std::string>&)>& each);
  // How it died: "" by itself; "signal 11 (Segmentation fault)", "an exception: ...". Waits for it.
  std::string death();
  void kill();

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string pending_;
};

// One child from start to end; `silence` is how many seconds without a line it may live. Gives death(), or
// "silent for
// ... s".
std::string run_child(const std::function<void(const Report&)>& work, double silence,
                      const std::function<void(const std::vector<std::string>&)>& each);

}  // namespace nestor
