// The files of schedules/instructions, embedded (cmake/instructions.cmake).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nestor {

struct InstructionText {
  std::string file;
  std::string_view text;
};
std::vector<InstructionText> builtin_instruction_texts();

}  // namespace nestor
