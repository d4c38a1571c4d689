// Workers on a Ray cluster: commands that start tuner/ray_worker.py, one for each node. Where actors go, and
// that they start again where a node is lost, is left to Ray.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "nestor/embedded.h"
#include "nestor/error.h"
#include "nestor/tune.h"
#include "tuner/job.h"

namespace nestor {

namespace {

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// What `command` prints, through a shell; throws UserError with what it says where it fails.
std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) throw UserError("can't start " + command);
  std::string out;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) out += static_cast<char>(c);
  if (const int status = pclose(pipe); status != 0) throw UserError("no workers on Ray: " + out);
  return out;
}

}  // namespace

std::vector<std::string> ray_workers(const std::string& address) {
  const char* given = std::getenv("NESTOR_PYTHON");
  const std::string start = fmt::format("{} -c {} {} ", given ? given : "python3",
                                        quoted(std::string(worker_files().front().text)), quoted(address));
  int nodes = 0;
  const std::string said = output_of(start + "--count");
  std::from_chars(said.data(), said.data() + said.size(), nodes);
  if (nodes < 1) throw UserError("the Ray cluster at " + address + " has no node: " + said);
  return std::vector<std::string>(static_cast<size_t>(nodes), "exec " + start + quoted(this_executable()));
}

}  // namespace nestor
