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

void refuse(const std::string& why) {
  throw ScheduleError(Diagnostic{why, {}, {}, ""});
}

Trace AnyEmitter::run() {
  for (size_t i = 0; i < blocks_.size(); ++i)
    if (plans_[i].place == "inline") s_("compute_inline " + name(i));
  for (size_t i = blocks_.size(); i-- > 0;)
    if (blocks_[i].keeps_order)
      stay(i);
    else if (plans_[i].place == "root")
      stand(i);
  for (size_t i = blocks_.size(); i-- > 0;)
    if (plans_[i].goes()) move(i);
  for (size_t i = 0; i < blocks_.size(); ++i)
    if (plans_[i].stream) stream(i);
  if (!library::accumulators_fit(s_.func())) refuse("results can't be kept in registers");
  return s_.trace();
}

// What writes the block's results writes past the caches, where that isn't the reduction itself.
void AnyEmitter::stream(size_t i) {
  const std::string writer = name(i) + (blocks_[i].info.reduction ? "_out" : "");
  for (const std::string& block : {writer, writer + "_rest"})
    if (find_block(s_.func(), block)) s_(fmt::format("annotate {} streaming=1", block));
}

// The block that goes with the results of reduction i; -1: none does.
int AnyEmitter::follower(size_t i) const {
  for (size_t k = 0; k < blocks_.size(); ++k)
    if (blocks_[k].reads == name(i) && plans_[k].follows()) return static_cast<int>(k);
  return -1;
}

// Loops that keep their order get lanes and threads where they are legal.
void AnyEmitter::stay(size_t i) {
  const std::vector<LoopInfo> loops = loops_of(s_.func(), name(i));
  if (loops.empty()) return;
  if (loops.back().kind == ForKind::serial) s_.try_step("vectorize " + loop_of(name(i), loops.back().name));
  if (loops.size() > 1 && loops.front().kind == ForKind::serial)
    s_.try_step("parallel " + loop_of(name(i), loops.front().name));
}

// The loops of `iter` become one for each part that is more than 1, named with the suffixes; the first takes
// what is left. Gives the parts' loops, empty where a part is 1.
Names AnyEmitter::cut(const Standing& n, const Iter& iter, const Names& suffixes,
                      std::vector<int64_t> sizes) {
  Names loops(sizes.size() + 1), made, factors;
  int64_t left = iter.extent;  // of the level above, iterations of what lies inside
  for (size_t k = sizes.size(); k-- > 0;) {
    sizes[k] = std::min(sizes[k], left);
    left = (left + sizes[k] - 1) / sizes[k];
  }
  sizes.insert(sizes.begin(), left);
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] > 1) {
      loops[k] = iter.loop + suffixes[k];
      made.push_back(loops[k]);
      factors.push_back(made.size() == 1 ? "_" : std::to_string(sizes[k]));
    }
  if (made.size() < 2) {
    for (std::string& l : loops)
      if (!l.empty()) l = iter.loop;
    if (made.empty()) loops[0] = iter.loop;
    return loops;
  }
  s_(fmt::format("{} = split {} [{}] tail={}", join(made), loop_of(n.block, iter.loop), join(factors, ", "),
                 n.plan.tail));
  return loops;
}

// Fills the levels of the nest.
void AnyEmitter::cut_loops(Standing& n) {
  const Iter* lanes = n.info.iter(n.plan.lanes);
  n.along_sum = lanes && lanes->reduce;
  const auto planned = [](const std::map<std::string, int64_t>& sizes, const std::string& l) {
    const auto it = sizes.find(l);
    return it == sizes.end() ? int64_t{1} : it->second;
  };
  for (const Iter& iter : n.info.iters) {
    if (iter.loop.empty()) continue;
    if (iter.loop == n.steps_loop) {
      n.outer.push_back({iter.loop, {iter.var}});
    } else if (iter.reduce && &iter == lanes) {
      n.vector = iter.loop;
    } else if (iter.reduce) {
      const int64_t inner = n.along_sum ? 1 : planned(n.plan.inner, iter.loop);
      const Names l = cut(n, iter, {"_s", "_u"}, {inner});
      if (!l[0].empty()) n.steps.push_back(l[0]);
      if (!l[1].empty()) n.unrolled.push_back(l[1]);
    } else {
      const bool is_lanes = &iter == lanes;
      const int64_t inner = is_lanes      ? n.plan.width * n.lanes
                            : n.along_sum ? 1
                                          : planned(n.plan.inner, iter.loop);
      const Names l =
          cut(n, iter, {"_o", "_t", is_lanes ? "_l" : "_r"}, {planned(n.plan.tile, iter.loop), inner});
      if (!l[0].empty()) n.outer.push_back({l[0], {iter.var}});
      if (!l[1].empty()) n.tile.push_back({l[1], {iter.var}});
      if (is_lanes)
        n.vector = l[2];
      else if (!l[2].empty())
        n.registers.push_back(l[2]);
    }
  }
}

void AnyEmitter::order_loops(Standing& n) {
  const Iter* first = n.info.iter(n.plan.outermost);
  const Iter* last = n.info.iter(n.plan.nearest);
  const auto rank = [&](const TileLoop& l) {
    if (first && l.moves[0] == first->var) return 0;
    return (l.name == n.steps_loop) == n.plan.steps_outside ? 1 : 2;
  };
  std::stable_sort(n.outer.begin(), n.outer.end(),
                   [&](const TileLoop& a, const TileLoop& b) { return rank(a) < rank(b); });
  std::stable_partition(n.tile.begin(), n.tile.end(),
                        [&](const TileLoop& l) { return !last || l.moves[0] != last->var; });
  Names order;
  for (const auto* level : {&n.outer, &n.tile})
    for (const TileLoop& l : *level) order.push_back(l.name);
  for (const Names* level : {&n.steps, &n.unrolled, &n.registers})
    order.insert(order.end(), level->begin(), level->end());
  if (!n.vector.empty()) order.push_back(n.vector);
  if (order.size() > 1) s_(fmt::format("reorder {} ({})", n.block, join(order)));
}

// The loop that threads share, empty where there is none: outer ones, as one, but none inside of the
// reduction's.
std::string AnyEmitter::share(Standing& n) {
  const auto reduced =
      std::find_if(n.outer.begin(), n.outer.end(), [&](const TileLoop& l) { return l.name == n.steps_loop; });
  const auto count = std::min<std::ptrdiff_t>(n.plan.parallel, reduced - n.outer.begin());
  if (count == 0) return "";
  if (count == 1) return n.outer[0].name;
  TileLoop all{n.outer[0].name + "_p", {}};
  Names fused;
  for (auto l = n.outer.begin(); l != n.outer.begin() + count; ++l) {
    fused.push_back(l->name);
    all.moves.insert(all.moves.end(), l->moves.begin(), l->moves.end());
  }
  s_(fmt::format("{} = fuse {} ({})", all.name, n.block, join(fused)));
  n.outer.erase(n.outer.begin(), n.outer.begin() + count);
  n.outer.insert(n.outer.begin(), all);
  return all.name;
}

void AnyEmitter::stand(size_t i) {
  Standing n;
  n.block = name(i);
  n.info = blocks_[i].info;
  n.plan = plans_[i];
  n.longest = blocks_[i].longest;
  n.lanes = blocks_[i].lanes;
  if (n.plan.fused) fuse_dense(n, blocks_[i].dense);
  if (n.plan.parts > 1) sum_in_parts(n);
  if (n.plan.steps > 0 || n.plan.sums) sum_apart(n);
  const std::optional<Standing> rest = n.plan.rest ? cut_rest(i, n) : std::nullopt;
  make_nest(i, n);
  if (!rest) return;
  const Where w = where_.at(name(i));
  make_nest(i, *rest);
  where_[name(i)] = w;
}

// What whole vectors leave of the lanes' loop becomes a block of its own, with lanes along another loop.
std::optional<Standing> AnyEmitter::cut_rest(size_t i, Standing& n) {
  const auto lanes = std::find_if(n.info.iters.begin(), n.info.iters.end(),
                                  [&](const Iter& x) { return x.loop == n.plan.lanes; });
  if (lanes == n.info.iters.end()) return std::nullopt;
  const int64_t rest = blocks_[i].rest_of(*lanes);
  if (rest == 0) return std::nullopt;
  const int64_t whole = lanes->extent - rest;
  const std::string loop = lanes->loop;
  const auto cut_off = [&](const std::string& block, bool all) {
    Names order = {loop};
    for (const Iter& x : n.info.iters)
      if (!x.loop.empty() && x.loop != loop && (all || !x.reduce)) order.push_back(x.loop);
    if (order.size() > 1) s_(fmt::format("reorder {} ({})", block, join(order)));
    s_(fmt::format("{0}_rest = loop_partition {0}.{1} [{2}]", block, loop, whole));
  };
  Standing r = n;
  r.block = n.block + "_rest";
  if (n.info.reduction) {  // each has results of its own
    n.writer = n.block + "_out";
    r.writer = n.writer + "_rest";
    s_(fmt::format("{} = cache_write {} global", n.writer, n.block));
    cut_off(n.writer, false);
  }
  cut_off(n.block, true);
  if (n.info.reduction) s_(fmt::format("{0}_sums = split_buffer {0}", r.block));
  n.info = library::analyze(s_.func(), n.block);
  r.info = library::analyze(s_.func(), r.block);
  r.plan.lanes = "none";
  for (const Iter& x : blocks_[i].info.iters)
    if (blocks_[i].has_lanes(x) && x.loop != n.plan.lanes && r.plan.lanes == "none") r.plan.lanes = x.loop;
  const Iter* along = r.info.iter(r.plan.lanes);
  r.plan.width = along ? std::clamp<int64_t>(along->extent / n.lanes, 1, 4) : 1;
  for (const Iter& x : r.info.iters)
    if (!x.reduce) r.plan.inner[x.loop] = 1;
  r.plan.inner[n.plan.lanes] = rest;
  r.plan.packed.clear();
  return r;
}

void AnyEmitter::make_nest(size_t i, Standing n) {
  cut_loops(n);
  order_loops(n);
  for (const std::string& buffer : n.plan.packed)
    if (blocks_[i].is_constant(buffer)) pack(n, buffer, true);
  const std::string threads = share(n);

  Where w;
  for (const TileLoop& l : n.outer)
    if (l.name == n.steps_loop)
      break;
    else
      w.outer = loop_of(n.block, l.name);
  w.tile = !n.tile.empty()    ? loop_of(n.block, n.tile.back().name)
           : !n.outer.empty() ? loop_of(n.block, n.outer.back().name)
                              : "";
  if (!n.tile.empty() && n.steps_loop.empty()) {
    w.slides = loop_of(n.block, n.tile[0].name);
    w.along = n.tile[0].moves[0] ? n.tile[0].moves[0]->name : "";
    w.step = 1;
    for (const std::string& l : inside(n.block, w.tile))
      for (const IterVar& v : moved_by(n.block, l))
        if (v.var->name == w.along) w.step *= extent(n.block, l);
  }
  where_[name(i)] = where_[n.block] = w;
  if (!n.apart.empty()) where_[n.apart] = w;

  Names writers;  // of results
  const bool local = n.info.reduction && follow(i, n, &writers);
  if (!n.apart.empty()) compute_apart(n, w.tile);
  for (const std::string& buffer : n.plan.packed)
    if (!blocks_[i].is_constant(buffer)) pack(n, buffer, false);
  for (const Names* level : {&n.registers, &n.unrolled})
    for (const std::string& l : *level) s_("unroll " + loop_of(n.block, l));
  if (!n.vector.empty() && !n.along_sum) s_("vectorize " + loop_of(n.block, n.vector));
  for (const std::string& writer : writers) {
    if (local && writer == writers.back())
      write_out(writer, w.tile, n);
    else
      spread(writer, where_.at(writer).tile, n.lanes);
  }
  if (n.info.reduction && (!n.steps.empty() || !n.unrolled.empty() || n.along_sum)) {
    const std::string& first = !n.steps.empty()      ? n.steps.front()
                               : !n.unrolled.empty() ? n.unrolled.front()
                                                     : n.vector;
    // With steps outside, the first of them begins the sum.
    if (n.steps_loop.empty())
      s_(fmt::format("{}_init = decompose_reduction {}", n.block, loop_of(n.block, first)));
  }
  if (n.along_sum) s_("vectorize " + loop_of(n.block, n.vector));
  if (!threads.empty()) s_("parallel " + loop_of(n.block, threads));
}

// What many tiles read lies in panels as wide as the tile that reads it: a constant from the start, another
// one as a copy, made in the innermost outer loop that moves what is read.
void AnyEmitter::pack(Standing& n, const std::string& buffer, bool constant) {
  if (n.along_sum) return;  // the tile has one row
  const std::string reader = n.apart.empty() ? n.block : n.apart;
  const BlockInfo b = library::analyze(s_.func(), reader);
  const Iter* lanes = n.info.iter(n.plan.lanes);
  const auto access = std::find_if(b.accesses.begin(), b.accesses.end(),
                                   [&](const Access& a) { return a.buffer->name == buffer; });
  if (access == b.accesses.end()) return;
  // Names stay where iterators don't.
  const auto dim_of = [&](const Var& v) {
    for (size_t d = 0; v && d < access->indices.size(); ++d)
      if (const auto* x = access->indices[d].as<VarRef>(); x && x->var->name == v->name)
        return static_cast<int>(d);
    return -1;
  };
  int by = -1;
  int64_t width = 1, extent = 0;
  for (const Iter& i : n.info.iters) {
    const bool is_lanes = &i == lanes;
    const auto inner = n.plan.inner.find(i.loop);
    const int64_t size = is_lanes ? n.plan.width * n.lanes : inner == n.plan.inner.end() ? 1 : inner->second;
    if (i.reduce || dim_of(i.var) < 0 || size < 2 || (by >= 0 && !is_lanes)) continue;
    by = dim_of(i.var);
    width = size;
    extent = i.extent;
  }
  if (by < 0 || (constant && width >= extent)) return;
  Names dims, packed;
  for (size_t d = 0; d < access->indices.size(); ++d) dims.push_back(fmt::format("d{}", d));
  packed.push_back(fmt::format("d{}/{}", by, width));
  for (size_t d = 0; d < dims.size(); ++d)
    if (static_cast<int>(d) != by) packed.push_back(dims[d]);
  packed.push_back(fmt::format("d{}%{}", by, width));
  const std::string map = fmt::format("({}) -> ({})", join(dims, ", "), join(packed, ", "));
  if (constant) {
    s_(fmt::format("transform_layout {} {}", buffer, map));
    return;
  }
  std::string at;
  for (const TileLoop& l : n.outer)
    for (const Var& v : l.moves)
      if (dim_of(v) >= 0 || (l.name == n.steps_loop && access->indices.size() > 0))
        at = loop_of(reader, l.name);
  const std::string copy = fmt::format("{}_{}", buffer, n.block);
  s_(fmt::format("{} = pack {} {} {}", copy, at.empty() ? reader : at, buffer, map));
  where_[copy] = {at, at, "", "", 1};
  spread(copy, at, n.lanes);
}

Trace emit_any(const PrimFunc& f, const std::vector<PlanBlock>& blocks, const std::vector<BlockPlan>& plans) {
  const QuietRefusals quiet;
  return AnyEmitter(f, blocks, plans).run();
}

}  // namespace nestor::plans
