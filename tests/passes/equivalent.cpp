#include "equivalent.h"

#include <cmath>

#include "catch.h"
#include "nestor/interpret.h"
#include "nestor/layout.h"
#include "nestor/print.h"

namespace nestor {

void check_equivalent(const PrimFunc& before, const PrimFunc& after, double tolerance, uint64_t seed) {
  INFO("before:\n" << print(before) << "after:\n" << print(after));
  std::vector<Tensor> expected = random_args(before, seed), lowered;
  for (size_t i = 0; i < before.params.size(); ++i) {
    const bool flat = !after.params[i].decl.layout;
    Tensor t = flat ? pack(expected[i].clone(), before.params[i].decl) : expected[i].clone();
    if (flat && after.params[i].decl.shape.size() == 1) t = t.reshaped({t.size()});
    lowered.push_back(std::move(t));
  }
  InterpretOptions options;
  interpret(before, expected, options);
  options.check_races = true;
  interpret(after, lowered, options);
  for (size_t i = 0; i < before.params.size(); ++i) {
    const BufferDecl& decl = before.params[i].decl;
    const Tensor got = after.params[i].decl.layout ? lowered[i] : unpack(lowered[i], decl);
    for (int64_t k = 0; k < got.size(); ++k) {
      const double a = expected[i].get(k), b = got.get(k);
      const bool same = (std::isnan(a) && std::isnan(b)) || a == b ||
                        std::abs(a - b) <= tolerance * std::max(1.0, std::abs(a));
      if (!same) {
        CAPTURE(decl.buffer->name, k, a, b);
        REQUIRE(same);
      }
    }
  }
  SUCCEED();
}

}  // namespace nestor
