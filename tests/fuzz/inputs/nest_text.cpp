// Functions as text: read, checked for what they reach and write, and lowered.
#include "nestor/driver.h"
#include "nestor/parse.h"
#include "tests/fuzz/inputs/target.h"

namespace nestor::fuzz {

namespace {

// Weights that aren't given are drawn, in the size that the text says.
bool is_long_to_draw(const PrimFunc& f) {
  constexpr double kMostElements = 1 << 20;
  for (const Param& p : f.params) {
    double elements = p.role == Role::constant ? 1 : 0;
    for (const Expr& e : p.decl.shape) elements *= static_cast<double>(as_int(e).value_or(1));
    if (elements > kMostElements) return true;
  }
  return false;
}

}  // namespace

void read_input(std::string_view input) {
  for (const PrimFunc& f : parse_funcs(input))
    if (is_long_to_draw(f)) return;
  CompileOptions options;
  options.build.dims = {{"N", 5}, {"M", 3}, {"K", 4}, {"n", 5}, {"m", 3}, {"k", 4}, {"T", 2}, {"B", 1}};
  const Source source = load(as_file("f.nest", input), options);
  for (const PrimFunc& f : source.partition->funcs) follow(f);
}

}  // namespace nestor::fuzz
