// Finding parts of a function: with the bits of what stands inside of a statement (Inside, ir.h) the same is
// found as by looking everywhere, also where many blocks and buffers share bits.
#include "schedules/nest.h"

#include <algorithm>
#include <string>

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"
#include "schedules/access.h"
#include "schedules/exact_region.h"

using namespace nestor;
using schedules::Place;

namespace {

constexpr int kNests = 80;  // more than there are bits

// Each nest reads what the one before it wrote.
PrimFunc chain() {
  std::string text = "func f(in T0: f32[8,8], out Out: f32[8,8]) {\n";
  for (int i = 1; i <= kNests; ++i) text += "  alloc T" + std::to_string(i) + ": f32[8,8]\n";
  for (int i = 1; i <= kNests; ++i) {
    const std::string n = std::to_string(i);
    text += "  for i in 8, j in 8 { block B" + n + "(vi: S 8 = i, vj: S 8 = j) { T" + n + "[vi,vj] = T" +
            std::to_string(i - 1) + "[vi,vj] } }\n";
  }
  text += "  for i in 8, j in 8 { block Z(vi: S 8 = i, vj: S 8 = j) { Out[vi,vj] = T" +
          std::to_string(kNests) + "[vi,vj] } }\n}";
  return parse_func(text);
}

std::vector<std::string> names_of(const std::vector<Place>& places) {
  std::vector<std::string> out;
  for (const Place& p : places) out.push_back(p.name());
  return out;
}

bool same_path(const std::vector<Stmt>& a, const std::vector<Stmt>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Stmt& x, const Stmt& y) { return x.same_as(y); });
}

void check_found(const PrimFunc& f) {
  const std::vector<Place> all = schedules::places(f.body);
  REQUIRE(all.size() == kNests + 1);
  for (const Place& p : all) {
    const auto found = schedules::find_place(f, p.name());
    REQUIRE(found);
    CHECK(found->stmt.same_as(p.stmt));
    CHECK(same_path(found->path, p.path));
    CHECK(find_block(f, p.name()) == &p.own());
    CHECK(same_path(schedules::path_to(f.body, p.stmt), p.path));
    const Stmt outer = p.loops().front();
    const std::vector<Place> under = schedules::places_under(f.body, outer);
    REQUIRE(names_of(under) == std::vector{p.name()});
    CHECK(same_path(under[0].path, p.path));
    CHECK(schedules::contains(f.body, p.stmt));
    CHECK(schedules::contains(outer, p.stmt));
    CHECK(schedules::contains(all[0].loops().front(), p.stmt) == p.stmt.same_as(all[0].stmt));
    const PrimFunc without = schedules::replace(f, p.stmt, {});
    CHECK_FALSE(schedules::find_place(without, p.name()));
    CHECK(schedules::places(without.body).size() == kNests);
  }
  for (const BufferDecl& d : f.allocs) {
    std::vector<std::string> reading;
    for (const Place& p : all)
      if (schedules::reads(p.own(), d.buffer)) reading.push_back(p.name());
    CHECK(names_of(schedules::readers(f, d.buffer)) == reading);
    CHECK(reading.size() == 1);
    CHECK(schedules::writers(f, d.buffer).size() == 1);
    CHECK(uses_buffer(f.body, d.buffer));
  }
}

}  // namespace

TEST_CASE("what bits lead to is what is found by looking everywhere") {
  const PrimFunc f = chain();
  check_found(f);
  CHECK_FALSE(schedules::find_place(f, "B0"));
  CHECK_FALSE(schedules::find_place(f, "T7"));
  CHECK(schedules::path_to(f.body, chain().body).empty());
  check_found(apply(f, parse_trace("i0 i1 = split B5.i [_, 3]\nreorder B5 (i1 i0)\nparallel B70.i\n"
                                   "S = cache_read B20 T19 global\ncompute_inline S\n",
                                   "steps")));
}

TEST_CASE("a buffer that takes another's place is found inside, the other one isn't") {
  const PrimFunc f = chain();
  const Buffer old = f.allocs[30].buffer, renewed = make_buffer("N", old->type);
  const Stmt s = substitute(f.body, BufferMap{{old, renewed}});
  CHECK(uses_buffer(s, renewed));
  CHECK_FALSE(uses_buffer(s, old));
  CHECK(schedules::places_touching(s, renewed).size() >= 2);
}

TEST_CASE("touched elements are counted over the loops that tell them") {
  // Of 3 * 40 iterations 102 run; each touches one element, in every step of r.
  const PrimFunc f = parse_func(R"(func f(in X: f32[102], out Y: f32[102]) {
  for a in 3, b in 40, r in 50 {
    block Y(vi: S 120 = a*40 + b, vr: R 50 = r, g: S 102 = a*40 + b) {
      Y[vi] += X[vi]
    }
  }
})");
  const Place p = schedules::places(f.body)[0];
  const BlockAccess write = schedules::accesses_at(p)[0];
  const auto all = schedules::exact_region(p, write, {});
  REQUIRE(all);
  CHECK(all->full);
  CHECK(all->dims[0]->lo == 0);
  CHECK(all->dims[0]->hi == 101);
  // The last row is cut, so with a standing still the guard is about that loop too.
  CHECK_FALSE(schedules::exact_region(p, write, {p.loops()[0]}));
  // Every other element only.
  BlockAccess gaps = write;
  gaps.indices[0] = gaps.indices[0] * Expr(2);
  const auto spread = schedules::exact_region(p, gaps, {});
  REQUIRE(spread);
  CHECK_FALSE(spread->full);
  CHECK(spread->dims[0]->hi == 202);
}

TEST_CASE("iterations are told apart by counting where quotients and remainders hide them") {
  // 5 turns of 28 threads over 3 x 3 x 16 elements, of which the last turn has some left over.
  const PrimFunc f = parse_func(R"(func f(in X: f32[3,3,16], out Y: f32[3,3,16]) {
  for b in 7, s in 6, t in 28 {
    block Y(vi: S 3 = (s*28 + t)/48, vj: S 3 = (s*28 + t)/16%3, vk: S 16 = (s*12 + t)%16, g: S 144 = s*28 + t) {
      Y[vi,vj,vk] = X[vi,vj,vk]
    }
  }
})");
  const Place p = schedules::places(f.body)[0];
  const BlockAccess write = [&] {
    for (const BlockAccess& a : schedules::accesses_at(p))
      if (a.write) return a;
    return BlockAccess{};
  }();
  CHECK(schedules::touch_in_one_iteration(p, write, p, write, p.loops()[2]));
  CHECK(schedules::touch_in_one_iteration(p, write, p, write, p.loops()[1]));
  // Every b writes all of them, and one element is written by several threads where a turn is forgotten.
  CHECK_FALSE(schedules::touch_in_one_iteration(p, write, p, write, p.loops()[0]));
  BlockAccess shorter = write;
  shorter.indices.pop_back();
  CHECK_FALSE(schedules::touch_in_one_iteration(p, shorter, p, shorter, p.loops()[2]));
}
