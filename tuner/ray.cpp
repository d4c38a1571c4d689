// Workers on a Ray cluster: commands that start tuner/ray_worker.py, one for each node. Where actors go, and
// that they start again where a node is lost, is left to Ray.
#include <charconv>

#include "nestor/embedded.h"
#include "nestor/error.h"
#include "nestor/python_program.h"
#include "nestor/tune.h"
#include "tuner/job.h"

namespace nestor {

std::vector<std::string> ray_workers(const std::string& address) {
  const std::string start = python_command(worker_files().front().text) + " " + shell_word(address) + " ";
  int nodes = 0;
  const auto [status, said] = run_command(start + "--count 2>&1");
  if (status != 0) throw UserError("no workers on Ray: " + said);
  std::from_chars(said.data(), said.data() + said.size(), nodes);
  if (nodes < 1) throw UserError("the Ray cluster at " + address + " has no node: " + said);
  std::string command = "exec " + start;
  for (const std::string& word : own_command()) command += shell_word(word) + " ";
  return std::vector<std::string>(static_cast<size_t>(nodes), command);
}

}  // namespace nestor
