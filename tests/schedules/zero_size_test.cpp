// Loops that never run: every primitive is tried on functions with dimensions of size 0, which divide
// nothing, and what is accepted keeps what the function computes.
#include "catch.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "schedules/primitive.h"
#include "tests/fuzz/check_trace.h"
#include "tests/fuzz/random_trace.h"

using namespace nestor;

namespace {

// Outer, inner and reduction loops of size 0; a chain, and a reduction of nothing.
const char* const kFunctions[] = {
    R"(func rows(in A: f32[0,5], const B: f32[5,4], out Y: f32[0,4]) {
  for i in 0, j in 4, k in 5 {
    block Y(vi: S 0 = i, vj: S 4 = j, vk: R 5 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
})",
    R"(func terms(in A: f32[3,0], const B: f32[0,4], out Y: f32[3,4]) {
  alloc T: f32[3,4]
  for i in 3, j in 4 {
    block Z(vi: S 3 = i, vj: S 4 = j) {
      T[vi,vj] = 7.0f32
    }
  }
  for i in 3, j in 4, k in 0 {
    block T(vi: S 3 = i, vj: S 4 = j, vk: R 0 = k) {
      T[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
  for i in 3, j in 4 {
    block Y(vi: S 3 = i, vj: S 4 = j) {
      Y[vi,vj] = T[vi,vj] + 1.0f32
    }
  }
})",
    R"(func chain(in X: f32[3,0,5], out Y: f32[3,0,5]) {
  alloc T: f32[3,0,5]
  for i in 3, z in 0, j in 5 {
    block T(vi: S 3 = i, vz: S 0 = z, vj: S 5 = j) {
      T[vi,vz,vj] = X[vi,vz,vj] * 2.0f32
    }
  }
  for i in 3, z in 0, j in 5 {
    block Y(vi: S 3 = i, vz: S 0 = z, vj: S 5 = j) {
      Y[vi,vz,vj] = T[vi,vz,vj] + 1.0f32
    }
  }
})",
    R"(func last(in X: f32[4,0], out Y: f32[4], out Z: f32[4,0]) {
  for i in 4 {
    block Y(vi: S 4 = i) {
      Y[vi] = 2.0f32
    }
  }
  for i in 4, k in 0 {
    block Y_sum(vi: S 4 = i, vk: R 0 = k) {
      Y[vi] += X[vi,vk]
    }
  }
  for i in 4, k in 0 {
    block Z(vi: S 4 = i, vk: S 0 = k) {
      Z[vi,vk] = X[vi,vk] - Y[vi]
    }
  }
})"};

}  // namespace

TEST_CASE("every primitive bears dimensions of size 0") {
  TraceCounts counts;
  for (const char* text : kFunctions) {
    const PrimFunc f = parse_func(text);
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      std::mt19937_64 rng(seed);
      TraceOptions options;
      options.gpu = seed % 3 == 0;
      options.cpu = !options.gpu;
      const Schedule s = random_schedule(f, rng, counts, options);
      INFO(f.name << " seed " << seed << "\n" << print(s.trace()));
      const Finding finding = check_trace({f, 1e-5, seed}, s);
      INFO(finding.what);
      CHECK(finding.kind == "");
      const Proof proof = verify_schedule(f, s.func());
      INFO(describe(proof));
      CHECK(proof.verdict != Verdict::wrong);
    }
  }
  for (const std::string& name : proposed_primitives()) CHECK(counts.rows.count(name) == 1);
}

// Each stopped the program by a division by 0.
TEST_CASE("steps that divide by the size of a loop or of a region bear 0") {
  const auto schedule = [](size_t function, std::initializer_list<const char*> lines) {
    Schedule s(parse_func(kFunctions[function]));
    for (const char* line : lines) CHECK_NOTHROW(s(line));
    CHECK(verify_schedule(parse_func(kFunctions[function]), s.func()).verdict == Verdict::proved);
  };
  schedule(0, {"i0 i1 = split Y.i [_, 4] tail=balanced"});
  schedule(0, {"C = cache_write Y local", "reverse_compute_at C Y.i"});
  schedule(2, {"reverse_compute_inline Y"});
  schedule(2, {"reverse_compute_at Y T.i"});
  schedule(2, {"S = cache_read T X global", "compute_at S T.i", "software_pipeline T.i stages=2"});
  schedule(2, {"pack Y T (a, b, c) -> (a/2, b, c, a%2) scope=local"});
}
