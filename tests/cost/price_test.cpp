// The price orders schedules by what they do; no time of a kernel is asserted.
#include "catch.h"
#include "nestor/cost.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"

using namespace nestor;

namespace {

Target target() {
  return parse_target("x86-64-v4");
}

PrimFunc transposed_product(int64_t n) {
  const std::string s = std::to_string(n);
  return parse_func("func f(in A: f32[" + s + "," + s + "], in B: f32[" + s + "," + s + "], out Y: f32[" + s +
                    "," + s + "]) {\n  for i in " + s + ", j in " + s + ", k in " + s +
                    " {\n    block Y(vi: S " + s + " = i, vj: S " + s + " = j, vk: R " + s +
                    " = k) {\n      init { Y[vi,vj] = 0.0f32 }\n      Y[vi,vj] += A[vi,vk] * B[vj,vk]\n    "
                    "}\n  }\n}\n");
}

Cost priced(const PrimFunc& f, const std::string& steps) {
  return price(apply(f, parse_trace(steps)), target());
}

const std::string kTile = R"(
j0 j1 = split Y.j [_, 32]
i0 i1 = split Y.i [_, 8]
reorder Y (i0 j0 k i1 j1)
)";
const std::string kKinds = R"(
unroll Y.i1
vectorize Y.j1
decompose_reduction Y.k
)";

}  // namespace

TEST_CASE("Neighbours are those in memory: a copy in the order in which it is read is cheap to read") {
  const PrimFunc f = transposed_product(256);
  const Cost strided = priced(f, kTile + kKinds),
             copied = priced(f, kTile + "Bp = pack Y B (j, k) -> (j/32, k, j%32)\n" + kKinds);
  CHECK(copied.loads * 2 < strided.loads);
}

TEST_CASE("What fits a cache is found there by the next call") {
  const Cost small = priced(transposed_product(64), kTile + kKinds),
             large = priced(transposed_product(8192), kTile + kKinds);
  CHECK(small.l3 == 0);
  CHECK(small.memory == 0);
  CHECK(large.memory > 0);
}

TEST_CASE("Integer operations cost as well, those of indices don't") {
  const auto of = [](const std::string& value) {
    return price(
               parse_func("func f(in X: i32[64], out Y: i32[32]) {\n  for i in 32 {\n    block Y(vi: S 32 = "
                          "i) {\n      Y[vi] = " +
                          value + "\n    }\n  }\n}\n"),
               target())
        .arithmetic;
  };
  CHECK(of("X[vi*2+1]") == of("X[vi]"));
  CHECK(of("X[vi] * 3i32 + 1i32") > of("X[vi]"));
}

TEST_CASE("Code is what is written out; a long sum in lanes is a loop") {
  const PrimFunc dot = parse_func(
      "func f(in X: f32[65536], in Z: f32[65536], out Y: f32[1]) {\n  for u in 1, k in 65536 {\n    block "
      "Y(vu: S 1 = u, vk: R 65536 = k) {\n      init { Y[vu] = 0.0f32 }\n      Y[vu] += X[vk] * Z[vk]\n    "
      "}\n  }\n}\n");
  CHECK(priced(dot, "decompose_reduction Y.k\nvectorize Y.k\n").code < 1000);
  const PrimFunc f = transposed_product(256);
  CHECK(priced(f, kTile + "unroll Y.i1\nunroll Y.j1\n").code > 4 * priced(f, kTile + kKinds).code);
}

TEST_CASE("What a loop doesn't move is computed before it") {
  const auto of = [](const std::string& value) {
    return price(
               parse_func("func f(in X: f32[64,64], in S: f32[64], out Y: f32[64,64]) {\n  for i in 64, j in "
                          "64 {\n    block Y(vi: S 64 = i, vj: S 64 = j) {\n      Y[vi,vj] = X[vi,vj] * " +
                          value + "\n    }\n  }\n}\n"),
               target())
        .arithmetic;
  };
  CHECK(of("exp(S[vi])") < 1.5 * of("S[vi]"));
  CHECK(of("exp(S[vj])") > 4 * of("S[vj]"));
}

TEST_CASE("Streamed results cost one way to memory, whether or not a cache would hold them") {
  const auto of = [](const std::string& n, const std::string& steps) {
    return priced(
        parse_func("func f(in X: f32[" + n + "], out Y: f32[" + n + "]) {\n  for i in " + n +
                   " {\n    block Y(vi: S " + n + " = i) {\n      Y[vi] = X[vi] * 2.0f32\n    }\n  }\n}\n"),
        steps);
  };
  const std::string stream = "annotate Y streaming=1\n";
  CHECK(of("100000000", stream).memory < of("100000000", "").memory);
  CHECK(of("1000", stream).memory > of("1000", "").memory);
}

TEST_CASE("A temporary that each iteration fills for itself takes its own space only") {
  const PrimFunc f = parse_func(R"(func f(in X: f32[4098,4096], out Y: f32[4096,4096]) {
  alloc T: f32[4098,4096]
  for i in 4098, j in 4096 {
    block T(vi: S 4098 = i, vj: S 4096 = j) {
      T[vi,vj] = X[vi,vj] * 2.0f32
    }
  }
  for i in 4096, j in 4096 {
    block Y(vi: S 4096 = i, vj: S 4096 = j) {
      Y[vi,vj] = T[vi,vj] + T[vi+2,vj]
    }
  }
})");
  const std::string tiles = "i0 i1 = split Y.i [_, 8]\n", lanes = "vectorize Y.j\nvectorize T.j\n";
  CHECK(priced(f, tiles + "compute_at T Y.i0\n" + lanes).memory * 1.3 < priced(f, tiles + lanes).memory);
}

TEST_CASE("Updates in memory cost more than ones in registers, of parts of vectors most") {
  const auto of = [](const std::string& n, const std::string& steps) {
    return priced(parse_func("func f(in X: f32[64," + n + "], out Y: f32[" + n + "]) {\n  for j in " + n +
                             ", i in 64 {\n    block Y(vj: S " + n +
                             " = j, vi: R 64 = i) {\n      init { Y[vj] = 0.0f32 }\n      Y[vj] += "
                             "X[vi,vj]\n    }\n  }\n}\n"),
                  steps + "reorder Y (i j)\nvectorize Y.j\ndecompose_reduction Y.i\n");
  };
  CHECK(of("48", "").stores > of("48", "out = cache_write Y local\nvectorize out.j\n").stores);
  CHECK(of("40", "").stores > 2 * of("48", "").stores);
}
