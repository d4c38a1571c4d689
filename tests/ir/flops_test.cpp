#include "nestor/flops.h"

#include "catch.h"
#include "nestor/parse.h"

using namespace nestor;

namespace {

double flops(const std::string& value) {
  return flops_of(parse_func("func f(in A: f32[8], in B: f32[8], out Y: f32[8]) {\n  for i in 8 {\n    block "
                             "Y(vi: S 8 = i) {\n"
                             "      Y[vi] = " +
                             value + "\n    }\n  }\n}\n")) /
         8;
}

}  // namespace

TEST_CASE("operations on floats are counted, each once") {
  CHECK(flops("A[vi] * B[vi] + 1.0f32") == 2);
  CHECK(flops("fma(A[vi], B[vi], 1.0f32)") == 2);
  CHECK(flops("exp(A[vi])") == 1);
  CHECK(flops("A[vi]") == 0);
  CHECK(flops("(A[vi] - B[vi]) * (A[vi] - B[vi])") == 2);
  CHECK(flops("(A[vi] - B[vi]) * (B[vi] - A[vi])") == 3);
}
