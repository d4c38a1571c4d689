// Whole pipelines: scheduled functions at sizes around their tiles' boundaries compute what the unscheduled
// ones do.
#include "catch.h"
#include "equivalent.h"
#include "nestor/error.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "nestor/walk.h"

using namespace nestor;

namespace {

Target cpu(int bits = 512) {
  Target t;
  t.vector_bits = bits;
  return t;
}

PrimFunc lowered(const PrimFunc& f, const Target& t) {
  LowerOptions options;
  options.check = true;
  return lower(f, t, options);
}

std::string replaced(std::string text, const std::vector<std::pair<std::string, int64_t>>& values) {
  for (const auto& [name, value] : values)
    for (size_t at; (at = text.find("$" + name)) != std::string::npos;)
      text.replace(at, name.size() + 1, std::to_string(value));
  return text;
}

PrimFunc matmul_relu(int64_t m, int64_t n, int64_t k) {
  return parse_func(replaced(R"(
func matmul_relu(in A: f32[$M,$K], in B: f32[$K,$N], out Y: f32[$M,$N]) {
  alloc T: f32[$M,$N]
  for i in $M, j in $N, k in $K {
    block T(vi: S $M = i, vj: S $N = j, vk: R $K = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
  for i in $M, j in $N {
    block Y(vi: S $M = i, vj: S $N = j) {
      Y[vi,vj] = max(0.0f32, T[vi,vj])
    }
  }
}
)",
                             {{"M", m}, {"N", n}, {"K", k}}));
}

bool only_lowered_forms(const PrimFunc& f) {
  bool ok = true;
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    ok = ok && !s.as<Block>() && !s.as<Update>() &&
         (!loop || loop->kind == ForKind::serial || loop->kind == ForKind::parallel);
  });
  return ok;
}

}  // namespace

TEST_CASE("an unscheduled function lowers") {
  PrimFunc f = matmul_relu(5, 7, 3);
  PrimFunc low = lowered(f, cpu());
  CHECK(only_lowered_forms(low));
  check_equivalent(f, low, 1e-5);
}

TEST_CASE("a register-tiled matmul at sizes around its tile") {
  const auto tail = GENERATE(as<std::string>(), "guard", "peel");
  const auto [m, n, k] = GENERATE(table<int64_t, int64_t, int64_t>(
      {{14, 32, 8}, {13, 31, 3}, {15, 33, 5}, {9, 40, 1}, {28, 64, 4}, {29, 40, 2}, {7, 100, 6}}));
  const int bits = GENERATE(256, 512);
  PrimFunc f = matmul_relu(m, n, k);
  Schedule s(f);
  s("i0 i1 = split T.i [_, 7] tail=" + tail);
  s("j0 j1 = split T.j [_, 32] tail=" + tail);
  s("reorder T (i0 j0 k i1 j1)");
  s("unroll T.i1");
  s("vectorize T.j1");
  CAPTURE(tail, m, n, k, bits);
  PrimFunc low = lowered(s.func(), cpu(bits));
  CHECK(only_lowered_forms(low));
  check_equivalent(f, low, 1e-5);
}

TEST_CASE("lanes of a folding loop run in as many chains as its annotation says") {
  const PrimFunc f = parse_func(R"(func f(in X: f32[3,330], out Y: f32[3]) {
  for i in 3, k in 330 {
    block Y(vi: S 3 = i, vk: R 330 = k) {
      init { Y[vi] = 0.0f32 }
      Y[vi] += X[vi,vk]
    }
  }
})");
  const auto in_chains = [&](const std::string& annotation) {
    Schedule s(f);
    s("Y_init = decompose_reduction Y.k")("vectorize Y.k");
    if (!annotation.empty()) s("annotate Y.k " + annotation);
    const PrimFunc low = lowered(s.func(), cpu());
    check_equivalent(f, low, 1e-4);
    return print(low);
  };
  CHECK(in_chains("").find("f32x16[8]") != std::string::npos);
  CHECK(in_chains("chains=1").find("f32x16[1]") != std::string::npos);
  CHECK(in_chains("chains=3").find("f32x16[3]") != std::string::npos);
  CHECK(in_chains("chains=40").find("f32x16[20]") != std::string::npos);  // no more than there are vectors
  for (const char* bad : {"chains=0", "chains=65", "chains=few"})
    CHECK_THROWS_AS(in_chains(bad), ScheduleError);
}

TEST_CASE("symbolic and zero-sized dimensions lower") {
  PrimFunc f = parse_func(R"(
func scale[N](in X: f32[N,3], out Y: f32[N,3]) {
  alloc T: f32[N,3]
  for i in N, j in 3 {
    block T(vi: S N = i, vj: S 3 = j) {
      T[vi,vj] = X[vi,vj] * 2.0f32
    }
  }
  for i in N, j in 3 {
    block Y(vi: S N = i, vj: S 3 = j) {
      Y[vi,vj] = T[vi,vj] + 1.0f32
    }
  }
}
)");
  PrimFunc low = lowered(f, cpu());
  CHECK(only_lowered_forms(low));
  std::vector<Tensor> args = random_args(f, 1, {4});
  std::vector<Tensor> flat = {args[0].reshaped({12}), Tensor(DType::f32, {12})};
  InterpretOptions options;
  options.dims = {4};
  interpret(low, flat, options);
  for (int64_t i = 0; i < 12; ++i)
    CHECK(flat[1].get(i) == static_cast<double>(static_cast<float>(args[0].get(i) * 2 + 1)));

  PrimFunc empty = matmul_relu(0, 4, 3);
  check_equivalent(empty, lowered(empty, cpu()));
}

TEST_CASE("dumps and timing name every pass, and say where nothing changed") {
  std::vector<std::string> dumped, ran;
  LowerOptions options;
  options.dump_after = {"lower_blocks", "expand_math"};
  options.on_dump = [&](const Pass& p, const std::string& text) {
    dumped.push_back(p.name + (":" + text.substr(0, 5)));
  };
  options.on_pass = [&](const Pass& p, const PrimFunc&, double ms, bool) {
    CHECK(ms >= 0);
    ran.push_back(p.name);
  };
  lower(matmul_relu(4, 4, 4), cpu(), options);
  CHECK(dumped == std::vector<std::string>{"lower_blocks:func ", "expand_math:(unch"});
  CHECK(ran.size() == pipeline(TargetKind::cpu).size());
  options.dump_after = {"lower_block"};
  CHECK_THROWS_AS(lower(matmul_relu(4, 4, 4), cpu(), options), UserError);
}

TEST_CASE("lowering is deterministic") {
  const auto text = [] {
    Schedule s(matmul_relu(29, 40, 6));
    s("i0 i1 = split T.i [_, 7] tail=peel");
    s("reorder T (i0 k i1 j)");
    s("unroll T.i1");
    s("vectorize T.j");
    return print(lowered(s.func(), cpu()));
  };
  CHECK(text() == text());
}
