// From a plan of the family `any` to steps. Blocks that stand alone come first, the last one first, each with
// what follows its reduction; then those that move go to their readers, the last one first, so that a reader
// stands where it will when its producers come.
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/plans/any.h"
#include "schedules/words.h"

namespace nestor::plans {

namespace {

using library::Access;
using library::BlockInfo;
using library::Iter;
using schedules::join;
using Names = std::vector<std::string>;

// The loops of a block at which others can be computed: the innermost of its outer level and of its tiles.
struct Where {
  std::string outer, tile;
  const std::string& at(const std::string& place) const { return place == "outer" ? outer : tile; }
};

class Emitter {
 public:
  Emitter(const PrimFunc& f, const std::vector<PlanBlock>& blocks, const std::vector<BlockPlan>& plans)
      : s_(f), blocks_(blocks), plans_(plans) {}

  Trace run() {
    for (size_t i = 0; i < blocks_.size(); ++i)
      if (plans_[i].place == "inline") s_("compute_inline " + name(i));
    for (size_t i = blocks_.size(); i-- > 0;)
      if (blocks_[i].keeps_order)
        stay(i);
      else if (plans_[i].place == "root")
        stand(i);
    for (size_t i = blocks_.size(); i-- > 0;)
      if (moves_to_reader(i)) move(i);
    if (!library::accumulators_fit(s_.func())) refuse("results can't be kept in registers");
    return s_.trace();
  }

 private:
  // A level of the nest: its loops from the outside in.
  struct Level {
    Names loops;
    void add(const std::string& loop) { loops.push_back(loop); }
  };

  const std::string& name(size_t i) const { return blocks_[i].info.name; }
  [[noreturn]] static void refuse(const std::string& why) {
    throw ScheduleError(Diagnostic{why, {}, {}, ""});
  }
  bool moves_to_reader(size_t i) const {
    return (plans_[i].place == "outer" || plans_[i].place == "tile") && blocks_[i].reads.empty();
  }
  // The block that goes with the results of reduction i; -1: none does.
  int follower(size_t i) const {
    for (size_t k = 0; k < blocks_.size(); ++k)
      if (blocks_[k].reads == name(i) && plans_[k].place != "root" && plans_[k].place != "inline")
        return static_cast<int>(k);
    return -1;
  }
  std::string loop(size_t i, const std::string& l) const { return name(i) + "." + l; }

  // The loops of `iter` become one for each part that is more than 1, named with the suffixes; the first
  // takes what is left. Gives the parts' loops, empty where a part is 1.
  Names cut(size_t i, const Iter& iter, const Names& suffixes, std::vector<int64_t> sizes) {
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
    s_(fmt::format("{} = split {} [{}] tail={}", join(made), loop(i, iter.loop), join(factors, ", "),
                   plans_[i].tail));
    return loops;
  }

  // Loops that keep their order get lanes and threads where they are legal.
  void stay(size_t i) {
    const std::vector<LoopInfo> loops = loops_of(s_.func(), name(i));
    if (loops.empty()) return;
    if (loops.back().kind == ForKind::serial) s_.try_step("vectorize " + loop(i, loops.back().name));
    if (loops.size() > 1 && loops.front().kind == ForKind::serial)
      s_.try_step("parallel " + loop(i, loops.front().name));
  }

  void stand(size_t i) {
    const BlockInfo& b = blocks_[i].info;
    const BlockPlan& p = plans_[i];
    const Iter* lanes = b.iter(p.lanes);
    const bool along_sum = lanes && lanes->reduce;
    Level outer, tile, steps, unrolled, registers;
    std::string vector;
    for (const Iter& iter : b.iters) {
      if (iter.loop.empty()) continue;
      if (iter.reduce) {
        if (&iter == lanes) {
          vector = iter.loop;
          continue;
        }
        const Names l = cut(i, iter, {"_s", "_u"}, {along_sum ? 1 : p.inner.at(iter.loop)});
        if (!l[0].empty()) steps.add(l[0]);
        if (!l[1].empty()) unrolled.add(l[1]);
        continue;
      }
      const bool is_lanes = &iter == lanes;
      const int64_t inner = is_lanes ? p.width * blocks_[i].lanes : along_sum ? 1 : p.inner.at(iter.loop);
      const Names l = cut(i, iter, {"_o", "_t", is_lanes ? "_l" : "_r"}, {p.tile.at(iter.loop), inner});
      if (!l[0].empty()) outer.add(l[0]);
      if (!l[1].empty()) tile.add(l[1]);
      if (is_lanes)
        vector = l[2];
      else if (!l[2].empty())
        registers.add(l[2]);
    }
    Names order;
    for (const Level* level : {&outer, &tile, &steps, &unrolled, &registers})
      order.insert(order.end(), level->loops.begin(), level->loops.end());
    if (!vector.empty()) order.push_back(vector);
    if (order.size() > 1) s_(fmt::format("reorder {} ({})", name(i), join(order)));
    for (const std::string& constant : p.packed) pack(i, constant);

    std::string threads;
    if (const auto n = std::min(static_cast<size_t>(p.parallel), outer.loops.size()); n > 0) {
      threads = outer.loops[0];
      if (n > 1) {
        const Names fused(outer.loops.begin(), outer.loops.begin() + static_cast<std::ptrdiff_t>(n));
        s_(fmt::format("{}_p = fuse {} ({})", threads, name(i), join(fused)));
        outer.loops.erase(outer.loops.begin(), outer.loops.begin() + static_cast<std::ptrdiff_t>(n));
        threads += "_p";
        outer.loops.insert(outer.loops.begin(), threads);
      }
    }
    Where& w = where_[name(i)];
    if (!outer.loops.empty()) w.outer = loop(i, outer.loops.back());
    w.tile = tile.loops.empty() ? w.outer : loop(i, tile.loops.back());

    Names writers;  // of results
    const bool local = b.reduction && follow(i, along_sum, &writers);
    for (const std::string& l : registers.loops) s_("unroll " + loop(i, l));
    for (const std::string& l : unrolled.loops) s_("unroll " + loop(i, l));
    if (!vector.empty() && !along_sum) s_("vectorize " + loop(i, vector));
    for (const std::string& writer : writers) {
      if (local && writer == writers.back())
        write_out(writer, w.tile, i, vector);
      else
        spread(writer, where_.at(writer).tile, blocks_[i].lanes);
    }
    if (b.reduction && (!steps.loops.empty() || !unrolled.loops.empty() || along_sum)) {
      const std::string& first = !steps.loops.empty()      ? steps.loops.front()
                                 : !unrolled.loops.empty() ? unrolled.loops.front()
                                                           : vector;
      s_(fmt::format("{}_init = decompose_reduction {}", name(i), loop(i, first)));
    }
    if (along_sum) s_("vectorize " + loop(i, vector));
    if (!threads.empty()) s_("parallel " + loop(i, threads));
  }

  // What reads the reduction's result goes to its tiles, and its results to registers; whether they do. The
  // last of `writers` then reads them.
  bool follow(size_t i, bool along_sum, Names* writers) {
    const Where& w = where_.at(name(i));
    const int next = follower(i);
    const bool local = plans_[i].local && !along_sum && !w.tile.empty();
    if (next >= 0) {
      const std::string& at = w.at(plans_[static_cast<size_t>(next)].place);
      if (at.empty()) refuse(name(i) + " has no loop for what follows");
      const std::string follower = name(static_cast<size_t>(next));
      s_(fmt::format("reverse_compute_at {} {}", follower, at));
      where_[follower] = {at, at};
      writers->push_back(follower);
      if (local && at == w.tile) {
        s_(fmt::format("set_scope {} local", blocks_[i].info.output->name));
        return true;
      }
    }
    if (!local) return false;
    const std::string writer = name(i) + "_out";
    s_(fmt::format("{} = cache_write {} local", writer, name(i)));
    s_(fmt::format("reverse_compute_at {} {}", writer, w.tile));
    where_[writer] = {w.tile, w.tile};
    writers->push_back(writer);
    return true;
  }

  // What reads results in registers does so as the block makes them.
  void write_out(const std::string& writer, const std::string& at, size_t i, const std::string& vector) {
    const BlockInfo b = library::analyze(s_.func(), writer);
    const Buffer results = library::analyze(s_.func(), name(i)).output;
    const Iter* lanes = blocks_[i].info.iter(plans_[i].lanes);
    int dim = -1;  // of the results, along which lanes go
    for (const Access& a : blocks_[i].info.accesses)
      for (size_t d = 0; a.write && d < a.indices.size(); ++d)
        if (lanes && !vector.empty() && uses_var(a.indices[d], lanes->var)) dim = static_cast<int>(d);
    for (const std::string& l : inside(writer, at)) {
      const bool by_lanes =
          dim >= 0 && std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
            return a.buffer == results && moves(writer, l, a.indices[static_cast<size_t>(dim)]);
          });
      if (extent(writer, l) > 1) s_(fmt::format("{} {}.{}", by_lanes ? "vectorize" : "unroll", writer, l));
    }
  }

  // Whether the block's loop moves an expression over its iterators.
  bool moves(const std::string& block, const std::string& l, const Expr& e) const {
    for (const IterVar& i : find_block(s_.func(), block)->iters) {
      bool bound = false;
      for_each_expr(i.binding, [&](const Expr& x) {
        const auto* v = x.as<VarRef>();
        bound |= v && v->var->name == l;
      });
      if (bound && uses_var(e, i.var)) return true;
    }
    return false;
  }

  Names inside(const std::string& block, const std::string& at) const {
    Names loops;
    bool reached = false;
    for (const LoopInfo& l : loops_of(s_.func(), block)) {
      if (reached) loops.push_back(l.name);
      reached |= at.ends_with("." + l.name);
    }
    return loops;
  }

  // The constant lies in panels as wide as the lanes' tile.
  void pack(size_t i, const std::string& constant) {
    const BlockInfo& b = blocks_[i].info;
    const Iter* lanes = b.iter(plans_[i].lanes);
    if (!lanes || lanes->reduce) return;
    const int64_t width = plans_[i].width * blocks_[i].lanes;
    if (width >= lanes->extent) return;
    for (const Access& a : b.accesses) {
      if (a.buffer->name != constant || !a.uses(*lanes)) continue;
      Names dims, packed, last;
      for (size_t d = 0; d < a.indices.size(); ++d) {
        const std::string dim = fmt::format("d{}", d);
        dims.push_back(dim);
        const auto* v = a.indices[d].as<VarRef>();
        if (v && v->var == lanes->var) {
          packed.insert(packed.begin(), fmt::format("{}/{}", dim, width));
          last.push_back(fmt::format("{}%{}", dim, width));
        } else {
          packed.push_back(dim);
        }
      }
      packed.insert(packed.end(), last.begin(), last.end());
      s_(fmt::format("transform_layout {} ({}) -> ({})", constant, join(dims, ", "), join(packed, ", ")));
      return;
    }
  }

  void move(size_t i) {
    const std::vector<std::string> readers = library::readers_of(s_.func(), blocks_[i].info.output);
    const auto reader = readers.empty() ? where_.end() : where_.find(readers.front());
    if (reader == where_.end()) refuse("what reads " + name(i) + " isn't placed");
    const std::string at = reader->second.at(plans_[i].place);
    if (at.empty()) refuse("what reads " + name(i) + " has no loops");
    s_(fmt::format("compute_at {} {}", name(i), at));
    where_[name(i)] = {at, at};
    spread(name(i), at, blocks_[i].lanes);
  }

  // A block that moved to the loop `at`: lanes along its last loop, and what is little is written out.
  void spread(const std::string& block, const std::string& at, int64_t lanes) {
    constexpr int64_t kMostLanes = 8, kMostSteps = 64;
    const BlockInfo b = library::analyze(s_.func(), block);
    Names loops, steps;
    for (const std::string& l : inside(block, at)) (is_reduced(b, l) ? steps : loops).push_back(l);
    const bool along_sum = !steps.empty() && (loops.empty() || extent(block, loops.back()) < lanes);
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

  static bool is_reduced(const BlockInfo& b, const std::string& loop) {
    const Iter* i = library::walked_by(b, loop);
    return i && i->reduce;
  }
  int64_t extent(const std::string& block, const std::string& l) const {
    return library::extent_of(s_, block, l);
  }

  Schedule s_;
  const std::vector<PlanBlock>& blocks_;
  const std::vector<BlockPlan>& plans_;
  std::map<std::string, Where> where_;
};

}  // namespace

Trace emit_any(const PrimFunc& f, const std::vector<PlanBlock>& blocks, const std::vector<BlockPlan>& plans) {
  const QuietRefusals quiet;
  return Emitter(f, blocks, plans).run();
}

}  // namespace nestor::plans
