// Blocks of the family `any` that move to others.
//
// A producer slides if its reader processes the tiles along one of its dimensions one after the other: what
// the first tile reads beyond its own rows is computed first, and each tile then computes as many new rows as
// it advances.
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/plans/any_emitter.h"
#include "schedules/words.h"

namespace nestor::plans {

using library::Access;
using library::BlockInfo;
using library::Iter;
using schedules::join;

std::vector<IterVar> AnyEmitter::moved_by(const std::string& block, const std::string& l) const {
  std::vector<IterVar> out;
  for (const IterVar& i : find_block(s_.func(), block)->iters) {
    bool bound = false;
    for_each_expr(i.binding, [&](const Expr& x) {
      const auto* v = x.as<VarRef>();
      bound |= v && v->var->name == l;
    });
    if (bound) out.push_back(i);
  }
  return out;
}

// Whether the block's loop moves an expression over its iterators.
bool AnyEmitter::moves(const std::string& block, const std::string& l, const Expr& e) const {
  const std::vector<IterVar> moved = moved_by(block, l);
  return std::any_of(moved.begin(), moved.end(), [&](const IterVar& i) { return uses_var(e, i.var); });
}

// The block's loops under `at`; all where that is empty.
Names AnyEmitter::inside(const std::string& block, const std::string& at) const {
  Names loops;
  bool reached = at.empty();
  for (const LoopInfo& l : loops_of(s_.func(), block)) {
    if (reached) loops.push_back(l.name);
    reached |= at.ends_with("." + l.name);
  }
  return loops;
}

int64_t AnyEmitter::extent(const std::string& block, const std::string& l) const {
  return library::extent_of(s_, block, l);
}

void AnyEmitter::move(size_t i) {
  const std::vector<std::string> readers = library::readers_of(s_.func(), blocks_[i].info.output);
  const auto reader = readers.empty() ? where_.end() : where_.find(readers.front());
  if (reader == where_.end()) refuse("what reads " + name(i) + " isn't placed");
  const Where w = reader->second;
  const std::string& at = w.at(plans_[i].place);
  if (plans_[i].place == "slide") return slide(i, readers.front(), w);
  if (!at.empty()) s_(fmt::format("compute_at {} {}", name(i), at));
  where_[name(i)] = {at, at, "", "", 1};
  spread(name(i), at, blocks_[i].lanes);
}

void AnyEmitter::slide(size_t i, const std::string& reader, const Where& w) {
  const std::string& block = name(i);
  if (w.slides.empty()) refuse("what reads " + block + " has no loop along which it could slide");
  if (!w.outer.empty()) s_(fmt::format("compute_at {} {}", block, w.outer));
  // The loop that makes what the reader's reads, and its rows that one iteration of the reader moves on.
  const BlockInfo b = library::analyze(s_.func(), block), r = library::analyze(s_.func(), reader);
  std::string along;
  int64_t rows = 1, span = 0;
  Names order;
  for (const std::string& l : inside(block, w.outer)) {
    for (const Access& a : r.accesses)
      for (size_t d = 0; a.buffer == b.output && d < a.indices.size(); ++d)
        for (const Access& made : b.accesses)
          if (made.write && moves(block, l, made.indices[d]) && along.empty())
            for (const Iter& x : r.iters) {
              const auto index = as_affine(a.indices[d]);
              if (x.var->name != w.along || !index || coefficient(*index, x.var) < 1) continue;
              along = l;
              rows = coefficient(*index, x.var);
              span = x.extent;
            }
    if (l != along) order.push_back(l);
  }
  if (along.empty()) refuse(block + " has no loop that slides along " + w.slides);
  order.insert(order.begin(), along);
  if (order.size() > 1) s_(fmt::format("reorder {} ({})", block, join(order)));
  const std::string tiles = w.slides.substr(w.slides.rfind('.') + 1);
  span = std::min(span, extent(reader, tiles) * w.step);
  const int64_t first = extent(block, along) - span * rows;
  if (first < 0) refuse(block + " has fewer rows than " + w.slides + " takes");
  const std::string rest = first > 0 ? block + "_next" : block;
  if (first > 0) s_(fmt::format("{} = loop_partition {}.{} [{}]", rest, block, along, first));
  std::string steps = along;
  if (w.step * rows > 1) {
    steps = along + "_t";
    s_(fmt::format("{0} {1}_r = split {2}.{1} [_, {3}]", steps, along, rest, w.step * rows));
  }
  s_(fmt::format("{}_m = merge {}.{} {}", tiles, rest, steps, w.slides));
  for (auto& [other, place] : where_)  // the loop has another name
    for (std::string* l : {&place.tile, &place.slides, &place.outer})
      if (*l == w.slides) *l = fmt::format("{}.{}_m", other, tiles);
  where_[block] = {w.outer, w.outer, "", "", 1};
  const std::string now = fmt::format("{}.{}_m", rest, tiles);
  spread(rest, now, blocks_[i].lanes);
  if (first > 0) {
    where_[rest] = {w.outer, now, "", "", 1};
    spread(block, w.outer, blocks_[i].lanes);
  }
}

// Whether all that the block reads along the loop are neighbours, or one element.
bool AnyEmitter::is_dense(const BlockInfo& b, const std::string& block, const std::string& l) const {
  const std::vector<IterVar> moved = moved_by(block, l);
  if (moved.size() != 1) return false;
  return std::all_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    const Iter i{l, moved[0].var, 0, false};
    return a.write || !a.uses(i) || a.stride(i) == 1;
  });
}

// A block that moved to the loop `at`: lanes along its last loop, and what is little is written out.
void AnyEmitter::spread(const std::string& block, const std::string& at, int64_t lanes) {
  constexpr int64_t kMostLanes = 8, kMostSteps = 64;
  const BlockInfo b = library::analyze(s_.func(), block);
  Names loops, steps;
  for (const std::string& l : inside(block, at)) {
    const Iter* i = library::walked_by(b, l);
    (i && i->reduce ? steps : loops).push_back(l);
  }
  const bool along_sum =
      !steps.empty() && (loops.empty() || extent(block, loops.back()) < lanes ||
                         (!is_dense(b, block, loops.back()) && is_dense(b, block, steps.back())));
  if (!steps.empty()) {
    Names order = loops;
    if (!along_sum) order.pop_back();
    order.insert(order.end(), steps.begin(), steps.end());
    if (!along_sum) order.push_back(loops.back());
    if (order.size() > 1) s_(fmt::format("reorder {} ({})", block, join(order)));
  }
  std::string vector = along_sum ? steps.back() : loops.empty() ? "" : loops.back();
  if (!along_sum && !vector.empty()) {
    loops.pop_back();
    const int64_t size = extent(block, vector);
    if (size > lanes && (size % lanes != 0 || size > kMostLanes * lanes)) {
      s_(fmt::format("{0}_a {0}_b = split {1}.{0} [_, {2}] tail=peel", vector, block, lanes));
      loops.push_back(vector + "_a");
      vector += "_b";
    }
    if (size > 1) s_(fmt::format("vectorize {}.{}", block, vector));
  }
  int64_t product = 1;
  for (const std::string& l : loops) product *= extent(block, l);
  if (product <= kMostSteps)
    for (const std::string& l : loops)
      if (extent(block, l) > 1) s_(fmt::format("unroll {}.{}", block, l));
  if (!steps.empty()) s_(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, steps.front()));
  if (along_sum) s_.try_step(fmt::format("vectorize {}.{}", block, vector));
}

}  // namespace nestor::plans
