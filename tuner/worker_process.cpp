// A worker may be on a machine of others, or run a faulty candidate. So at most one chunk of its output is
// buffered here. It can't stop the tuner by not reading, and can't fill the terminal with output.
#include "tuner/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "nestor/error.h"
#include "tuner/fields.h"
#include "tuner/job.h"

namespace nestor {

namespace {

constexpr size_t kKept = 2000;  // characters of stderr

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

// Three pipes, or none.
void make_pipes(int (&pipes)[3][2]) {
  for (int i = 0; i < 3; ++i) {
    if (pipe2(pipes[i], O_CLOEXEC) == 0) continue;
    const int error = errno;
    while (--i >= 0) {
      close(pipes[i][0]);
      close(pipes[i][1]);
    }
    throw UserError(std::string("can't make a pipe for a worker: ") + strerror(error));
  }
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "";
  const size_t begin = text.find_last_of('\n', end) + 1;  // npos + 1 is 0
  return one_line(text.substr(begin, end + 1 - begin), kLongestDetail / 2);
}

}  // namespace

void WorkerProcess::start() {
  int pipes[3][2];
  make_pipes(pipes);
  std::vector<char*> words;
  for (std::string& a : argv) words.push_back(a.data());
  words.push_back(nullptr);
  pid = fork();
  if (pid == 0) {
    setpgid(0, 0);  // so that a kill reaches what it started, and Ctrl-C reaches only the tuner
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // one that hangs must not outlive a tuner that was killed
    signal(SIGPIPE, SIG_DFL);          // which the tuner ignores
    dup2(pipes[0][0], STDIN_FILENO);
    dup2(pipes[1][1], STDOUT_FILENO);
    dup2(pipes[2][1], STDERR_FILENO);
    execvp(words[0], words.data());
    _exit(127);
  }
  const int error = errno;
  close(pipes[0][0]);
  close(pipes[1][1]);
  close(pipes[2][1]);
  in = pipes[0][1];
  out = pipes[1][0];
  err = pipes[2][0];
  if (pid < 0) {
    stop();
    throw UserError(std::string("can't start a worker: ") + strerror(error));
  }
  setpgid(pid, pid);
  for (const int fd : {in, out, err}) fcntl(fd, F_SETFL, O_NONBLOCK);
  answer.clear();
  said.clear();
}

std::string WorkerProcess::stop() {
  if (pid > 0) {
    kill(-pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
    hear();
    const std::string words = last_line(said);
    close_fd(in);
    close_fd(out);
    close_fd(err);
    return (WIFSIGNALED(status) ? std::string("ended by signal ") + strsignal(WTERMSIG(status))
                                : "exited with code " + std::to_string(WEXITSTATUS(status))) +
           (words.empty() ? "" : ": " + words);
  }
  close_fd(in);
  close_fd(out);
  close_fd(err);
  return "never started";
}

bool WorkerProcess::write_some() {
  const ssize_t n = write(in, to_write.data(), to_write.size());
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  to_write.erase(0, static_cast<size_t>(n));
  return true;
}

bool WorkerProcess::read_some() {
  char chunk[65536];
  const ssize_t n = read(out, chunk, sizeof chunk);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  answer.append(chunk, static_cast<size_t>(n));
  return n > 0;
}

// One chunk at a time: the others wait their turn.
void WorkerProcess::hear() {
  if (err < 0) return;
  char chunk[65536];
  const ssize_t n = read(err, chunk, sizeof chunk);
  if (n == 0) close_fd(err);
  if (n <= 0) return;
  said.append(chunk, static_cast<size_t>(n));
  if (said.size() > kKept) said.erase(0, said.size() - kKept);
}

std::string WorkerProcess::name() const {
  if (argv.size() == 3 && argv[1] == "-c") return argv[2];  // of the shell
  std::string out_text;
  for (const std::string& a : argv) out_text += (out_text.empty() ? "" : " ") + a;
  return out_text;
}

}  // namespace nestor
