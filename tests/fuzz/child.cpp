#include "tests/fuzz/child.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <stdexcept>

namespace nestor {

namespace {

constexpr char kField = '\x1f', kNewline = '\x1e';
constexpr int kThrew = 99;

}  // namespace

void Report::line(const std::vector<std::string>& fields) const {
  std::string out;
  for (const std::string& f : fields) {
    if (!out.empty()) out += kField;
    for (const char c : f) out += c == '\n' ? kNewline : c;
  }
  out += '\n';
  for (size_t at = 0; at < out.size();) {
    const ssize_t n = write(fd_, out.data() + at, out.size() - at);
    if (n <= 0) _exit(kThrew);  // nobody listens any more
    at += static_cast<size_t>(n);
  }
}

Child::Child(const std::function<void(const Report&)>& work) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  std::cout.flush();
  std::fflush(nullptr);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("no process");
  if (pid_ == 0) {
    close(ends[0]);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    const Report report(ends[1]);
    try {
      work(report);
    } catch (const std::exception& e) {
      report.line({"threw", e.what()});
      _exit(kThrew);
    }
    _exit(0);
  }
  close(ends[1]);
  fd_ = ends[0];
}

Child::~Child() {
  kill();
  death();
  close(fd_);
}

void Child::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

bool Child::read_lines(const std::function<void(const std::vector<std::string>&)>& each) {
  char buffer[1 << 16];
  const ssize_t n = read(fd_, buffer, sizeof buffer);
  if (n <= 0) return false;
  pending_.append(buffer, static_cast<size_t>(n));
  size_t begin = 0;
  for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::vector<std::string> fields{""};
    for (size_t i = begin; i < end; ++i)
      if (pending_[i] == kField)
        fields.emplace_back();
      else
        fields.back() += pending_[i] == kNewline ? '\n' : pending_[i];
    each(fields);
  }
  pending_.erase(0, begin);
  return true;
}

std::string Child::death() {
  if (pid_ <= 0) return "";
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFSIGNALED(status))
    return "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  return WEXITSTATUS(status) == 0 ? "" : "exit " + std::to_string(WEXITSTATUS(status));
}

std::string run_child(const std::function<void(const Report&)>& work, double silence,
                      const std::function<void(const std::vector<std::string>&)>& each) {
  Child child(work);
  for (;;) {
    pollfd p{child.fd(), POLLIN, 0};
    if (poll(&p, 1, static_cast<int>(silence * 1000)) == 0) {
      child.kill();
      child.death();
      return "silent for " + std::to_string(static_cast<int>(silence)) + " s";
    }
    if (!child.read_lines(each)) return child.death();
  }
}

}  // namespace nestor
