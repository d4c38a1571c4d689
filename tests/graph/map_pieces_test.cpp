// What follows a value made in pieces is done for each piece, if that gives the same.
#include "src/graph/map_pieces.h"

#include "catch.h"
#include "nestor/check.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "src/graph/nests.h"

using namespace nestor;

namespace {

void check_same_values(const PrimFunc& f, const PrimFunc& g) {
  check_well_formed(g);
  std::vector<Tensor> a = random_args(f, 3), b = random_args(f, 3);
  interpret(f, a);
  interpret(g, b);
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t k = 0; k < a[i].size(); ++k) REQUIRE(a[i].get(k) == b[i].get(k));
}

// Even and odd columns of T, [1,3,32], of X and Z, then `rest`, which makes Y.
std::string in_pieces(const std::string& rest, const std::string& allocs = "",
                      const std::string& y = "[1,3,32]") {
  return "func f(in X: f32[1,3,16], in Z: f32[1,3,16], in R: f32[1,3,32], out Y: f32" + y + R"() {
  alloc T: f32[1,3,32]
)" + allocs +
         R"(  for n in 1, o in 3, x in 16 {
    block T(vn: S 1 = n, vo: S 3 = o, vx: S 16 = x) {
      T[vn,vo,vx*2] = X[vn,vo,vx] + 1.0f32
    }
  }
  for n in 1, o in 3, x in 16 {
    block T1(vn: S 1 = n, vo: S 3 = o, vx: S 16 = x) {
      T[vn,vo,vx*2+1] = Z[vn,vo,vx]
    }
  }
)" + rest +
         "}\n";
}

std::string map_of(const std::string& out, const std::string& value) {
  return "  for n in 1, c in 3, w in 32 {\n    block " + out +
         "(vn: S 1 = n, vc: S 3 = c, vw: S 32 = w) {\n      " + out + "[vn,vc,vw] = " + value +
         "\n    }\n  }\n";
}

size_t blocks(const PrimFunc& f) {
  return read_nests(f).value().size();
}

void check_stays(const std::string& text) {
  const PrimFunc f = parse_func(text);
  CHECK(print(map_pieces(f)) == print(f));
}

}  // namespace

TEST_CASE("a map of pieces is done with each of them") {
  const PrimFunc f = parse_func(in_pieces(map_of("Y", "max(0.0f32, T[vn,vc,vw]) + R[vn,vc,vw]")));
  const PrimFunc g = map_pieces(f);
  CHECK(print(g) == print(parse_func(R"(
func f(in X: f32[1,3,16], in Z: f32[1,3,16], in R: f32[1,3,32], out Y: f32[1,3,32]) {
  for n in 1, o in 3, x in 16 {
    block Y(vn: S 1 = n, vo: S 3 = o, vx: S 16 = x) {
      Y[vn,vo,vx*2] = max(0.0f32, X[vn,vo,vx] + 1.0f32) + R[vn,vo,vx*2]
    }
  }
  for n in 1, o in 3, x in 16 {
    block Y1(vn: S 1 = n, vo: S 3 = o, vx: S 16 = x) {
      Y[vn,vo,vx*2+1] = max(0.0f32, Z[vn,vo,vx]) + R[vn,vo,vx*2+1]
    }
  }
})")));
  check_same_values(f, g);
}

TEST_CASE("maps one after another, of which some read the pieces again, all go") {
  const PrimFunc f = parse_func(
      in_pieces(map_of("S", "sigmoid(T[vn,vc,vw])") + map_of("P", "S[vn,vc,vw] * T[0,vc,vw]") +
                    map_of("Q", "P[vn,vc,vw] - R[vn,vc,vw]") + map_of("Y", "max(Q[vn,vc,vw], 0.0f32)"),
                "  alloc S: f32[1,3,32]\n  alloc P: f32[1,3,32]\n  alloc Q: f32[1,3,32]\n"));
  const PrimFunc g = map_pieces(f);
  CHECK(blocks(g) == 2);
  CHECK(g.allocs.empty());
  check_same_values(f, g);
}

TEST_CASE("a map whose results lie in another order keeps it") {
  const PrimFunc f = parse_func(in_pieces(R"(  for n in 1, c in 3, w in 32 {
    block Y(vn: S 1 = n, vc: S 3 = c, vw: S 32 = w) {
      Y[vn,vw,vc] = -T[vn,vc,vw]
    }
  }
)",
                                          "", "[1,32,3]"));
  const PrimFunc g = map_pieces(f);
  CHECK(blocks(g) == 2);
  check_same_values(f, g);
}

TEST_CASE("pieces stay where what reads them is no map of each element") {
  // Shifted; turned; more than once; two that read; a reduction; what is made between.
  check_stays(in_pieces(map_of("Y", "if 1 <= vw then T[vn,vc,vw-1] else 0.0f32")));
  check_stays(in_pieces(map_of("Y", "T[vn,vc,31-vw]")));
  check_stays(in_pieces(R"(  for a in 2, n in 1, c in 3, w in 32 {
    block Y(va: S 2 = a, vn: S 1 = n, vc: S 3 = c, vw: S 32 = w) {
      Y[va,vc,vw] = exp(T[vn,vc,vw])
    }
  }
)",
                        "", "[2,3,32]"));
  check_stays(in_pieces(map_of("U", "T[vn,vc,vw] * 2.0f32") + map_of("V", "U[vn,vc,vw] + U[vn,vc,31-vw]") +
                            map_of("Y", "V[vn,vc,vw] + T[vn,vc,vw] + U[vn,vc,vw]"),
                        "  alloc U: f32[1,3,32]\n  alloc V: f32[1,3,32]\n"));
  check_stays(in_pieces(R"(  for n in 1, c in 3, w in 32 {
    block Y(vn: S 1 = n, vc: S 3 = c, vw: R 32 = w) {
      init { Y[vn,vc,0] = 0.0f32 }
      Y[vn,vc,0] += T[vn,vc,vw]
    }
  }
)",
                        "", "[1,3,1]"));
  const std::string late = map_of("U", "R[vn,vc,vw] * 2.0f32");
  std::string text = in_pieces(map_of("Y", "T[vn,vc,vw] + U[vn,vc,vw]"), "  alloc U: f32[1,3,32]\n");
  const std::string second = "  for n in 1, o in 3, x in 16 {\n    block T1";
  text.insert(text.find(second), late);
  check_stays(text);
  // Made before all pieces, it can be read.
  text.erase(text.find(late), late.size());
  text.insert(text.find("  for n in 1, o in 3, x in 16 {\n    block T("), late);
  CHECK(blocks(map_pieces(parse_func(text))) == 3);
}

TEST_CASE("what is dear isn't computed again for each that reads it") {
  const PrimFunc f =
      parse_func(in_pieces(map_of("S", "exp(T[vn,vc,vw])") + R"(  for a in 2, n in 1, c in 3, w in 32 {
    block Y(va: S 2 = a, vn: S 1 = n, vc: S 3 = c, vw: S 32 = w) {
      Y[va,vc,vw] = S[vn,vc,vw] + T[vn,vc,vw]
    }
  }
)",
                           "  alloc S: f32[1,3,32]\n", "[2,3,32]"));
  CHECK(print(map_pieces(f)) == print(f));
}

TEST_CASE("a chain of maps that each use the last one twice doesn't double with each") {
  std::string rest, allocs;
  for (int k = 0; k < 40; ++k) {
    const std::string from = k == 0 ? "T" : "S" + std::to_string(k - 1);
    const std::string to = k == 39 ? "Y" : "S" + std::to_string(k);
    rest += map_of(to, from + "[vn,vc,vw] * " + from + "[vn,vc,vw]");
    if (k < 39) allocs += "  alloc " + to + ": f32[1,3,32]\n";
  }
  const PrimFunc f = parse_func(in_pieces(rest, allocs)), g = map_pieces(f);
  CHECK(print(g).size() < 2 * print(f).size());
  check_same_values(f, g);
}

TEST_CASE("nobody else may touch what a map makes, nor write what it reads, while it moves") {
  // Zeros first, behind the pieces; the temporary again, behind a map of it; at places that data say.
  const std::string zeros = R"(  for n in 1, c in 3, w in 33 {
    block Z0(vn: S 1 = n, vc: S 3 = c, vw: S 33 = w) {
      Y[vn,vc,vw] = 0.0f32
    }
  }
)";
  check_stays(in_pieces(zeros + R"(  for n in 1, c in 3, w in 32 {
    block Y(vn: S 1 = n, vc: S 3 = c, vw: S 32 = w) {
      Y[vn,vc,vw+1] = T[vn,vc,vw] * 2.0f32
    }
  }
)",
                        "", "[1,3,33]"));
  std::string again = map_of("T", "100.0f32");
  again.replace(again.find("block T"), 7, "block T9");
  check_stays(
      in_pieces(map_of("U", "T[vn,vc,vw] * 2.0f32") + again + map_of("Y", "U[vn,vc,vw] + T[vn,vc,vw]"),
                "  alloc U: f32[1,3,32]\n"));
  check_stays(in_pieces(R"(  for n in 1, c in 3, w in 32 {
    block Y(vn: S 1 = n, vc: S 3 = c, vw: S 32 = w) {
      Y[vn,vc,i64(T[vn,vc,vw])] = R[vn,vc,vw]
    }
  }
)",
                        "", "[1,3,32]"));
}

TEST_CASE("copies of short rows stay, for the map of the whole has longer ones") {
  const std::string text = R"(
func f(in X: f32[40,3], in Z: f32[40,5], out Y: f32[40,8]) {
  alloc T: f32[40,8]
  for i in 40, j in 3 {
    block T(vi: S 40 = i, vj: S 3 = j) {
      T[vi,vj] = X[vi,vj]
    }
  }
  for i in 40, j in 5 {
    block T1(vi: S 40 = i, vj: S 5 = j) {
      T[vi,vj+3] = Z[vi,vj]
    }
  }
  for i in 40, j in 8 {
    block Y(vi: S 40 = i, vj: S 8 = j) {
      Y[vi,vj] = tanh(T[vi,vj])
    }
  }
})";
  check_stays(text);
}
