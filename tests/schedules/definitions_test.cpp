// Definitions: what `apply` stands for, whose names are whose, and what is said where one is wrong.
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/check.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "schedules/sched_file.h"
#include "tests/fuzz/equivalence.h"
#include "tests/own_file.h"

using namespace nestor;

namespace {

const std::string kTiled =
    "define tiled(T, i=i, j=j, mr=4, nr=16) -> i0 j1 {\n"
    "  i0 i1 = split T.i [_, mr]\n"
    "  j0 j1 = split T.j [_, nr] tail=mask\n"
    "  reorder T (i0 j0 i1 j1)\n"
    "}\n";

std::string expanded(const std::string& text) {
  std::string out;
  for (const Step& s : parse_trace(text, "t.sched").steps) out += print(s) + "\n";
  return out;
}

std::string error_of(const std::string& text) {
  try {
    parse_trace(text, "t.sched");
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}
bool says(const std::string& text, const std::string& part) {
  const std::string error = error_of(text);
  INFO(error);
  return error.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an apply stands for the definition's steps, with arguments for parameters") {
  CHECK(expanded(kTiled + "apply tiled(Y)\n") ==
        "i0 i1 = split Y.i [_, 4]\nj0 j1 = split Y.j [_, 16] tail=mask\nreorder Y (i0 j0 i1 j1)\n");
  CHECK(expanded(kTiled + "schedule f {\n  apply tiled(Y, r, mr=8, j = c)\n}\n") ==
        "i0 i1 = split Y.r [_, 8]\nj0 j1 = split Y.c [_, 16] tail=mask\nreorder Y (i0 j0 i1 j1)\n");
}

TEST_CASE("what a definition returns has the caller's name, and its other names never meet") {
  CHECK(expanded(kTiled + "a b = apply tiled(Y)\nvectorize Y.b\nc _ = apply tiled(Z)\n") ==
        "a i1 = split Y.i [_, 4]\nj0 b = split Y.j [_, 16] tail=mask\nreorder Y (a j0 i1 b)\nvectorize Y.b\n"
        "c i1_2 = split Z.i [_, 4]\nj0_2 j1 = split Z.j [_, 16] tail=mask\nreorder Z (c j0_2 i1_2 j1)\n");
}

TEST_CASE("definitions apply definitions; one argument may have the name of the parameter it is for") {
  const std::string text = kTiled +
                           "define fast(T, mr=2) -> i0 {\n"
                           "  i0 lanes = apply tiled(T, mr=mr)\n"
                           "  vectorize T.lanes\n"
                           "}\n"
                           "x = apply fast(Y, mr=3)\nparallel Y.x\n";
  CHECK(expanded(text) ==
        "x i1 = split Y.i [_, 3]\nj0 lanes = split Y.j [_, 16] tail=mask\nreorder Y (x j0 i1 lanes)\n"
        "vectorize Y.lanes\nparallel Y.x\n");
}

TEST_CASE("sampled values are names like others, and quoted words stay") {
  CHECK(expanded("define d(T, i) {\n  w = sample_choice [4, 8] -> 8\n  i0 i1 = split T.i [_, w]\n"
                 "  annotate T.i0 note=\"T i\"\n}\napply d(Y, j)\napply d(Z, k)\n") ==
        "w = sample_choice [4, 8] -> 8\ni0 i1 = split Y.j [_, w]\nannotate Y.i0 note=\"T i\"\n"
        "w_2 = sample_choice [4, 8] -> 8\ni0_2 i1_2 = split Z.k [_, w_2]\nannotate Z.i0_2 note=\"T i\"\n");
}

TEST_CASE("a wrong definition or application is refused with its place") {
  CHECK(says("apply tilde(Y)\n" + kTiled, "t.sched:1:7: error: there is no definition `tilde`"));
  CHECK(says("apply tilde(Y)\n" + kTiled, "tiled"));
  CHECK(says(kTiled + "apply tiled()\n", "`T` is not given"));
  CHECK(says(kTiled + "apply tiled(Y, nt=3)\n", "no parameter `nt`"));
  CHECK(says(kTiled + "apply tiled(Y, nt=3)\n", "hint: define tiled(T, i=i, j=j, mr=4, nr=16) -> i0 j1"));
  CHECK(says(kTiled + "apply tiled(Y, T=Z)\n", "`T` is given twice"));
  CHECK(says(kTiled + "apply tiled(Y, i, j, 1, 2, 3)\n", "has 5 parameters"));
  CHECK(says(kTiled + "a b c = apply tiled(Y)\n", "3 names for what `tiled` returns"));
  CHECK(says(kTiled + kTiled, "`tiled` is defined twice"));
  CHECK(says("define a(T) {\n  apply b(T)\n}\ndefine b(T) {\n  apply a(T)\n}\napply a(Y)\n",
             "`a` applies itself"));
  CHECK(says("define a(T) -> z {\n  parallel T.i\n}\n", "returns `z`, which none of its steps makes"));
  CHECK(says("define a(T) {\n  parallel T.i\n", "definition's closing `}` is missing"));
  CHECK(says("define a(T) {\n  define b(T) {\n", "`define` inside of braces"));
  CHECK(says("define a(T\n", "is never closed"));
  CHECK(says("define (T) {\n", "isn't a definition's head"));
  CHECK(says("apply tiled(Y, mr=1, 3)\n" + kTiled, "names a definition and its arguments"));
}

TEST_CASE("a step that is refused is shown in the definition and where it was applied") {
  const PrimFunc f = parse_func(
      "func f(in X: f32[4,8], out Y: f32[4]) {\n  for i in 4, k in 8 {\n    block Y(vi: S 4 = i, vk: R 8 = "
      "k) {\n"
      "      init { Y[vi] = 0.0f32 }\n      Y[vi] += X[vi,vk]\n    }\n  }\n}\n");
  const std::string text =
      "define threads(T, l) {\n  parallel T.l\n}\ndefine outer(T) {\n  apply threads(T, k)\n}\nschedule f {\n"
      "  apply outer(Y)\n}\n";
  std::string error;
  try {
    apply(f, parse_trace(text, "t.sched"));
  } catch (const ScheduleError& e) {
    error = e.what();
  }
  INFO(error);
  CHECK(error.find("t.sched:2:12: error: `parallel Y.k` breaks requirement 2 of parallel") == 0);
  CHECK(error.find("    parallel T.l\n             ^~~\n") != std::string::npos);
  CHECK(error.find("note: applied at t.sched:5:3:\n    apply threads(T, k)\n    ^~~") != std::string::npos);
  CHECK(error.find("note: applied at t.sched:8:3:\n    apply outer(Y)\n    ^~~") != std::string::npos);
  CHECK(error.find("hint: parallel Y.i") != std::string::npos);
}

TEST_CASE("definitions of another file are included, once") {
  const std::filesystem::path dir = own_file("definitions_test");
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "tiles.sched") << "include \"base.sched\"\n" + kTiled;
  std::ofstream(dir / "base.sched") << "include \"tiles.sched\"\ndefine threads(T, i) {\n  parallel T.i\n}\n";
  std::ofstream(dir / "steps.sched") << "parallel T.i\n";
  const std::string main = (dir / "main.sched").string();
  const Trace t = parse_trace("include \"tiles.sched\"\na _ = apply tiled(Y)\napply threads(Y, a)\n", main);
  REQUIRE(t.steps.size() == 4);
  CHECK(print(t.steps[3]) == "parallel Y.a");
  CHECK_THROWS_WITH(parse_trace("include \"none.sched\"\n", main),
                    Catch::Matchers::Contains("`none.sched` isn't there"));
  CHECK_THROWS_WITH(parse_trace("include \"steps.sched\"\n", main),
                    Catch::Matchers::Contains("outside of a definition"));
  CHECK_THROWS_WITH(parse_trace("include tiles.sched\n", main),
                    Catch::Matchers::Contains("an include names one file"));
}

TEST_CASE("a map's variables hide the parameters of the definition it stands in") {
  CHECK(expanded("define packed(W, n=4, c=8) {\n  transform_layout W (n, k) -> (k/c, n, k%c)\n}\napply "
                 "packed(B)\n") == "transform_layout B (n, k) -> (k/8, n, k%8)\n");
}

TEST_CASE("definitions that come to too many steps are refused") {
  std::string text = "define d0(T) {\n  annotate T note=1\n}\n";
  for (int i = 1; i <= 60; ++i) {
    const std::string inner = "  apply d" + std::to_string(i - 1) + "(T)\n";
    text += "define d" + std::to_string(i) + "(T) {\n" + inner + inner + "}\n";
  }
  CHECK(says(text + "apply d60(Y)\n", "the definitions come to more than "));
}

TEST_CASE("a byte order mark before a schedule is no part of it") {
  CHECK(expanded("\xef\xbb\xbfparallel T.i\n") == "parallel T.i\n");
}

TEST_CASE("a file holds several schedules, which share its definitions") {
  const auto all =
      parse_schedules(kTiled + "schedule f {\n  apply tiled(Y)\n}\nschedule g {\n  apply tiled(Z)\n}\n", "t");
  REQUIRE(all.size() == 2);
  CHECK(all[1].func == "g");
  CHECK(print(all[1].steps[0]) == "i0 i1 = split Z.i [_, 4]");
  CHECK_THROWS_AS(parse_trace("schedule f {\n}\nschedule g {\n}\n"), UserError);
}
