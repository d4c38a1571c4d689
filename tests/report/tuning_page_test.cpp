#include "src/report/tuning_page.h"

#include <algorithm>
#include <cmath>

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"
#include "src/report/curve.h"

using namespace nestor;
using namespace nestor::report;

namespace {

const char* const kScaled = R"(
func scaled(in X: f32[64,96], in S: f32[64], const W: f32[96,80], out Y: f32[64,80]) {
  alloc T: f32[64,80]
  for i in 64, j in 80, k in 96 {
    block T(vi: S 64 = i, vj: S 80 = j, vk: R 96 = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += X[vi,vk] * S[vi] * W[vk,vj]
    }
  }
  for i in 64, j in 80 {
    block Y(vi: S 64 = i, vj: S 80 = j) {
      Y[vi,vj] = max(T[vi,vj], 0.0f32)
    }
  }
}
)";

PrimFunc with(const PrimFunc& f, const std::string& steps) {
  return apply(f, parse_schedules(steps, "test").front());
}

std::string text(const std::vector<Difference>& all) {
  std::string out;
  for (const Difference& d : all) out += d.of + " " + d.what + ": " + d.before + " | " + d.after + "\n";
  return out;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("schedules are told apart in words") {
  const PrimFunc f = parse_func(kScaled, "test");
  CHECK(differences(f, f, f).empty());
  const PrimFunc tiled =
      with(f,
           "j0 j1 = split T.j [_, 16]\ni0 i1 = split T.i [_, 4]\nreorder T (j0 i0 k i1 j1)\n"
           "reverse_compute_at Y T.i0\nvectorize T.j1\nunroll T.i1\nparallel T.j0\n"
           "set_scope T local\n");
  CHECK(text(differences(f, f, tiled)) ==
        "T computed: by itself | in one nest with Y\n"
        "T lanes: none | 16 along j\n"
        "T written out: none | 4 of i\n"
        "T threads: none | 5 parts of j\n"
        "T loops: i 64, j 80, k 96 | j 5, i 16, k 96, i 4, j 16\n"
        "Y computed: by itself | in one nest with T\n"
        "Y threads: none | 5 parts of j\n"
        "Y loops: i 64, j 80 | j 5, i 16, i 4, j 16\n"
        "T values: in memory | in registers\n");
  const PrimFunc packed = with(f, "transform_layout W (k, j) -> (j/16, k, j%16)\n");
  CHECK(text(differences(f, f, packed)) == "W layout: row major | (k, j) -> (j / 16, k, j % 16)\n");
}

TEST_CASE("the least work of a function counts a term once for the loops that don't move it") {
  const FunctionWork w = least_work(parse_func(kScaled, "test"));
  // X * S once for each of its elements, the product and the sum, and the maxima.
  CHECK(w.operations == 64 * 96 + 2.0 * 64 * 80 * 96 + 64 * 80);
  CHECK(w.bytes == 4.0 * (64 * 96 + 64 + 96 * 80 + 64 * 80));
  CHECK(w.operations_at_once == 1);
  const FunctionWork distances = least_work(parse_func(R"(
func distances(in A: f32[30,8], in B: f32[20,8], out D: f32[30,20]) {
  for i in 30, j in 20, k in 8 {
    block D(vi: S 30 = i, vj: S 20 = j, vk: R 8 = k) {
      init { D[vi,vj] = 0.0f32 }
      D[vi,vj] += (A[vi,vk] - B[vj,vk]) * (A[vi,vk] - B[vj,vk])
    }
  }
}
)",
                                                       "test"));
  CHECK(distances.operations == 3 * 30 * 20 * 8);  // the difference once
  const FunctionWork gather = least_work(parse_func(R"(
func rows(in X: f32[100000,8], in I: i32[4], out Y: f32[4,8]) {
  for i in 4, j in 8 {
    block Y(vi: S 4 = i, vj: S 8 = j) {
      Y[vi,vj] = X[i64(max(0i32, min(I[vi], 99999i32))),vj]
    }
  }
}
)",
                                                    "test"));
  CHECK(gather.operations == 0);
  CHECK(gather.bytes == 4.0 * (8 + 4 + 4 * 8));  // a row at least of the table
}

TEST_CASE("products with the zeros around an image are no work") {
  const FunctionWork w = least_work(parse_func(R"(
func padded(in X: f32[8,8], const W: f32[3,3], out Y: f32[8,8]) {
  alloc P: f32[10,10]
  for h in 10, w in 10 {
    block P(vh: S 10 = h, vw: S 10 = w) {
      P[vh,vw] = if 1 <= vh && vh < 9 && 1 <= vw && vw < 9 then X[vh-1,vw-1] else 0.0f32
    }
  }
  for y in 8, x in 8, r in 3, s in 3 {
    block Y(vy: S 8 = y, vx: S 8 = x, vr: R 3 = r, vs: R 3 = s) {
      init { Y[vy,vx] = 0.0f32 }
      Y[vy,vx] += P[vy+vr,vx+vs] * W[vr,vs]
    }
  }
}
)",
                                               "test"));
  CHECK(std::abs(w.operations - 2.0 * 22 * 22) < 1e-6);  // of 24 rows and columns of the nine shifted images
}

TEST_CASE("a branch that indices don't take is no work") {
  const FunctionWork w = least_work(parse_func(R"(
func causal(in X: f32[128,128], out Y: f32[128,128]) {
  for i in 128, j in 128 {
    block Y(vi: S 128 = i, vj: S 128 = j) {
      Y[vi,vj] = if vj <= vi then exp(X[vi,vj]) else 0.0f32
    }
  }
}
)",
                                               "test"));
  CHECK(std::abs(w.operations - 128 * 129 / 2) < 0.02 * 128 * 128);
}

TEST_CASE("the page escapes what comes from models, and shows what saved most first") {
  TuningPage page;
  page.title = "<script>alert(1)</script>";
  page.facts = {{"command", "nestor tune '<b>&'"}};
  TuningPage::Function small, large;
  small.name = "small\"><img src=x>";
  small.default_ns = small.best_ns = 10;
  large.name = "large";
  large.calls = 3;
  large.default_ns = 2e6;
  large.best_ns = 1e6;
  large.verdict = "2.00x";
  large.trials_ns = {2e6, 0, 1e6};
  large.failures = {{"crash", 1, "signal <11>"}};
  large.default_nest = "for i in 8 < n\n  a\n";
  large.best_nest = "for i in 8 < n\n  b\n";
  page.functions = {small, large};
  const std::string html = tuning_page(page);
  CHECK(!contains(html, "<script"));
  CHECK(!contains(html, "<img"));
  CHECK(contains(html, "&lt;script>alert(1)"));
  CHECK(contains(html, "signal &lt;11>"));
  CHECK(html.find(">large<") < html.find(">small"));
  CHECK(contains(html, "6.000 ms by default, 3.000 ms now: 2.00x. 1 of 2 functions got faster."));
  CHECK(contains(html,
                 "<div class=\"line gone\"><span class=\"mark\">-</span><span class=\"text\">  a</span>"));
  CHECK(!contains(html, "{{"));
}

TEST_CASE("the curve falls where a candidate is faster than all before") {
  CHECK(curve({5}, 5, 0).empty());
  CHECK(curve({0, 0}, 0, 0).empty());
  const std::string svg = curve({1000, 4000, 0, 500, 800, 250}, 1000, 100);
  CHECK(std::count(svg.begin(), svg.end(), 'V') == 2);
  const auto count = [&](const std::string& part) {
    size_t n = 0;
    for (size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++n;
    return n;
  };
  CHECK(count("class=\"trial\"") == 5);
  CHECK(count("class=\"failed\"") == 1);
  CHECK(count("class=\"default\"") == 1);
  CHECK(count("class=\"bound\"") == 1);
  CHECK(count("nan") == 0);
}
