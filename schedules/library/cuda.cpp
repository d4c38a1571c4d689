// Three steps: elementwise blocks are inlined into their readers; an elementwise block that reads a finished
// reduction is computed by the thread that reduced, so that the sum stays in a register; what is left is
// bound, a thread for each output element. A nest of several blocks, as in a user's own function, gets its
// outermost loop bound, where that is legal.
//
// A step that a primitive refuses is left out: what remains is slower and still right.
#include "schedules/library/cuda.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/analysis.h"
#include "schedules/library/cuda_attention.h"
#include "schedules/library/cuda_map.h"
#include "schedules/library/cuda_reduce.h"
#include "schedules/library/cuda_rows.h"
#include "schedules/library/cuda_scan.h"
#include "schedules/library/cuda_tile.h"
#include "schedules/library/cuda_windows.h"
#include "schedules/library/cuda_work.h"
#include "schedules/words.h"

namespace nestor {

namespace {

constexpr int64_t kMostThreads = library::kMostMapThreads;

bool is_reduction(const Block& b) {
  return std::any_of(b.iters.begin(), b.iters.end(),
                     [](const IterVar& i) { return i.kind == IterKind::reduce; });
}

bool has_math(const Block& b) {
  bool found = false;
  for_each_expr(b.body, [&](const Expr& e) {
    const auto* c = e.as<Call>();
    found |= c && c->fn <= Intrinsic::pow && c->fn != Intrinsic::sqrt;
  });
  return found;
}

size_t reads_of(const Block& b) {
  size_t n = 0;
  for (const BlockAccess& a : accesses_of(b)) n += !a.write;
  return n;
}

std::vector<std::string> readers_of(const PrimFunc& f, const Buffer& b) {
  std::vector<std::string> out;
  for (const std::string& name : block_names(f)) {
    const std::vector<BlockAccess> accesses = accesses_of(*find_block(f, name));
    const auto reads = [&](const BlockAccess& a) { return a.buffer == b && a.read && !a.write; };
    if (std::any_of(accesses.begin(), accesses.end(), reads)) out.push_back(name);
  }
  return out;
}

// The one buffer that a block writes; null where there are several.
Buffer output_of(const Block& b) {
  Buffer out;
  for (const BlockAccess& a : accesses_of(b)) {
    if (!a.write) continue;
    if (out && out != a.buffer) return nullptr;
    out = a.buffer;
  }
  return out;
}

bool is_bound(const PrimFunc& f, const std::string& block) {
  const std::vector<LoopInfo> loops = loops_of(f, block);
  return std::any_of(loops.begin(), loops.end(), [](const LoopInfo& l) { return l.kind == ForKind::thread; });
}

// One number a row, made of the row's sum, for whoever reads the row again.
bool is_number_of_row(const PrimFunc& f, const Block& b, const std::vector<std::string>& readers) {
  const auto instances = [](const Block& block) {
    double n = 1;
    for (const IterVar& i : block.iters) n *= static_cast<double>(as_int(i.extent).value_or(1));
    return n;
  };
  const auto accesses = accesses_of(b);
  const bool of_sum = std::any_of(accesses.begin(), accesses.end(), [&](const BlockAccess& a) {
    const std::vector<std::string> makers = library::writers_of(f, a.buffer);
    return a.read && !makers.empty() && is_reduction(*find_block(f, makers.front()));
  });
  return of_sum && std::any_of(readers.begin(), readers.end(), [&](const std::string& r) {
           return instances(*find_block(f, r)) > instances(b);
         });
}

// Blocks that a reader may as well compute itself. What holds a math function isn't computed once for every
// step of a reduction, and what reads two arrays not by several readers. `rows`: a number that a row's passes
// share stays one, for bind_rows.
void inline_elementwise(Schedule& s, bool rows) {
  for (const std::string& name : block_names(s.func())) {
    const Block* b = find_block(s.func(), name);
    const Buffer out = b ? output_of(*b) : nullptr;
    if (!out || is_reduction(*b) || find_param(s.func(), out) || is_bound(s.func(), name)) continue;
    const std::vector<std::string> readers = readers_of(s.func(), out);
    const bool repeated = readers.size() != 1 || is_reduction(*find_block(s.func(), readers[0]));
    const bool windows = readers.size() == 1 && library::reads_windows(s.func(), readers[0], out);
    if (readers.empty() || windows || (has_math(*b) && repeated)) continue;
    if (rows && (is_number_of_row(s.func(), *b, readers) || (readers.size() > 1 && reads_of(*b) > 1)))
      continue;
    s.try_step("compute_inline " + name);
  }
}

struct Loops {
  std::vector<std::string> spatial, reduced;
  int64_t size = 1;    // of the spatial ones
  bool simple = true;  // serial, of constant extent, each of one kind, and of this block alone
};

Loops classify(const PrimFunc& f, const std::string& block) {
  Loops out;
  const Block& b = *find_block(f, block);
  for (const LoopInfo& l : loops_of(f, block)) {
    bool spatial = false, reduced = false;
    for (const IterVar& i : b.iters) {
      bool used = false;
      for_each_expr(i.binding,
                    [&](const Expr& e) { used |= e.as<VarRef>() && e.as<VarRef>()->var->name == l.name; });
      (i.kind == IterKind::reduce ? reduced : spatial) |= used;
    }
    out.simple &= l.kind == ForKind::serial && l.extent > 0 && !(spatial && reduced);
    (reduced ? out.reduced : out.spatial).push_back(l.name);
    if (!reduced) out.size *= l.extent;
  }
  for (const std::string& other : block_names(f))
    out.simple &= other == block || !library::share_a_loop(f, block, other);
  return out;
}

using schedules::join;

using library::threads_for;

struct Bound {
  std::string blocks, threads;  // loops; no blocks where one is enough
};

std::string fuse(Schedule& s, const std::string& block, const std::vector<std::string>& loops) {
  if (loops.size() == 1) return loops[0];
  s(fmt::format("g = fuse {} ({})", block, join(loops)));
  return "g";
}

// The S loops in front, made into blocks of threads, not bound yet. `whole`: all of them as one loop, which
// is then cut, so that no thread of any block but the last is idle. Else the last loops give threads:
// the quotients and remainders are simpler, and a proof may succeed that failed for the whole. The epilogue,
// if there is one, moves along: into the whole loop, before its end is ragged.
Bound cut(Schedule& s, const std::string& block, const Loops& loops, bool whole,
          const std::string& epilogue = "") {
  std::vector<std::string> order = loops.spatial;
  order.insert(order.end(), loops.reduced.begin(), loops.reduced.end());
  if (order.size() > 1) s(fmt::format("reorder {} ({})", block, join(order)));
  std::vector<std::string> outer = loops.spatial;
  if (whole) {
    const std::string loop = fuse(s, block, outer);
    if (!epilogue.empty()) s(fmt::format("reverse_compute_at {} {}.{}", epilogue, block, loop));
    const int64_t threads = threads_for(loops.size);
    if (loops.size <= threads) return {"", loop};
    s(fmt::format("gb gt = split {}.{} [_, {}]", block, loop, threads));
    return {"gb", "gt"};
  }
  std::vector<std::string> last;
  const auto extent = [&](const std::string& loop) {
    for (const LoopInfo& l : loops_of(s.func(), block))
      if (l.name == loop) return l.extent;
    return int64_t{1};
  };
  for (int64_t threads = 1; !outer.empty() && threads * extent(outer.back()) <= kMostThreads;
       outer.pop_back()) {
    threads *= extent(outer.back());
    last.insert(last.begin(), outer.back());
  }
  if (last.empty()) {
    s(fmt::format("gb gt = split {}.{} [_, {}]", block, outer.back(), kMostThreads));
    outer.back() = "gb";
    last = {"gt"};
  } else if (last.size() > 1) {
    s(fmt::format("gt = fuse {} ({})", block, join(last)));
    last = {"gt"};
  }
  if (!epilogue.empty()) s(fmt::format("reverse_compute_at {} {}.{}", epilogue, block, last[0]));
  return {outer.empty() ? "" : fuse(s, block, outer), last[0]};
}

void bind_threads(Schedule& s, const std::string& block, const Bound& loops) {
  if (!loops.blocks.empty()) s(fmt::format("bind {}.{} blockIdx.x", block, loops.blocks));
  s(fmt::format("bind {}.{} threadIdx.x", block, loops.threads));
}

// The reader of the block's sums: one elementwise block of as many elements, or "".
std::string epilogue_of(const PrimFunc& f, const std::string& block) {
  const Buffer out = output_of(*find_block(f, block));
  if (!out || find_param(f, out)) return "";
  const std::vector<std::string> readers = readers_of(f, out);
  if (readers.size() != 1 || is_reduction(*find_block(f, readers[0])) || is_bound(f, readers[0])) return "";
  return classify(f, readers[0]).size == classify(f, block).size ? readers[0] : "";
}

// The reduction and its epilogue in one kernel, the sum a thread's own. Where no epilogue reads it, a copy
// does.
bool bind_reduction(Schedule& s, const std::string& block, bool whole) {
  const Loops loops = classify(s.func(), block);
  if (!loops.simple || loops.spatial.empty()) return false;
  return s.attempt("a thread for each result of " + block, [&](Schedule& t) {
    std::string epilogue = epilogue_of(t.func(), block);
    if (epilogue.empty()) {
      epilogue = block + "_out";
      t(fmt::format("{} = cache_write {} local", epilogue, block));
    } else {
      t(fmt::format("set_scope {} local", output_of(*find_block(t.func(), block))->name));
    }
    const Bound bound = cut(t, block, loops, whole, epilogue);
    t(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, loops.reduced.front()));
    bind_threads(t, block, bound);
  });
}

bool bind_alone(Schedule& s, const std::string& block, bool whole) {
  const Loops loops = classify(s.func(), block);
  if (!loops.simple) {
    const std::vector<LoopInfo> all = loops_of(s.func(), block);
    return !all.empty() && s.attempt("blocks for the outermost loop of " + block, [&](Schedule& t) {
      t(fmt::format("bind {}.{} blockIdx.x", block, all[0].name));
    });
  }
  return !loops.spatial.empty() && s.attempt("a thread for each element of " + block, [&](Schedule& t) {
    bind_threads(t, block, cut(t, block, loops, whole));
  });
}

// Blocks that aren't bound yet, from `name` and what stands before it on, one behind the other.
std::vector<std::string> run_of(const PrimFunc& f, const std::string& name) {
  std::vector<std::string> out;
  bool has = false;
  for (const std::string& b : block_names(f)) {
    if (is_bound(f, b)) {
      if (has) break;
      out.clear();
      continue;
    }
    out.push_back(b);
    has |= b == name;
  }
  return out;
}

// The reduction and the maps behind it that make a number of each result.
std::vector<std::string> with_numbers(const PrimFunc& f, const std::string& reduction) {
  const std::vector<std::string> run = run_of(f, reduction);
  auto at = std::find(run.begin(), run.end(), reduction);
  std::vector<std::string> out = {*at++};
  for (; at != run.end() && !is_reduction(*find_block(f, *at)); ++at) {
    if (classify(f, *at).size != classify(f, reduction).size) break;
    out.push_back(*at);
  }
  return out;
}

void bind_row_works(Schedule& s) {
  for (const std::string& name : block_names(s.func())) {
    const Block* b = find_block(s.func(), name);
    if (!b || !is_reduction(*b) || is_bound(s.func(), name) || library::has_tiles(*b)) continue;
    if (library::skinny_product(s, name, epilogue_of(s.func(), name))) continue;
    if (library::bind_rows(s, run_of(s.func(), name), name) || !library::split_over_blocks(s, name)) continue;
    library::bind_rows(s, {name + "_blocks"}, name + "_blocks");
    library::bind_rows(s, with_numbers(s.func(), name), name);
  }
}

}  // namespace

// Convolutions, while their padding isn't bound by itself; where they can't be tiled it is inlined.
static void tile_convolutions(Schedule& s) {
  for (const std::string& name : block_names(s.func())) {
    const Block* b = find_block(s.func(), name);
    if (!b || is_bound(s.func(), name) || !is_reduction(*b)) continue;
    if (library::split_windows(s, name) || library::tile_windows(s, name, epilogue_of(s.func(), name)))
      continue;
    std::vector<std::string> padding;
    for (const BlockAccess& a : accesses_of(*b))
      for (const std::string& other : block_names(s.func()))
        if (a.read && !a.write && other != name && library::reads_windows(s.func(), name, a.buffer) &&
            output_of(*find_block(s.func(), other)) == a.buffer && !has_math(*find_block(s.func(), other)))
          padding.push_back(other);
    for (const std::string& p : padding) s.try_step("compute_inline " + p);
  }
}

void bind_nests(Schedule& s) {
  for (const std::string& name : block_names(s.func())) {
    if (!find_block(s.func(), name) || is_bound(s.func(), name)) continue;
    const bool reduction = is_reduction(*find_block(s.func(), name));
    if (reduction && library::tile_product(s, name, epilogue_of(s.func(), name))) continue;
    if (reduction && library::bind_columns(s, name, epilogue_of(s.func(), name))) continue;
    if (reduction && (bind_reduction(s, name, true) || bind_reduction(s, name, false))) continue;
    if (!reduction && library::bind_map(s, name)) continue;
    if (bind_alone(s, name, true) || bind_alone(s, name, false)) continue;
    if (!reduction) library::bind_scan(s, name);
  }
}

Trace default_cuda_schedule(const PrimFunc& f, const Target& target) {
  Schedule s(f);
  if (!library::join_products_on_gpu(s, target)) {
    inline_elementwise(s, true);
    tile_convolutions(s);
    bind_row_works(s);
    inline_elementwise(s, false);
    bind_nests(s);
  }
  Trace trace = s.trace();
  trace.func = f.name;
  trace.target = target.name;
  return trace;
}

}  // namespace nestor
