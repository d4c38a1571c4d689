// The lowering passes, one file each; src/passes/pipeline.cpp has their order.
#pragma once

#include "nestor/passes.h"

namespace nestor::passes {

PrimFunc lower_instructions(const PrimFunc& f, const Target& target);
PrimFunc flatten_blocks(const PrimFunc& f, const Target& target);
PrimFunc keep_in_output(const PrimFunc& f, const Target& target);
PrimFunc apply_layouts(const PrimFunc& f, const Target& target);
PrimFunc compact(const PrimFunc& f, const Target& target);
PrimFunc lower_init(const PrimFunc& f, const Target& target);
PrimFunc lower_blocks(const PrimFunc& f, const Target& target);
PrimFunc lower_updates(const PrimFunc& f, const Target& target);
PrimFunc insert_prefetches(const PrimFunc& f, const Target& target);
PrimFunc flatten_buffers(const PrimFunc& f, const Target& target);
PrimFunc share_prefetches(const PrimFunc& f, const Target& target);
PrimFunc partition_loops(const PrimFunc& f, const Target& target);
PrimFunc hoist_guards(const PrimFunc& f, const Target& target);
PrimFunc vectorize(const PrimFunc& f, const Target& target);
PrimFunc unroll(const PrimFunc& f, const Target& target);
PrimFunc bind_sizes(const PrimFunc& f, const Target& target);
PrimFunc unswitch_loops(const PrimFunc& f, const Target& target);
PrimFunc promote_local(const PrimFunc& f, const Target& target);
PrimFunc transpose_tiles(const PrimFunc& f, const Target& target);
PrimFunc contract_fma(const PrimFunc& f, const Target& target);
PrimFunc near_gathers(const PrimFunc& f, const Target& target);
PrimFunc share_loads(const PrimFunc& f, const Target& target);
PrimFunc expand_math(const PrimFunc& f, const Target& target);
PrimFunc replace_fma(const PrimFunc& f, const Target& target);
PrimFunc merge_threads(const PrimFunc& f, const Target& target);
PrimFunc split_lanes(const PrimFunc& f, const Target& target);
PrimFunc insert_barriers(const PrimFunc& f, const Target& target);

}  // namespace nestor::passes
