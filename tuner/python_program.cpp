#include "nestor/python_program.h"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

#include "nestor/error.h"

namespace nestor {

std::string shell_word(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string python_program() {
  const char* given = std::getenv("NESTOR_PYTHON");
  return given ? given : "python3";
}

std::string python_command(std::string_view program) {
  return python_program() + " -c " + shell_word(std::string(program));
}

CommandEnd run_command(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) throw UserError("can't start a shell for: " + command.substr(0, 200));
  CommandEnd out;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) out.output += static_cast<char>(c);
  const int status = pclose(pipe);
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return out;
}

}  // namespace nestor
