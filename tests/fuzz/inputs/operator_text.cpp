// An operator as the command line takes it: Conv(f32[1,3,8,8], const f32[4,3,3,3]; pads=[1,1,1,1]).
#include "nestor/driver.h"
#include "tests/fuzz/inputs/target.h"

namespace nestor::fuzz {

void read_input(std::string_view input) {
  std::string text(input.substr(0, input.find('\n')));
  // Weights are drawn in the size that the text says: where that has many digits, they are inputs.
  constexpr int kMostDigits = 7;
  int digits = 0;
  for (const char c : text) digits += c >= '0' && c <= '9';
  for (size_t at = 0; digits > kMostDigits && (at = text.find("const ")) != std::string::npos;)
    text.erase(at, 6);
  follow(build_graph(parse_operator(text)));
}

}  // namespace nestor::fuzz
