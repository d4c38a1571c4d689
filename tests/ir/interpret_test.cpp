#include "nestor/interpret.h"

#include <cmath>
#include <limits>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/print.h"

using namespace nestor;

namespace {

using Catch::Matchers::Contains;

Tensor floats(std::vector<int64_t> shape, const std::vector<float>& values, DType t = DType::f32) {
  Tensor out(t, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) out.set(static_cast<int64_t>(i), static_cast<double>(values[i]));
  return out;
}

std::vector<double> run(const std::string& text, std::vector<Tensor> args,
                        const InterpretOptions& options = {}) {
  interpret(parse_func(text), args, options);
  std::vector<double> out;
  for (int64_t i = 0; i < args.back().size(); ++i) out.push_back(args.back().get(i));
  return out;
}

// What the interpreter says is wrong with a function on random arguments.
std::string complaint(const std::string& text, InterpretOptions options = {}) {
  options.check_races = true;
  const PrimFunc f = parse_func(text);
  std::vector<Tensor> args = random_args(f, 1);
  try {
    interpret(f, args, options);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

const char* matmul = R"(
func matmul(in A: f32[3,4], const B: f32[4,2], out C: f32[3,2]) {
  for i in 3, j in 2, k in 4 {
    block C(vi: S 3 = i, vj: S 2 = j, vk: R 4 = k) {
      init { C[vi,vj] = 0.0f32 }
      C[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
})";

}  // namespace

TEST_CASE("a reduction block initializes, accumulates, and follows its guards") {
  const PrimFunc f = parse_func(matmul);
  std::vector<Tensor> args = random_args(f, 7);
  interpret(f, args);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j) {
      float sum = 0;
      for (int k = 0; k < 4; ++k) sum += args[0].as<float>()[i * 4 + k] * args[1].as<float>()[k * 2 + j];
      CHECK(args[2].as<float>()[i * 2 + j] == sum);
    }
  // Ragged: 2x2 covers 3; the instance i=3 doesn't run.
  CHECK(run(R"(func f(out Y: f32[3]) {
    for i0 in 2, i1 in 2 { block Y(vi: S 3 = i0*2 + i1) { Y[vi] = f32(vi) } }
  })",
            {Tensor(DType::f32, {3})}) == std::vector<double>{0, 1, 2});
}

TEST_CASE("select and the logical operators are lazy") {
  CHECK(run(R"(func pad(in X: f32[2], out Y: f32[4]) {
    for i in 4 { block Y(v: S 4 = i) { Y[v] = if 1 <= v && v < 3 then X[v-1] else 0.0f32 } }
  })",
            {floats({2}, {5, 6}), Tensor(DType::f32, {4})}) == std::vector<double>{0, 5, 6, 0});
  CHECK(run(R"(func f(in X: f32[1], out Y: f32[2]) {
    for i in 2 { if i == 1 || X[i] > 0.0f32 { Y[i] = 1.0f32 } else { Y[i] = 2.0f32 } }
  })",
            {floats({1}, {-1}), Tensor(DType::f32, {2})}) == std::vector<double>{2, 1});
}

TEST_CASE("arithmetic is rounded once in its own type") {
  // 0.1f + 0.2f in double would round differently from float.
  const float third = 1.0f / 3, big = 16777216.0f;
  const auto one = [](const std::string& e, float a, float b, float c = 0) {
    return run("func f(in X: f32[3], out Y: f32[1]) { Y[0] = " + e + " }",
               {floats({3}, {a, b, c}), Tensor(DType::f32, {1})})[0];
  };
  CHECK(one("X[0] + X[1]", big, 1) == 16777216.0);
  CHECK(one("X[0] * X[1] + X[2]", third, third, -third / 3) ==
        static_cast<double>(third * third + (-third / 3)));
  CHECK(one("fma(X[0], X[1], X[2])", third, third, -third / 3) ==
        static_cast<double>(std::fma(third, third, -third / 3)));
  for (const std::string extremum : {"max", "min"}) {
    const std::string both = extremum + "(X[0], X[1])";
    CHECK(std::isnan(one(both, 1, std::nanf(""))));
    CHECK(std::isnan(one(both, std::nanf(""), 1)));
    CHECK(std::signbit(one(both, 0.0f, -0.0f)));  // of zeros the right one
    CHECK_FALSE(std::signbit(one(both, -0.0f, 0.0f)));
  }
  CHECK(one("round(X[0])", 2.5f, 0) == 2);
  CHECK(one("exp(X[0])", 1, 0) == static_cast<double>(static_cast<float>(std::exp(1.0))));
}

TEST_CASE("integers floor, truncate, wrap and convert") {
  const auto one = [](const std::string& type, const std::string& e) {
    Tensor y(*parse_dtype(type), {1});
    std::vector<Tensor> args = {y};
    interpret(parse_func("func f(out Y: " + type + "[1]) { for i in 1 { Y[0] = " + e + " } }"), args);
    return args[0].get_int(0);
  };
  CHECK(one("i64", "(i-7) / 2") == -4);
  CHECK(one("i64", "(i-7) % 4") == 1);
  CHECK(one("i64", "(i+7) % (i-4)") == -1);
  CHECK(one("i64", "tdiv(i-7, i+2)") == -3);
  CHECK(one("i32", "i32(i + 2147483647) + 1i32") == -2147483648LL);
  CHECK(one("i8", "i8(i + 127) + 1i8") == -128);
  CHECK(one("u8", "u8(i + 255) + u8(i + 2)") == 1);
  CHECK(one("i32", "bitcast(f32(i + 1), i32)") == 0x3f800000);
  CHECK(one("i32", "i32(f32(i) - 3.9f32)") == -3);
  CHECK(one("i64", "(i + 3) << (i + 4)") == 48);
  CHECK(one("i64", "(i - 48) >> (i + 4)") == -3);
}

TEST_CASE("half types round every result") {
  const std::vector<double> y = run(R"(func f(in X: f16[2], out Y: f16[1]) { Y[0] = X[0] + X[1] })",
                                    {floats({2}, {2048, 1}, DType::f16), Tensor(DType::f16, {1})});
  CHECK(y[0] == 2048);
}

TEST_CASE("vectors: ramps, masks, broadcasts, tree reductions") {
  CHECK(run(R"(func f(in X: f32[6], out Y: f32[1]) { Y[0] = reduce_add(X[ramp(1, 1, 4)]) })",
            {floats({6}, {0, 16777216, 1, -16777216, 1, 9}), Tensor(DType::f32, {1})})[0] ==
        2);  // (a+c) + (b+d)
  CHECK(run(R"(func f(in X: f32[3], out Y: f32[3]) {
    Y[ramp(0, 1, 4)] mask (ramp(0, 1, 4) < x4(3)) = (X[ramp(0, 1, 4)] mask (ramp(0, 1, 4) < x4(3))) * x4(2.0f32)
  })",
            {floats({3}, {1, 2, 3}), Tensor(DType::f32, {3})}) == std::vector<double>{2, 4, 6});
}

TEST_CASE("symbolic dimensions") {
  InterpretOptions o;
  o.dims = {3};
  const PrimFunc f =
      parse_func("func f[N](in X: f32[N], out Y: f32[N+1]) { for i in N { Y[i+1] = X[i] } Y[0] = 0.0f32 }");
  std::vector<Tensor> args = random_args(f, 1, {3});
  interpret(f, args, o);
  CHECK(args[1].shape() == std::vector<int64_t>{4});
  CHECK(args[1].get(3) == args[0].get(2));
}

TEST_CASE("memory errors name buffer, element, iteration and statement") {
  const std::string outside =
      complaint("func f(in X: f32[3], out Y: f32[3]) { for i in 3 { Y[i] = X[i+1] } }");
  CHECK_THAT(outside,
             Contains("index 3 in dimension 0 is outside of X[3]") && Contains("i=2") && Contains("^"));
  const std::string fresh =
      complaint("func f(out Y: f32[3]) { alloc T: f32[3,2] for i in 3 { Y[i] = T[i,1] } }");
  CHECK_THAT(fresh, Contains("T[0,1] is read before anything was stored there"));
  CHECK_THAT(complaint("func f(out Y: f32[3]) { for i in 3 { Y[i] += 1.0f32 } }"),
             Contains("Y[0] is read before"));
  CHECK_THAT(complaint("func f(out Y: i64[1]) { for i in 2 { Y[0] = 5 / i } }"),
             Contains("division by zero"));
  std::vector<Tensor> wrong = {Tensor(DType::f32, {2}), Tensor(DType::f32, {3})};
  CHECK_THROWS_WITH(interpret(parse_func("func f(in X: f32[3], out Y: f32[3]) { Y[0] = X[0] }"), wrong),
                    Contains("parameter X is f32[3], but f32[2] was given"));
}

TEST_CASE("an allocation is uninitialized each time its statement begins") {
  CHECK_THAT(complaint(R"(func f(out Y: f32[2]) {
    for i in 2 { alloc T: f32[1] { if i == 0 { T[0] = 1.0f32 } Y[i] = T[0] } }
  })"),
             Contains("T[0] is read before") && Contains("i=1"));
}

TEST_CASE("races between iterations without order are found, ordered ones are not reported") {
  const std::string r = complaint(R"(func f(in X: f32[4], out Y: f32[4]) {
    alloc T: f32[5]
    T[0] = 0.0f32
    parallel i in 4 { T[i+1] = X[i] Y[i] = T[i] }
  })");
  CHECK_THAT(r, Contains("i=0 writes T[1] and i=1 reads it") && Contains("loop `i`") && Contains("^"));
  CHECK_THAT(complaint(R"(func f(in X: f32[4], out Y: f32[1]) {
    Y[0] = 0.0f32
    parallel k in 4 { Y[0] += X[k] }
  })"),
             Contains("loop `k`"));
  CHECK_THAT(complaint("func f(out Y: f32[2]) { vectorized k in 4 { Y[k/2] = 1.0f32 } }"),
             Contains("k=0 writes Y[0] and k=1 writes it"));
  // Read first, written by another iteration later, with harmless readers between.
  CHECK_THAT(complaint(R"(func f(out Y: f32[4]) {
    alloc T: f32[1]
    T[0] = 0.0f32
    parallel i in 4 { Y[i] = T[0] if i == 3 { T[0] = 1.0f32 } }
  })"),
             Contains("i=0 reads T[0] and i=3 writes it"));
  // In order: a serial loop around, separate loops, an iteration's own serial loop.
  CHECK(complaint(R"(func f(in X: f32[4], out Y: f32[4]) {
    for k in 3 { parallel i in 4 { if k == 0 { Y[i] = X[i] } else { Y[i] += X[i] } } }
    parallel i in 4 { for k in 3 { Y[3-i] += 1.0f32 } }
  })")
            .empty());
  CHECK(complaint(R"(func f(in X: f32[4], out Y: f32[4]) {
    parallel i in 4 { alloc T: f32[1] { T[0] = X[i] Y[i] = T[0] } }
  })")
            .empty());
  CHECK_THAT(complaint("func f(out Y: f32[2]) { Y[ramp(0, 0, 4)] = x4(1.0f32) }"),
             Contains("both write Y[0]"));
}

TEST_CASE("iterations without order run in the order asked for") {
  const std::string text = R"(func f(out Y: i64[8]) {
    alloc N: i64[1]
    N[0] = 0
    parallel i in 8 { Y[i] = N[0] N[0] += 1 }
  })";
  InterpretOptions o;
  CHECK(run(text, {Tensor(DType::i64, {8})}, o) == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7});
  o.order = LoopOrder::reverse;
  CHECK(run(text, {Tensor(DType::i64, {8})}, o) == std::vector<double>{7, 6, 5, 4, 3, 2, 1, 0});
  o.order = LoopOrder::random;
  o.seed = 5;
  std::vector<double> random = run(text, {Tensor(DType::i64, {8})}, o);
  std::sort(random.begin(), random.end());
  CHECK(random == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7});
}

namespace {
std::string reversal(const std::string& sync) {
  return R"(func f(in X: f32[8], out Y: f32[8]) {
    blockIdx.x b in 2 {
      alloc S: f32[4] shared {
        threadIdx.x t in 4 {
          S[t] = X[b*4 + t]
          )" +
         sync + R"(
          Y[b*4 + t] = S[3-t]
        }
      }
    }
  })";
}
}  // namespace

TEST_CASE("threads wait at barriers; a missing one is a race") {
  CHECK(run(reversal("sync()"), {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8}), Tensor(DType::f32, {8})}) ==
        std::vector<double>{4, 3, 2, 1, 8, 7, 6, 5});
  for (LoopOrder order : {LoopOrder::forward, LoopOrder::reverse, LoopOrder::random}) {
    InterpretOptions o;
    o.order = order;
    CHECK(complaint(reversal("sync()"), o).empty());
  }
  CHECK_THAT(complaint(reversal("")), Contains("S[3] is read before anything was stored there"));
  CHECK_THAT(complaint(reversal("if t < 2 { sync() }")), Contains("S["));
  CHECK_THAT(complaint("func f(out Y: f32[4]) { threadIdx.x t in 4 { if t < 2 { sync() } Y[t] = 1.0f32 } }"),
             Contains("a barrier is reached by thread t=0, but thread t=2 ends without it"));
  CHECK_THAT(complaint("func f(out Y: f32[4]) { threadIdx.x t in 4 { if t < 2 { sync() } else { sync() } "
                       "Y[t] = 1.0f32 } }"),
             Contains("thread t=2 waits at another"));
  // Two-dimensional blocks, a barrier in a serial loop; without the second one the next round overwrites too
  // early.
  const auto rounds = [](const std::string& second) {
    return R"(func f(in X: f32[2,3], out Y: f32[2,3]) {
      alloc S: f32[2,3] shared
      threadIdx.y y in 2 { threadIdx.x x in 3 {
        Y[y,x] = 0.0f32
        for k in 3 {
          S[y,x] = X[y,x] * f32(k)
          sync()
          Y[y,x] += S[1-y,2-x]
          )" +
           second + R"(
        }
      } }
    })";
  };
  CHECK(complaint(rounds("sync()")).empty());
  CHECK_THAT(complaint(rounds("")), Contains("S["));
}

TEST_CASE("lanes that a shuffle doesn't take may hold anything, but must lie in the buffer") {
  const auto every_other = [](const std::string& size, const std::string& lanes) {
    return complaint(
        "func f(in X: f32[4], out Y: f32[2]) {\n  alloc T: f32[" + size +
        "]\n  T[0] = X[0]\n  T[2] = X[1]\n  Y[ramp(0, 1, 2)] = shuffle(T[ramp(0, 1, 4)], T[ramp(0, 1, 4)], " +
        lanes + ")\n}");
  };
  CHECK(every_other("4", "[0,2]").empty());
  CHECK(every_other("4", "[0,6]").empty());
  CHECK_THAT(every_other("4", "[0,1]"), Contains("T[1] is read before anything was stored there"));
  CHECK_THAT(every_other("4", "[0,7]"), Contains("T[3] is read before anything was stored there"));
  CHECK_THAT(every_other("3", "[0,2]"), Contains("is outside of T[3]"));
}

TEST_CASE("the f64 form computes in f64") {
  const PrimFunc f = parse_func(R"(func f(in X: f32[1], out Y: f32[1]) {
    Y[0] = f32(X[0] + f32(f16(0.1f32))) / 3.0f32
  })");
  const PrimFunc g = to_f64(f);
  std::vector<Tensor> args = {Tensor(DType::f64, {1}), Tensor(DType::f64, {1})};
  args[0].set(0, 1e-12);
  interpret(g, args);
  CHECK(args[1].get(0) == (1e-12 + static_cast<double>(0.1f)) / 3);
}
