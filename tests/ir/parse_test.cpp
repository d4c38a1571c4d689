// What parses, what comes back, and that nothing crashes the parser.
#include "nestor/parse.h"

#include "catch.h"
#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/walk.h"

using namespace nestor;

namespace {

// Every form of the language, lowered ones included.
constexpr const char* kEverything =
    R"(func everything[N, M](in X: f32[N,M], const W: f32[64,M+1] layout (a,b) -> (a/16,b,a%16) pad -inf, in I: i32[N], out Y: f32[N,M]) {
  alloc T: f32[N,M] shared align (0,32,8)
  alloc S0: f64[] local layout () -> ()
  for n in N, m in M {
    block T(vn: S N = n, vm: R M = m) where vn <= vm @kind("max") @stage(-2) {
      init {
        T[vn,0] = -inf_f32
        S0[] = 1e-05f64
      }
      T[vn,0] max= if !(vn == vm) || false then X[vn,vm] else nan_f32
    }
  }
  for i in N @tail("pe\"el\\\n\x01") {
    parallel g in 16 {
      vectorized l in 16 {
        unrolled u in 4, v in 2 {
          Y[i,l] += let w = X[i,g] * 2.0f32 in w * w - (-w)
        }
      }
    }
  }
  blockIdx.x bx in 8 {
    threadIdx.y ty in 8 {
      vthread vt in 2 {
        block Y(vi: S N+1 = (bx*8+ty)*2-vt) {
          if vi < N && I[vi] > 3i32 {
            Y[vi,0] = fma(X[vi,0], 2.0f32, exp(-X[vi,1]))
          } else if vi == 5 {
            Y[vi,0] *= f32(I[vi] / (-7i32)) + bitcast(I[vi] << 3i32, f32)
          } else {
            Y[vi,0] min= f32(vi % 3) + pow(1.5f32, 3.0f32)
          }
        }
        sync()
      }
    }
  }
  alloc R: f32x16[2] local {
    alloc F: f32[1024] {
      for c in 4 {
        let v = ramp(c * 16, 1, 16) {
          R[0] = F[v] mask (v < x16(N))
          R[1] = (F[ramp(0, 2, 16)] mask (v < x16(N))) + f32x16(x16(3i32))
          F[v] mask (v >= x16(2)) = if v < x16(7) then R[0] else abs(R[1])
          F[0] = reduce_add(R[0]) + reduce_max(R[1] * x16(-2.5f32))
        }
        prefetch(F[c*64+256])
      }
    }
  }
}
)";

std::string error_of(std::string_view text) {
  try {
    parse_func(text, "t.nest");
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("every form parses and prints back to the same bytes") {
  PrimFunc f = parse_func(kEverything);
  CHECK(print(f) == kEverything);
  CHECK(structural_equal(parse_func(print(f)), f, true));
}

TEST_CASE("comments, spacing and redundant parentheses don't matter") {
  PrimFunc f = parse_func("func f(in A:f32[8],out B:f32[8]){for i in((8)){# note {\n B[ i ]=((A[i]))}}# end");
  CHECK(print(f) == "func f(in A: f32[8], out B: f32[8]) {\n  for i in 8 {\n    B[i] = A[i]\n  }\n}\n");
  CHECK(parse_funcs("func f() {}\nfunc g() {}").size() == 2);
  CHECK(parse_funcs("").empty());
}

TEST_CASE("words that begin statements may name buffers") {
  const std::string text =
      "func f(in mask: f32[8], out init: f32[8]) {\n  init[0] = mask[0]\n  mask[1] = init[1]\n}\n";
  CHECK(print(parse_func(text)) == text);
}

TEST_CASE("expressions parse over given variables") {
  Var n = make_var("n");
  CHECK(structural_equal(
      parse_expr("n/16 + n % 16", {n}),
      make::binary(BinaryOp::add, make::binary(BinaryOp::div, n, 16), make::binary(BinaryOp::mod, n, 16))));
  CHECK(as_int(parse_expr("-9223372036854775808", {})) == INT64_MIN);
  CHECK_THROWS_AS(parse_expr("n 1", {n}), UserError);
}

TEST_CASE("errors name the place and what would work") {
  const std::string text =
      "func f(in Input: f32[8], out Y: f32[8]) {\n  for i in 8 {\n    Y[i] = Inptu[i] + 1.0f32\n  }\n}";
  CHECK(error_of(text) == R"(t.nest:3:12: error: unknown buffer `Inptu`
      Y[i] = Inptu[i] + 1.0f32
             ^~~~~
hint: did you mean `Input`?)");
}

TEST_CASE("no prefix and no mutation of a text crashes the parser") {
  const std::string text = kEverything;
  const auto survives = [](const std::string& t) {
    try {
      const PrimFunc f = parse_func(t);
      const std::string printed = print(f);
      if (print(parse_func(printed)) != printed) FAIL("prints differently the second time:\n" << t);
    } catch (const UserError&) {
    }
  };
  for (size_t i = 0; i < text.size(); ++i) {
    survives(text.substr(0, i));
    survives(text.substr(i));
    for (const char c : {'\0', ' ', '(', '}', '"', '9', '-', 'x', '\n', '\xff'}) {
      std::string changed = text;
      changed[i] = c;
      survives(changed);
    }
    std::string missing = text;
    survives(missing.erase(i, 1));
    survives(missing.erase(i, 7));
  }
}

TEST_CASE("deep nesting is refused, and what is accepted can be walked") {
  const auto nested = [](const std::string& open, const std::string& inside, const std::string& close,
                         int n) {
    std::string out = "func f(in A: f32[8], out B: f32[8]) {";
    for (int i = 0; i < n; ++i) out += open;
    out += inside;
    for (int i = 0; i < n; ++i) out += close;
    return out + "}";
  };
  for (const int n : {900, 100000}) {
    for (const std::string& text :
         {nested("if true {", "B[0] = A[0]", "}", n),
          "func f(out B: bool[1]) { B[0] = " + std::string(static_cast<size_t>(n), '!') + "true }",
          nested("if true {} else ", "{}", "", n),
          "func f(out B: i64[1]) { B[0] = " + std::string(static_cast<size_t>(n), '(') + "1" +
              std::string(static_cast<size_t>(n), ')') + "}"}) {
      if (n == 900)
        CHECK_NOTHROW(print(parse_func(text)));
      else
        CHECK(error_of(text).find("levels deep") != std::string::npos);
    }
  }
  std::string sum = "func f(out B: i64[1]) { B[0] = 1";
  for (int i = 0; i < 2900; ++i) sum += " + 1";
  CHECK(structural_hash(parse_func(sum + "}")) != 0);
  for (int i = 0; i < 100000; ++i) sum += " + 1";
  CHECK(error_of(sum + "}").find("nested operations") != std::string::npos);
}
