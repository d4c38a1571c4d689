// The analytic default, in a few milliseconds: elementwise blocks are inlined; what is left is one of five
// shapes.
//
//  - A reduction with an elementwise epilogue (MatMul, Conv, pooling, sums): a register tile, see
//    tile_reduction.cpp.
//  - Several reductions over the same rows (softmax, norms): all blocks join the last one's row loop, see
//    join_rows.cpp, and join_columns.cpp for rows that lie beside each other.
//  - Two products with rows between them (attention): all by tiles of rows, see join_products.cpp; with
//    lanes across rows where these are few, see turned_products.cpp.
//  - A running result: its loop keeps its order, see scan.cpp.
//  - A map: lanes and a parallel loop, see spread_map.cpp.
//
// A plan is tried as a whole. Where one of its steps is refused, or lowering would refuse its result, the
// next plan is tried; the last one, which only makes safe steps, always applies.
#include <algorithm>
#include <map>
#include <set>

#include "nestor/library.h"
#include "nestor/walk.h"
#include "schedules/library/cuda.h"
#include "schedules/library/planner.h"
#include "schedules/library/scan.h"

namespace nestor {

namespace {

using library::BlockInfo;

bool has_symbolic_or_empty_extent(const PrimFunc& f) {
  bool found = false;
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* loop = s.as<For>()) found |= as_int(loop->extent).value_or(0) <= 0;
  });
  return found;
}

// Each block writes something and holds no other, and nothing is a vector or a machine instruction yet: in
// text of a function that was scheduled or lowered it may be otherwise.
bool has_plain_blocks(const PrimFunc& f) {
  bool plain = true;
  for_each_expr(f.body, [&](const Expr& e) {
    const auto* call = e.as<Call>();
    plain = plain && !e.type().is_vector() && !(call && call->fn == Intrinsic::instruction);
  });
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* block = s.as<Block>();
    if (!block) return;
    bool writes = false;
    for_each_stmt(block->body, [&](const Stmt& inner) {
      writes = writes || inner.as<Store>() || inner.as<Update>();
      plain = plain && !inner.as<Block>();
    });
    plain = plain && writes;
  });
  return plain;
}

std::vector<BlockInfo> blocks_of(const PrimFunc& f) {
  std::vector<BlockInfo> out;
  for (const std::string& name : block_names(f)) out.push_back(library::analyze(f, name));
  return out;
}

// Every reduction on its own with its epilogue, every other map on its own.
void plan_tiles(Schedule& s, const Target& target, bool dots) {
  library::inline_producers(s);
  if (library::transformed_products(s, target)) return;
  for (const BlockInfo& b : blocks_of(s.func()))
    if (b.reduction) library::split_reduction(s, b.name, target);
  std::vector<std::string> epilogues;
  const std::vector<BlockInfo> blocks = blocks_of(s.func());
  for (const BlockInfo& b : blocks) {
    if (!b.reduction || library::tile_parts(s, b.name, target) || library::panel_parts(s, b.name, target) ||
        library::row_parts(s, b.name, target))
      continue;
    const std::string epilogue = library::epilogue_of(s.func(), b);
    if (!epilogue.empty()) epilogues.push_back(epilogue);
    if (library::fold_once(s, b.name, epilogue, target) ||
        library::fold_windows(s, b.name, epilogue, target) ||
        library::tile_windows(s, b.name, epilogue, target) ||
        library::tile_dots(s, b.name, epilogue, target) ||
        library::rest_of_columns(s, b.name, epilogue, target))
      continue;
    const auto dot = dots ? library::find_dot(s.func(), b, target) : std::nullopt;
    library::tile_reduction(s, b.name, epilogue,
                            dot ? target : library::with_half_vectors(s.func(), b, epilogue, target), dot);
  }
  for (const BlockInfo& b : blocks)
    if (!b.reduction && find_block(s.func(), b.name) &&  // a padding may be gone, or under a loop
        loops_of(s.func(), b.name).size() == b.iters.size() &&
        std::find(epilogues.begin(), epilogues.end(), b.name) == epilogues.end())
      library::spread_map(s, b.name, target);
  library::merge_nests(s, target);
  library::merge_pieces(s, target);
}

void plan_dots(Schedule& s, const Target& target) {
  plan_tiles(s, target, true);
}
void plan_plain_tiles(Schedule& s, const Target& target) {
  plan_tiles(s, target, false);
}

// Two products or more: their operands are read again and again, so rows are not all there is to them.
bool holds_products(const PrimFunc& f) {
  int products = 0;
  for (const BlockInfo& b : blocks_of(f)) products += library::is_product(b);
  return products > 1;
}

// Whether the block is a map of all elements of rows, and reads `a`, one of each row.
bool spreads_over_rows(const BlockInfo& b, const library::Access& a) {
  const std::vector<const library::Iter*> all = b.spatial();
  return !b.reduction && std::any_of(all.begin(), all.end(),
                                     [&](const library::Iter* i) { return i->extent > 1 && !a.uses(*i); });
}

// Whether some block works with what several reductions made, or one of another: those are over the same
// rows. So is a map that spreads what one made of rows over them, which lie dense along another way than the
// results (Cascade Lake, RMSNormalization of rows of 16 elements a quarter of the time, of 32 a sixth).
bool reductions_meet(const PrimFunc& f, const Target& target) {
  std::map<const BufferNode*, std::set<std::string>> made_from;  // by buffer; only looked up
  std::set<std::string> folded;
  bool meet = false;
  const std::vector<BlockInfo> blocks = blocks_of(f);
  for (const BlockInfo& b : blocks) {
    std::set<std::string> from;
    for (const library::Access& a : b.accesses) {
      if (a.buffer == b.output) continue;
      const bool in_pieces = 1 < std::count_if(blocks.begin(), blocks.end(),
                                               [&](const BlockInfo& w) { return w.output == a.buffer; });
      for (const std::string& r : made_from[a.buffer.get()]) {
        meet |= folded.count(r) && spreads_over_rows(b, a);
        from.insert(r);
        if (in_pieces) break;  // each is of other rows: one stands for all
      }
    }
    if (b.reduction) from.insert(b.name);
    if (b.reduction && library::folds_rows_together(b, target)) folded.insert(b.name);
    meet |= from.size() > 1;
    made_from[b.output.get()].merge(from);
  }
  return meet;
}

void plan_products(Schedule& s, const Target& target) {
  if (!library::join_products(s, target)) plan_dots(s, target);
}

void plan_rows(Schedule& s, const Target& target) {
  library::inline_producers(s);
  if (!library::join_pieces(s, target) && !library::join_columns(s, target)) library::join_rows(s, target);
}

// Only steps that may be refused singly.
void plan_safe(Schedule& s, const Target& target) {
  for (const BlockInfo& b : blocks_of(s.func())) {
    Schedule tried = s;
    try {
      if (!b.reduction) library::spread_map(tried, b.name, target);
      s = tried;
    } catch (const ScheduleError&) {
    }
    if (b.reduction && library::work_of(b, target).microseconds() >= target.parallel_us)
      for (const library::Iter* i : b.spatial())
        if (i->extent > 1 && !i->loop.empty() && s.try_step("parallel " + b.name + "." + i->loop)) break;
  }
}

struct Plan {
  const char* what;
  void (*apply)(Schedule&, const Target&);
};
constexpr Plan kProducts{"products and the rows between them", plan_products},
    kDots{"tiles and dot products", plan_dots}, kTiles{"tiles", plan_plain_tiles},
    kScan{"a running result", library::scan}, kRows{"rows that all reductions share", plan_rows},
    kSafe{"loops alone", plan_safe};

}  // namespace

Trace default_schedule(const PrimFunc& f, const Target& target) {
  const QuietRefusals quiet;
  if (!has_plain_blocks(f)) return {};
  if (target.kind == TargetKind::cuda) return default_cuda_schedule(f, target);
  if (has_symbolic_or_empty_extent(f)) return {};
  const std::vector<Plan> plans = library::is_scan(f) ? std::vector<Plan>{kScan, kSafe}
                                  : holds_products(f) ? std::vector<Plan>{kProducts, kTiles, kRows, kSafe}
                                  : reductions_meet(f, target)
                                      ? std::vector<Plan>{kRows, kDots, kTiles, kSafe}
                                      : std::vector<Plan>{kDots, kTiles, kRows, kSafe};
  std::vector<std::string> given_up;
  for (const Plan& plan : plans) {
    Schedule s(f);
    try {
      plan.apply(s, target);
      if (!library::accumulators_fit(s.func()))
        throw ScheduleError(Diagnostic{"its accumulators don't fit in the registers", {}, {}, ""});
      Trace trace = s.trace();
      trace.given_up = std::move(given_up);
      return trace;
    } catch (const ScheduleError& e) {
      give_up(given_up, std::string("a plan of ") + plan.what, e);
    }
  }
  return {"", "", {}, std::move(given_up)};
}

Trace plain_schedule(const PrimFunc& f, const Target& target) {
  const QuietRefusals quiet;
  if (!has_plain_blocks(f) || has_symbolic_or_empty_extent(f)) return {};
  Schedule s(f);
  plan_safe(s, target);
  return s.trace();
}

}  // namespace nestor
