// Programs in Python that are part of the executable (nestor/embedded.h): NESTOR_PYTHON runs them, or else
// the python3 of the path.
#pragma once

#include <string>
#include <string_view>

namespace nestor {

std::string shell_word(const std::string& word);       // quoted
std::string python_program();                          // NESTOR_PYTHON, or python3
std::string python_command(std::string_view program);  // for a shell; arguments may follow

struct CommandEnd {
  int status = 0;      // as exit() had it; 128 and more: a signal's
  std::string output;  // stdout
};
// Through a shell; stderr goes where ours does. UserError where no shell starts.
CommandEnd run_command(const std::string& command);

}  // namespace nestor
