// How the family `any` divides reductions, and where their results go.
//
// A divided sum is two blocks: one computes the partial sums, the other adds them. Partial sums of several
// threads are all computed before they are added. Those of a k-block are computed in registers for one tile
// at a time and then added to its results; so are those of unrolled steps.
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

namespace {

// The loops of a block in the order that rfactor needs: what is factored, the spatial ones, the others.
std::string factored_first(const BlockInfo& b, const std::string& first, const std::string& longest,
                           const std::string& rest) {
  Names order = {first};
  for (const Iter& i : b.iters)
    if (!i.loop.empty() && !i.reduce) order.push_back(i.loop);
  for (const Iter& i : b.iters)
    if (!i.loop.empty() && i.reduce) order.push_back(i.loop == longest ? rest : i.loop);
  return join(order);
}

void rename(std::map<std::string, int64_t>& sizes, const std::string& from, const std::string& to) {
  const auto it = sizes.find(from);
  if (it != sizes.end()) sizes[to] = it->second;
}

}  // namespace

// The dense loops are one from here on.
void AnyEmitter::fuse_dense(Standing& n, const Names& dense) {
  Names order;
  for (const bool reduce : {false, true})
    for (const Iter& i : n.info.iters)
      if (!i.loop.empty() && i.reduce == reduce) order.push_back(i.loop);
  s_(fmt::format("reorder {} ({})", n.block, join(order)));
  const std::string one = join(dense, "_");
  s_(fmt::format("{} = fuse {} ({})", one, n.block, join(dense)));
  Iter all{one, nullptr, 1, n.info.reduction};
  std::vector<Iter> others;
  for (const Iter& i : n.info.iters)
    if (std::count(dense.begin(), dense.end(), i.loop))
      all.extent *= i.extent;
    else
      others.push_back(i);
  others.push_back(all);
  n.info.iters = std::move(others);
  rename(n.plan.tile, dense.back(), one);
  rename(n.plan.inner, dense.back(), one);
  for (std::string* loop : {&n.plan.lanes, &n.plan.outermost, &n.plan.nearest, &n.longest})
    if (std::count(dense.begin(), dense.end(), *loop)) *loop = one;
}

// Of the longest reduction loop each part is an iteration of a spatial loop of its own, the outermost.
void AnyEmitter::sum_in_parts(Standing& n) {
  const std::string part = n.longest + "_part", rest = n.longest + "_in", sum = n.block;
  s_(fmt::format("{} {} = split {} [{}, _]", part, rest, loop_of(sum, n.longest), n.plan.parts));
  s_(fmt::format("reorder {} ({})", sum, factored_first(n.info, part, n.longest, rest)));
  n.block = sum + "_parts";
  s_(fmt::format("{} = rfactor {} axis=0", n.block, loop_of(sum, part)));
  n.info = library::analyze(s_.func(), n.block);
  rename(n.plan.inner, n.longest, rest);
  if (n.plan.lanes == n.longest) n.plan.lanes = rest;
  n.longest = rest;
  n.plan.outermost = part;
  n.plan.parallel = 1 + n.plan.parallel;
  spread(sum, "", n.lanes);
}

// Of the longest reduction loop, the steps that stay in a cache are summed apart, or each of the steps that
// run at once has a sum of its own: `block` is then what adds these up.
void AnyEmitter::sum_apart(Standing& n) {
  const int64_t at_once = n.plan.inner.count(n.longest) ? n.plan.inner.at(n.longest) : 1;
  const Iter* k = n.info.iter(n.longest);
  const bool blocked = n.plan.steps > 0;
  if (!k || (blocked ? n.plan.steps >= k->extent : at_once < 2 || at_once >= k->extent)) return;
  const std::string outside = n.longest + "_b", within = n.longest + "_w";
  s_(fmt::format("{} {} = split {} [_, {}]", outside, within, loop_of(n.block, n.longest),
                 blocked ? n.plan.steps : at_once));
  const std::string& factored = blocked ? outside : within;
  const std::string& rest = blocked ? within : outside;
  s_(fmt::format("reorder {} ({})", n.block, factored_first(n.info, factored, n.longest, rest)));
  n.apart = n.block + "_apart";
  s_(fmt::format("{} = rfactor {} axis=0", n.apart, loop_of(n.block, factored)));
  n.at_once = n.plan.inner;
  n.at_once[rest] = blocked ? at_once : 1;
  n.info = library::analyze(s_.func(), n.block);
  n.plan.inner[factored] = blocked ? 1 : at_once;
  if (blocked) n.steps_loop = outside;
}

// What is summed apart is so for one tile, in registers.
void AnyEmitter::compute_apart(const Standing& n, const std::string& at) {
  if (!at.empty()) s_(fmt::format("compute_at {} {}", n.apart, at));
  const Iter* lanes = n.info.iter(n.plan.lanes);
  Names units, steps, unrolled, registers;
  std::string vector;
  for (const std::string& l : inside(n.apart, at)) {
    const std::vector<IterVar> moved = moved_by(n.apart, l);
    const int64_t size = extent(n.apart, l);
    if (size == 1 || moved.empty()) {
      units.push_back(l);
    } else if (moved[0].kind == IterKind::reduce) {
      const auto at_once = n.at_once.find(l);
      if (at_once == n.at_once.end() || at_once->second < 2) {
        steps.push_back(l);
      } else if (at_once->second >= size) {
        unrolled.push_back(l);
      } else {
        s_(fmt::format("{0}_s {0}_u = split {1}.{0} [_, {2}] tail={3}", l, n.apart, at_once->second,
                       n.plan.tail));
        steps.push_back(l + "_s");
        unrolled.push_back(l + "_u");
      }
    } else if (lanes && moved[0].var->name == lanes->var->name) {
      vector = l;
    } else {
      registers.push_back(l);
    }
  }
  Names order;
  for (const Names* level : {&units, &steps, &unrolled, &registers})
    order.insert(order.end(), level->begin(), level->end());
  if (!vector.empty()) order.push_back(vector);
  if (order.size() > 1) s_(fmt::format("reorder {} ({})", n.apart, join(order)));
  for (const Names* level : {&unrolled, &registers})
    for (const std::string& l : *level) s_("unroll " + loop_of(n.apart, l));
  if (!vector.empty()) s_("vectorize " + loop_of(n.apart, vector));
  s_(fmt::format("set_scope {} local", library::analyze(s_.func(), n.apart).output->name));
  const std::string first = !steps.empty() ? steps.front() : unrolled.empty() ? "" : unrolled.front();
  if (!first.empty()) s_(fmt::format("{}_init = decompose_reduction {}", n.apart, loop_of(n.apart, first)));
}

// What reads the reduction's result goes to its tiles, and its results to registers; whether they do. The
// last of `writers` then reads them.
bool AnyEmitter::follow(size_t i, const Standing& n, Names* writers) {
  const Where& w = where_.at(n.block);
  const int next = n.writer.empty() ? follower(i) : -1;
  const bool local = n.plan.local && !n.along_sum && n.steps_loop.empty() && !w.tile.empty();
  if (next >= 0 || !n.writer.empty()) {
    const std::string& at = next < 0 ? w.tile : w.at(plans_[static_cast<size_t>(next)].place);
    const std::string follower = next < 0 ? n.writer : name(static_cast<size_t>(next));
    if (!at.empty()) s_(fmt::format("reverse_compute_at {} {}", follower, at));
    where_[follower] = {at, at, "", "", 1};
    writers->push_back(follower);
    if (local && at == w.tile) {
      s_(fmt::format("set_scope {} local", n.info.output->name));
      return true;
    }
    if (next < 0) return false;
  }
  if (!local) return false;
  const std::string writer = n.block + "_out";
  s_(fmt::format("{} = cache_write {} local", writer, n.block));
  s_(fmt::format("reverse_compute_at {} {}", writer, w.tile));
  where_[writer] = {w.tile, w.tile, "", "", 1};
  writers->push_back(writer);
  return true;
}

// What reads results in registers does so as the block makes them.
void AnyEmitter::write_out(const std::string& writer, const std::string& at, const Standing& n) {
  const BlockInfo b = library::analyze(s_.func(), writer);
  const Buffer results = library::analyze(s_.func(), n.block).output;
  const Iter* lanes = n.info.iter(n.plan.lanes);
  int dim = -1;  // of the results, along which lanes go
  for (const Access& a : n.info.accesses)
    for (size_t d = 0; a.write && d < a.indices.size(); ++d)
      if (lanes && !n.vector.empty() && uses_var(a.indices[d], lanes->var)) dim = static_cast<int>(d);
  for (const std::string& l : inside(writer, at)) {
    const bool by_lanes =
        dim >= 0 && std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
          return a.buffer == results && moves(writer, l, a.indices[static_cast<size_t>(dim)]);
        });
    if (extent(writer, l) > 1) s_(fmt::format("{} {}.{}", by_lanes ? "vectorize" : "unroll", writer, l));
  }
}

}  // namespace nestor::plans
