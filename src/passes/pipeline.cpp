// The list of lowering passes, from top to bottom. Each row says what holds after its pass.
//
// The order matters. Regions are analysed while blocks still mark reductions. Layouts are applied before
// vectorizing. FMAs are formed before math functions are expanded, because the rounding in those expansions
// must not change.
#include <algorithm>
#include <chrono>
#include <iostream>

#include "nestor/check.h"
#include "nestor/error.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/simplify.h"
#include "nestor/unwanted.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"

namespace nestor {

namespace {

PrimFunc run_simplify(const PrimFunc& f, const Target&) {
  return simplify(f, {.drop_unit_loops = true});
}

PrimFunc run_simplify_and_drop(const PrimFunc& f, const Target&) {
  return simplify(f, {.drop_unit_loops = true});
}

const char* const kSimplified = "indices and guards are in simplest form";

const std::vector<Pass> kCpu = {
    {"lower_instructions", "tensorized blocks are calls of hardware instructions",
     passes::lower_instructions},
    {"flatten_blocks", "no block is inside another one", passes::flatten_blocks},
    {"keep_in_output", "temporaries share an output's memory where the schedule says so (in_place)",
     passes::keep_in_output},
    {"compact", "temporaries have the size that one iteration uses, and are allocated there",
     passes::compact},
    {"lower_init", "a block's init is guarded by its reduction iterators being 0", passes::lower_init},
    {"lower_blocks", "loops and ifs instead of blocks", passes::lower_blocks},
    {"lower_updates", "X = X op v instead of X op= v", passes::lower_updates},
    {"insert_prefetches", "loops prefetch for later iterations", passes::insert_prefetches},
    {"flatten_buffers", "buffers are one-dimensional, with their layouts applied", passes::flatten_buffers},
    {"simplify", kSimplified, run_simplify},
    {"share_prefetches", "prefetches for outer loops are spread over the iterations of inner loops",
     passes::share_prefetches},
    {"partition_loops", "peeled loops are split into full tiles without guards and a partial rest",
     passes::partition_loops},
    {"hoist_guards", "guards are as far out as possible, or are bounds of their loop", passes::hoist_guards},
    {"vectorize", "vectorized loops are vectors of native width, masked where needed", passes::vectorize},
    {"unroll", "unrolled loops are replaced by their iterations", passes::unroll},
    {"simplify", kSimplified, run_simplify},
    {"unswitch_loops", "innermost loops have no invariant conditions", passes::unswitch_loops},
    {"promote_local", "local buffers are registers", passes::promote_local},
    {"transpose_tiles", "tiles that are read or written by columns are transposed in registers",
     passes::transpose_tiles},
    {"contract_fma", "a*b + c is one fma, rounded once", passes::contract_fma},
    {"near_gathers", "gathers of nearby lanes are vector loads and shuffles", passes::near_gathers},
    {"share_loads", "straight-line code loads each element once", passes::share_loads},
    {"expand_math", "exp and similar functions of f32 are polynomials", passes::expand_math},
    {"replace_fma", "without hardware FMA, fma of f32 is computed in f64", passes::replace_fma},
    {"simplify", kSimplified, run_simplify},
    {"bind_sizes", "what depends on open sizes alone is computed once", passes::bind_sizes},
};

const std::vector<Pass> kCuda = {
    {"lower_instructions", "tensorized blocks are calls of hardware instructions",
     passes::lower_instructions},
    {"flatten_blocks", "no block is inside another one", passes::flatten_blocks},
    {"merge_threads", "one nest of block and thread loops around each kernel", passes::merge_threads},
    {"apply_layouts", "a thread's own buffers are indexed by their layouts", passes::apply_layouts},
    {"compact", "temporaries have the size that one iteration uses, and are allocated there",
     passes::compact},
    {"lower_init", "a block's init is guarded by its reduction iterators being 0", passes::lower_init},
    {"lower_blocks", "loops and ifs instead of blocks", passes::lower_blocks},
    {"lower_updates", "X = X op v instead of X op= v", passes::lower_updates},
    {"insert_barriers", "there are barriers where threads exchange values", passes::insert_barriers},
    {"insert_prefetches", "loops prefetch for later iterations", passes::insert_prefetches},
    {"flatten_buffers", "buffers are one-dimensional, with their layouts applied", passes::flatten_buffers},
    {"simplify", kSimplified, run_simplify},
    {"share_prefetches", "prefetches for outer loops are spread over the iterations of inner loops",
     passes::share_prefetches},
    {"hoist_guards", "guards are as far out as possible, or are bounds of their loop", passes::hoist_guards},
    {"vectorize", "vectors of at most 16 bytes, masks for lanes that must not run", passes::vectorize},
    {"unroll", "unrolled loops are replaced by their iterations", passes::unroll},
    {"simplify", kSimplified, run_simplify},
    {"split_lanes", "vectors are only loads and stores of neighbours", passes::split_lanes},
    {"contract_fma", "a*b + c is one fma, rounded once", passes::contract_fma},
    {"expand_math", "exp and similar functions of f32 are polynomials", passes::expand_math},
    {"simplify", "indices and guards are in simplest form, without loops of one iteration",
     run_simplify_and_drop},
};

// A misspelled --dump-after must not pass for a pass that changed nothing.
void check_names(const std::vector<Pass>& passes, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == "all") continue;
    if (std::any_of(passes.begin(), passes.end(), [&](const Pass& p) { return p.name == name; })) continue;
    std::string known;
    for (const Pass& p : passes)
      if (known.find(p.name) == std::string::npos) known += std::string(known.empty() ? "" : " ") + p.name;
    throw UserError(Diagnostic{"there is no pass `" + name + "`", {}, {}, "passes: " + known + ", or all"});
  }
}

}  // namespace

const std::vector<Pass>& pipeline(TargetKind kind) {
  return kind == TargetKind::cuda ? kCuda : kCpu;
}

PrimFunc lower(const PrimFunc& f, const Target& target, const LowerOptions& options) {
  const std::vector<Pass>& list = pipeline(target.kind);
  check_names(list, options.dump_after);
  const auto dumped = [&](const Pass& p) {
    return std::any_of(options.dump_after.begin(), options.dump_after.end(),
                       [&](const std::string& n) { return n == "all" || n == p.name; });
  };
  PrimFunc current = f;
  for (const Pass& pass : list) {
    check_wanted();
    const auto start = std::chrono::steady_clock::now();
    PrimFunc next = pass.run(current, target);
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    if (options.check) check_well_formed(next);
    if (options.on_pass || dumped(pass)) {
      const bool changed = !structural_equal(current, next);
      if (options.on_pass) options.on_pass(pass, next, ms.count(), changed);
      if (dumped(pass)) {
        const std::string text = changed ? print(next) : "(unchanged)\n";
        if (options.on_dump)
          options.on_dump(pass, text);
        else
          std::cerr << "# after " << pass.name << ": " << pass.summary << "\n" << text;
      }
    }
    current = std::move(next);
  }
  return current;
}

}  // namespace nestor
