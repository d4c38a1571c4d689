// The machine and the interpreter agree bit for bit, feature by feature of lowered functions.
#include "agree.h"

using namespace nestor;
using nestor::testing::check_agree;

TEST_CASE("scalar float arithmetic, comparisons and min/max on hard values") {
  check_agree(R"(
func f(in X: f32[256], in Y: f32[256], out Z: f32[2560]) {
  for i in 256 {
    Z[i] = X[i] + Y[i]
    Z[256 + i] = X[i] - Y[i]
    Z[512 + i] = X[i] * Y[i]
    Z[768 + i] = X[i] / Y[i]
    Z[1024 + i] = max(X[i], Y[i])
    Z[1280 + i] = min(X[i], Y[i])
    Z[1536 + i] = fma(X[i], Y[i], X[i])
    Z[1792 + i] = if X[i] < Y[i] || X[i] != Y[i] && X[i] >= 0.0f32 then 1.0f32 else 2.0f32
    Z[2048 + i] = sqrt(abs(X[i])) + -Y[i]
    Z[2304 + i] = if is_nan(X[i]) then Y[i] else X[i]
  }
}
)");
}

TEST_CASE("scalef and lookup on every number of lanes, with their instructions and without") {
  for (const int lanes : {1, 2, 3, 8, 16, 24, 48})
    for (const char* target : {"native", "x86-64-v3", "x86-64-v2"}) {
      const std::string n = std::to_string(lanes), step = "[ramp(i * " + n + ", 1, " + n + ")]";
      const std::string at = lanes == 1 ? "[i]" : step, x = lanes == 1 ? "" : "x" + n;
      std::string text =
          "func f(in X: f32[768], in Y: f32[768], out A: f32[768], out B: f32[768], out C: f32[768], out D: "
          "f32[768], out E: f32[768], out F: f32[768], out G: f32[768]) {\n  for i in " +
          std::to_string(768 / lanes) + " {\n";
      const auto value = [&](int k) { return x + "(" + std::to_string(k) + ".5f32)"; };
      text += "    A" + at + " = scalef(X" + at + ", Y" + at + ")\n    B" + at + " = scalef(Y" + at + ", " +
              x + "(-100.0f32) - " + x + "(40.5f32))\n";
      for (const auto& [output, size] : {std::pair("C", 16), {"E", 8}, {"F", 4}, {"G", 32}}) {
        text += std::string("    ") + output + at + " = lookup(X" + at;
        for (int k = 0; k < size; ++k) text += ", " + value(k);
        text += ")\n";
      }
      text += "    D" + at + " = lookup(Y" + at + ", " + value(1) + ", " + value(7) + ", X" + at + ", " +
              value(4) + ")\n  }\n}\n";
      check_agree(parse_func(text), 1, parse_target(target));
    }
}

TEST_CASE("lookup in 32 numbers is one instruction of AVX-512") {
  const auto code_of = [](const std::string& which) {
    std::string text = "func f(in X: f32[16], out Y: f32[16]) {\n  Y[ramp(0, 1, 16)] = lookup(" + which;
    for (int k = 0; k < 32; ++k) text += ", x16(" + std::to_string(k) + ".5f32)";
    return emit_asm({parse_func(text + ")\n}\n")}, parse_target("x86-64-v4"));
  };
  const std::string code = code_of("X[ramp(0, 1, 16)]");
  CHECK((code.find("vpermi2ps") != std::string::npos || code.find("vpermt2ps") != std::string::npos));
  CHECK(code.find("vpcmp") == std::string::npos);
  // LLVM knows which number the instruction gives: that of the lowest bits, here 20 and 3: 20.5 and 3.5.
  for (const auto& [which, number] :
       {std::pair("x16(393216.625f32)", "0x41a40000"), {"x16(393216.09375f32)", "0x40600000"}}) {
    const std::string folded = code_of(which);
    INFO(folded);
    CHECK(folded.find(number) != std::string::npos);
    CHECK(folded.find("vperm") == std::string::npos);
  }
}

TEST_CASE("what is cut off before it is rounded to an integer is converted at once") {
  const auto bytes = [](int lanes, const std::string& value) {
    const std::string n = std::to_string(lanes), step = "[ramp(i * " + n + ", 1, " + n + ")]";
    const auto all = [&](const std::string& number) { return "x" + n + "(" + number + "f32)"; };
    std::string cut = "max(min(X" + step + ", " + all("152.0") + "), " + all("-103.0") + ")";
    return parse_func("func f(in X: f32[768], out Y: u8[768], out Z: i32[768]) {\n  for i in " +
                      std::to_string(768 / lanes) + " {\n    Y" + step + " = u8x" + n + "(i32x" + n + "(" +
                      value + "(" + cut + ")) + x" + n + "(103i32))\n    Z" + step + " = i32x" + n + "(" +
                      cut + ")\n  }\n}\n");
  };
  for (const int lanes : {2, 3, 4, 8, 16, 24, 48})
    for (const char* target : {"native", "x86-64-v3", "x86-64-v2"})
      check_agree(bytes(lanes, "round"), 1, parse_target(target));
  for (const char* target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    const std::string code = emit_asm({bytes(16, "round")}, parse_target(target));
    CHECK(code.find("cvtps2dq") != std::string::npos);
    CHECK(code.find("cmpltps") == std::string::npos);
    CHECK(code.find("round") == std::string::npos);
    CHECK(code.find("vrndscale") == std::string::npos);
  }
}

TEST_CASE("rounding functions and casts between every two types") {
  check_agree(R"(
func f(in X: f32[128], out Z: f32[384]) {
  for i in 128 {
    Z[i] = floor(X[i])
    Z[128 + i] = ceil(X[i])
    Z[256 + i] = round(X[i])
  }
}
)");
  const std::vector<std::string> types = {"f64", "f32", "f16", "bf16", "i64",
                                          "i32", "i16", "i8",  "u8",   "bool"};
  for (const std::string& from : types)
    for (const std::string& to : types) {
      if (from == to) continue;
      const std::string text = "func f(in X: " + from + "[128], out Y: " + to +
                               "[256]) {\n  for i in 128 {\n    Y[i] = " + to +
                               "(X[i])\n  }\n  for o in 8 {\n    Y[ramp(128 + o * 16, 1, 16)] = " + to +
                               "x16(X[ramp(o * 16, 1, 16)])\n  }\n}\n";
      for (const char* target : {"native", "x86-64-v3"})
        check_agree(parse_func(text), 1, parse_target(target));
    }
}

TEST_CASE("vectors are truncated to integers whole") {
  for (const char* target : {"x86-64-v3", "x86-64-v4"})
    for (const std::string to : {"u8", "i8", "i16", "i32"}) {
      const std::string text = "func f(in X: f32[16], out Y: " + to + "[16]) {\n  Y[ramp(0, 1, 16)] = " + to +
                               "x16(X[ramp(0, 1, 16)])\n}\n";
      CHECK(emit_asm({parse_func(text)}, parse_target(target)).find("cvttss2si") == std::string::npos);
    }
}

TEST_CASE("integer arithmetic wraps, divides toward minus infinity, and is unsigned for u8") {
  for (const std::string& t : std::vector<std::string>{"i64", "i32", "i16", "i8", "u8"}) {
    const std::string a = "X[i]", b = "(if Y[i] == 0" + t + " then 1" + t + " else Y[i])";
    const auto s = [&](const char* n) { return std::string(n) + (t == "i64" ? "" : t); };
    std::string body;
    int row = 0;
    for (const std::string& e : std::vector<std::string>{
             a + " + " + b, a + " - " + b, a + " * " + b, a + " / " + b, a + " % " + b,
             "tdiv(" + a + ", " + b + ")", a + " / " + s("7"), a + " % " + s("8"), a + " / " + s("16"),
             "min(" + a + ", " + b + ")", "max(" + a + ", " + b + ")", a + " & " + b, a + " | " + b,
             a + " ^ " + b, a + " << " + s("3"), a + " >> " + s("2")}) {
      std::string text = e;
      if (t == "i64")
        for (size_t p; (p = text.find("i64")) != std::string::npos;) text.erase(p, 3);
      body += "    Z[" + std::to_string(256 * row++) + " + i] = " + text + "\n";
    }
    check_agree("func f(in X: " + t + "[256], in Y: " + t + "[256], out Z: " + t + "[" +
                std::to_string(256 * row) + "]) {\n  for i in 256 {\n" + body + "  }\n}\n");
  }
}

TEST_CASE("vector loads and stores of every stride, masked and not, stay inside the buffer") {
  for (const char* type : {"f32", "f64", "i8", "i32", "f16", "bf16", "bool"})
    for (int lanes : {2, 4, 8, 16})
      for (int stride : {1, -1, 2, 3, 4, 5, -2, 0}) {
        // The buffer ends exactly at the last lane.
        const int span = std::abs(stride) * (lanes - 1) + 1, base = stride < 0 ? span - 1 : 0;
        const std::string n = std::to_string(lanes), t = type;
        const std::string ramp =
            "ramp(" + std::to_string(base) + ", " + std::to_string(stride) + ", " + n + ")";
        const std::string wide = "ramp(0, 1, " + n + ")";
        const std::string size = std::to_string(span);
        check_agree("func f(in X: " + t + "[" + size + "], out Y: " + t + "[" + n + "], out Z: " + t + "[" +
                    n + "], out W: " + t + "[" + size + "], out V: " + t + "[" + size + "]) {\n  Y[" + wide +
                    "] = X[" + ramp + "]\n  Z[" + wide + "] = X[" + ramp + "] mask (" + wide + " % x" + n +
                    "(3) != x" + n + "(1))\n  for i in " + size + " {\n    W[i] = " + t +
                    "(1i32)\n    V[i] = " + t + "(1i32)\n  }\n  W[" + ramp + "] = X[" + wide.substr(0, 0) +
                    ramp + "]\n  V[" + ramp + "] mask (" + wide + " < x" + n + "(" +
                    std::to_string(lanes / 2) + ")) = X[" + ramp + "]\n}\n");
      }
}

TEST_CASE("lanes stored a few elements apart are masked stores, no scatter") {
  for (const auto& [stride, scatters] : {std::pair{2, false}, {4, false}, {5, true}}) {
    const std::string text =
        emit_asm({parse_func("func f(in X: f32[16], out Y: f32[80]) {\n  Y[ramp(0, " +
                             std::to_string(stride) + ", 16)] = X[ramp(0, 1, 16)]\n}\n")},
                 parse_target("x86-64-v4"));
    INFO(text);
    CHECK((text.find("scatter") != std::string::npos) == scatters);
    CHECK((text.find("{%k1}") != std::string::npos));
  }
}

TEST_CASE("gathers, scatters, and masked lanes that point outside") {
  check_agree(R"(
func f(in X: f32[100], in I: i32[16], out Y: f32[16], out Z: f32[100]) {
  for i in 100 {
    Z[i] = 0.0f32
  }
  let v = (i64x16(I[ramp(0, 1, 16)]) % x16(100)) {
    Y[ramp(0, 1, 16)] = X[v]
    Z[v] = X[v] + x16(1.0f32)
    Z[v] mask (v < x16(50)) = x16(3.0f32)
  }
  for o in 7 {
    let w = ramp(o * 16, 1, 16) {
      Z[w] mask (w < x16(100)) = (X[w] mask (w < x16(100))) * x16(2.0f32)
    }
  }
}
)");
}

TEST_CASE("lazy sides read nothing outside") {
  check_agree(R"(
func f(in X: f32[8], out Y: f32[24]) {
  for i in 24 {
    Y[i] = if 8 <= i && i < 16 && X[i - 8] >= -1.0f32 then X[i - 8] else if i < 8 then X[i] else 5.0f32
  }
}
)");
  check_agree(R"(
func f(in X: f32[32], out Y: f32[64]) {
  for o in 4 {
    Y[ramp(o * 16, 1, 16)] = if o < 2 then X[ramp(o * 16, 1, 16)] else x16(7.0f32)
  }
}
)");
}

TEST_CASE("reductions over lanes are the documented tree, for any lane count") {
  for (int lanes : {2, 3, 4, 5, 7, 8, 12, 16, 31})
    for (const char* type : {"f32", "f64", "i32", "u8", "i64"}) {
      const std::string n = std::to_string(lanes), t = type;
      const std::string v = "X[ramp(i * " + n + ", 1, " + n + ")]";
      check_agree("func f(in X: " + t + "[" + std::to_string(20 * lanes) + "], out Y: " + t +
                  "[80]) {\n  for i in 20 {\n    Y[i] = reduce_add(" + v + ")\n    Y[20 + i] = reduce_mul(" +
                  v + ")\n    Y[40 + i] = reduce_max(" + v + ")\n    Y[60 + i] = reduce_min(" + v +
                  ")\n  }\n}\n");
    }
}

TEST_CASE("math in f64 and in f32 is the C library's") {
  check_agree(R"(
func f(in X: f64[128], in U: f32[128], out Y: f64[1024], out V: f32[384]) {
  for i in 128 {
    Y[i] = exp(X[i])
    Y[128 + i] = log(abs(X[i]))
    Y[256 + i] = tanh(X[i])
    Y[384 + i] = erf(X[i])
    Y[512 + i] = sigmoid(X[i])
    Y[640 + i] = pow(abs(X[i]), 1.5f64)
    Y[768 + i] = sqrt(abs(X[i]))
    Y[896 + i] = exp_nonpositive(-abs(X[i]))
    V[i] = exp(U[i])
    V[256 + i] = exp_nonpositive(-abs(U[i]))
  }
  for o in 16 {
    V[ramp(128 + o * 8, 1, 8)] = sigmoid(U[ramp(o * 8, 1, 8)])
  }
}
)");
}

TEST_CASE("half arithmetic rounds after each operation") {
  for (const std::string& t : std::vector<std::string>{"f16", "bf16"})
    check_agree("func f(in X: " + t + "[256], in Y: " + t + "[256], out Z: " + t + R"([1280]) {
  for i in 256 {
    Z[i] = X[i] * Y[i] + X[i]
    Z[256 + i] = fma(X[i], Y[i], X[i])
    Z[512 + i] = X[i] / Y[i] - sqrt(abs(Y[i]))
    Z[768 + i] = max(X[i], -Y[i])
  }
  for o in 16 {
    let r = ramp(o * 16, 1, 16) {
      Z[r + x16(1024)] = X[r] * Y[r] + X[r]
    }
  }
}
)");
}

TEST_CASE("bits are reinterpreted in memory order") {
  check_agree(R"(
func f(in X: f32[64], in H: f16[64], out Y: i32[64], out Z: i16[64], out W: f32[64]) {
  for i in 64 {
    Y[i] = bitcast(X[i], i32)
    Z[i] = bitcast(H[i], i16)
    W[i] = bitcast(bitcast(X[i], i32) ^ 1i32, f32)
  }
}
)");
}

TEST_CASE("registers, stack and workspace hold temporaries; worker slices don't overlap") {
  check_agree(R"(
func f(in X: f32[4096], out Y: f32[4096]) {
  alloc G: f32[4096]
  alloc R: f32[3] local
  R[0] = X[0]
  R[1] = R[0] * 2.0f32
  for i in 4096 {
    G[i] = X[i] + R[1]
  }
  parallel p in 16 {
    alloc A: f32[256] {
      alloc B: f32[4096] {
        alloc V: f32x16[2] local {
          V[0] = x16(0.0f32)
          V[1] = x16(1.0f32)
          for i in 256 {
            A[i] = G[p * 256 + i]
          }
          for i in 256 {
            B[i * 16] = A[255 - i]
          }
          for i in 16 {
            V[0] = V[0] + A[ramp(i * 16, 1, 16)]
            V[1] = V[0]
          }
          for i in 16 {
            Y[ramp(p * 256 + i * 16, 1, 16)] = V[1] + B[ramp(i * 256, 16, 16)]
          }
        }
      }
    }
  }
}
)");
}

TEST_CASE("a parallel loop takes what surrounds it, and one inside another runs serially") {
  check_agree(R"(
func f(in X: f32[64], in N: i64[1], out Y: f32[512]) {
  let n = max(min(N[0], 8), 8) {
    let v = X[ramp(0, 1, 8)] {
      for s in 2 {
        parallel p in 4 {
          parallel q in n {
            Y[ramp(s * 256 + p * 64 + q * 8, 1, 8)] = v + x8(f32(s * 100 + p * 10 + q))
          }
        }
      }
    }
  }
}
)");
}

TEST_CASE("loops of extent 0 and 1, computed extents, and branches") {
  check_agree(R"(
func f(in X: f32[16], in N: i32[4], out Y: f32[64]) {
  for i in 64 {
    Y[i] = 0.0f32
  }
  for i in 0 {
    Y[i] = 9.0f32
  }
  for i in 1 {
    Y[i] = 1.0f32
  }
  for i in max(i64(N[0]) % 3, 0) {
    for j in i {
      Y[i * 4 + j] = X[j]
    }
  }
  for i in 16 {
    if X[i] > 0.0f32 {
      Y[32 + i] = X[i]
    } else {
      if i % 2 == 0 {
        Y[48 + i] = -X[i]
      }
    }
  }
}
)");
}

TEST_CASE("a let keeps its value when what it was loaded from changes") {
  check_agree(R"(
func f(in X: f32[64], out I: i64[1], out Y: f32[16]) {
  I[0] = 3
  let v = ramp(I[0], 1, 16) {
    I[0] = 40
    Y[ramp(0, 1, 16)] = X[v]
  }
}
)");
}

TEST_CASE("vectors in memory: temporaries of vectors with computed indices") {
  for (const char* t : {"f32", "bool", "bf16", "f64"})
    for (int lanes : {3, 16}) {
      const std::string n = std::to_string(lanes), type = t, size = std::to_string(8 * lanes);
      check_agree("func f(in X: " + type + "[" + size + "], out Y: " + type + "[" + size +
                  "]) {\n  alloc T: " + type + "x" + n +
                  "[8] local {\n    for i in 8 {\n      T[i] = X[ramp(i * " + n + ", 1, " + n +
                  ")]\n    }\n    for i in 8 {\n      Y[ramp(i * " + n + ", 1, " + n +
                  ")] = T[7 - i]\n    }\n  }\n}\n");
    }
}
