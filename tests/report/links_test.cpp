// Which loops the lines of lowered text and of machine code come from.
#include "src/report/links.h"

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "src/report/diff.h"
#include "src/report/loop_costs.h"

using namespace nestor;
using namespace nestor::report;

namespace {

PrimFunc tiled() {
  return apply(parse_func(R"(
func matmul(in A: f32[60,64], in B: f32[64,96], out Y: f32[60,96]) {
  for i in 60, j in 96, k in 64 {
    block Y(vi: S 60 = i, vj: S 96 = j, vk: R 64 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
})"),
               parse_trace(R"(
    Y_out = cache_write Y local
    i0 i1 = split Y.i [_, 4]
    j0 j1 = split Y.j [_, 32]
    reorder Y (j0 i0 k i1 j1)
    wi wj = reverse_compute_at Y_out Y.i0
    vectorize Y.j1
    vectorize Y_out.wj
    unroll Y.i1
    unroll Y_out.wi
    Y_init = decompose_reduction Y.k
    parallel Y.j0
  )"));
}

// The names of the loops that a line belongs to, outermost first.
std::string names(const PrimFunc& f, const std::vector<int>& loops) {
  std::string out;
  for (const int l : loops) out += loops_in(f.body)[static_cast<size_t>(l)]->var->name + " ";
  return out;
}

}  // namespace

TEST_CASE("lowered lines know the loops they come from, kept or not") {
  const PrimFunc f = tiled();
  const PrimFunc lowered = lower(f, parse_target("x86-64-v4"));
  const auto links = link_lines(f, lowered);
  const Lines text = split_lines(print(lowered));
  REQUIRE(links.size() == text.size());
  // What a line with `part` in it must belong to, and how many such lines there are.
  const auto all = [&](const std::string& part, const std::string& loops) {
    int count = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i].find(part) == std::string::npos) continue;
      INFO(text[i]);
      CHECK(names(f, links[i]) == loops);
      ++count;
    }
    return count;
  };
  CHECK(all("parallel j0", "j0 ") == 1);
  CHECK(all("for i0", "j0 i0 ") == 1);
  CHECK(all("for k", "j0 i0 k ") == 1);
  CHECK(all("= x16(0.0f32)", "j0 i0 i1 j1 ") == 8);
  CHECK(all("= fma(", "j0 i0 k i1 j1 ") == 8);
  CHECK(all(" Y[", "j0 i0 wi wj ") == 8);
  CHECK(links.back().empty());
  CHECK(names(f, links[links.size() - 2]) == "j0 ");  // the brace that closes it
}

TEST_CASE("machine code belongs to the loop of its statement") {
  const PrimFunc f = tiled();
  const Target target = parse_target("x86-64-v4");
  const PrimFunc lowered = lower(f, target);
  const auto code = emit_asm_with_lines(lowered, target);
  const auto links = link_code(code, link_lines(f, lowered));
  REQUIRE(links.size() == code.size());
  int fmas = 0, loops = 0, outside = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    INFO(code[i].text);
    if (code[i].text.find("vfmadd") != std::string::npos) {
      CHECK(names(f, links[i]) == "j0 i0 k i1 j1 ");
      ++fmas;
    }
    if (code[i].text.find("nestor_parallel") != std::string::npos) CHECK(names(f, links[i]) == "j0 ");
    loops += names(f, links[i]) == "j0 i0 k ";
    outside += links[i].empty();
  }
  CHECK(fmas == 8);
  CHECK(loops >= 2);    // counting and branching
  CHECK(outside >= 5);  // the shell that unpacks arguments
}

TEST_CASE("an instruction without a line belongs to what its neighbours share") {
  const std::vector<std::vector<int>> lines = {{0}, {0, 1}, {0, 1, 2}, {0, 3}};
  const std::vector<CodeLine> code = {{"f:", 0},  {"\ta", 0}, {"\tb", 2}, {"\tc", 0},
                                      {"\td", 3}, {"\te", 0}, {"\tg", 4}, {"\tret", 0}};
  const std::vector<std::vector<int>> want = {{}, {}, {0, 1}, {0, 1}, {0, 1, 2}, {0}, {0, 3}, {}};
  CHECK(link_code(code, lines) == want);
}
