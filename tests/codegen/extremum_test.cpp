// min and max: NaN on either side is the result, bit for bit as the interpreter has it.
#include "agree.h"

using namespace nestor;
using nestor::testing::check_agree;

TEST_CASE("min and max of what may be NaN, and of constants on either side") {
  for (const int lanes : {1, 3, 8, 16})
    for (const char* target : {"native", "x86-64-v4", "x86-64-v3", "x86-64-v2"}) {
      if (!runs_here(parse_target(target))) continue;
      const std::string n = std::to_string(lanes),
                        at = lanes == 1 ? "[i]" : "[ramp(i * " + n + ", 1, " + n + ")]";
      std::string params, body;
      int outputs = 0;
      for (const std::string extremum : {"min", "max"}) {
        std::vector<std::string> sides = {"X" + at + ", Y" + at};
        for (const std::string c : {"0.0f32", "-0.0f32", "2.5f32", "-inf_f32", "nan_f32"}) {
          const std::string constant = lanes == 1 ? c : "x" + n + "(" + c + ")";
          sides.push_back("X" + at + ", " + constant);
          sides.push_back(constant + ", X" + at);
        }
        for (const std::string& both : sides) {
          const std::string out = "Z" + std::to_string(outputs++);
          params += ", out " + out + ": f32[720]";
          body += "    " + out + at + " = " + extremum + "(" + both + ")\n";
        }
      }
      check_agree(parse_func("func f(in X: f32[720], in Y: f32[720]" + params + ") {\n  for i in " +
                             std::to_string(720 / lanes) + " {\n" + body + "  }\n}\n"),
                  1, parse_target(target));
    }
}

TEST_CASE("min and max with a number that isn't NaN are one instruction") {
  for (const std::string both : {"x8(0.0f32), X[ramp(0, 1, 8)]", "X[ramp(0, 1, 8)], x8(6.0f32)"}) {
    const std::string code = emit_asm(
        {parse_func("func f(in X: f32[8], out Y: f32[8]) {\n  Y[ramp(0, 1, 8)] = max(" + both + ")\n}\n")},
        parse_target("x86-64-v3"));
    INFO(code);
    CHECK(code.find("vmaxps") != std::string::npos);
    CHECK(code.find("vcmp") == std::string::npos);
    CHECK(code.find("vblend") == std::string::npos);
  }
}
