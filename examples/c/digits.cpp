// The C interface from C++: the instance is freed by a unique_ptr, and the reason of a failure is an
// exception.
//
//   nestor compile examples/digits/digits.json --dim batch=1 -o digits.so
//   c++ -std=c++17 -I. examples/c/digits.cpp digits.so -Wl,-rpath,'$ORIGIN' -o digits
#include "digits.h"

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

int main() {
  char why[200] = "";
  digits_options options{};
  options.why = why;
  options.why_bytes = sizeof why;
  const std::unique_ptr<digits, decltype(&digits_destroy)> model(digits_create(&options), digits_destroy);
  if (!model) throw std::runtime_error(why);
  std::vector<float> image(64, 0.5f), probability(10);
  const digits_inputs in{image.data()};
  const digits_outputs out{probability.data()};
  if (digits_run(model.get(), &in, &out) != 0) throw std::runtime_error("digits_run");
  for (const float p : probability) std::printf("%.3f ", p);
  std::printf("\n");
}
