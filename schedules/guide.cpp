#include "schedules/guide.h"

#include "nestor/error.h"

namespace nestor::schedules {

const std::vector<Group>& guide() {
  static const std::vector<Group> groups = {
      {"Loops",
       {{"split",
         "The first step of nearly everything: tiles for registers and caches, vectors, pieces for threads.",
         "`split`", "`split`"},
        {"fuse",
         "An outer loop is too short for all threads, or a copy should be divided evenly among GPU threads.",
         "`fuse`", "`fuse`"},
        {"reorder",
         "The inner loop should run along contiguous memory, or a tile's loops should be inside of the "
         "reduction.",
         "`reorder`", "`reorder`"},
        {"tile", "Shorter than several splits and a reorder.", "`split` and `reorder`", "`tile`"},
        {"fission",
         "Statements in one loop need different schedules, or one of them prevents vectorizing the others.",
         "", ""},
        {"merge",
         "Two loops over the same range read the same data: merged, they read it from a cache once. Often "
         "`compute_at` is the simpler way.",
         "`merge`", "`compute_with`"},
        {"loop_partition",
         "The border needs a condition that the interior doesn't, as in a padded convolution, or parts of a "
         "range need different schedules.",
         "`loop_partition`", "`partition`"},
        {"add_unit_loop",
         "A step needs a loop, and there is none: binding a scalar block to a GPU, or a place for "
         "`compute_at`.",
         "`add_unit_loop`", ""}}},
      {"Threads and vectors",
       {{"parallel",
         "Work of more than some microseconds on a CPU; the outermost loop that has no conflicts.",
         "`parallel`", "`parallel`"},
        {"vectorize", "The innermost loop, along contiguous memory, with the lanes of one or a few vectors.",
         "`vectorize`", "`vectorize`"},
        {"unroll", "Loops of a register tile, since registers can't be indexed, and short inner loops.",
         "`unroll`", "`unroll`"},
        {"bind", "Every kernel for a GPU.", "`bind`", "`gpu_blocks`, `gpu_threads`"},
        {"reduce_threads",
         "On a GPU a reduction is long, or there are too few results to keep all threads busy.",
         "`rfactor` and `bind`", "`rfactor` and `gpu_threads`"}}},
      {"Where a block is computed",
       {{"compute_at",
         "A producer's values should be in a cache, in registers or in shared memory when they are read.",
         "`compute_at`", "`compute_at`"},
        {"reverse_compute_at",
         "An epilogue (bias, activation) or the copy of `cache_write` should use a tile before it leaves the "
         "registers.",
         "`reverse_compute_at`", "`compute_at` of the producer"},
        {"compute_inline", "A producer is cheap, or read once: a padded or converted input, a scaled value.",
         "`compute_inline`", "`compute_inline`"},
        {"reverse_compute_inline", "An elementwise consumer of a block that isn't a reduction.",
         "`reverse_compute_inline`", ""}}},
      {"Memory",
       {{"cache_read",
         "A GPU block should copy its inputs to shared memory, or a CPU should read a contiguous copy of a "
         "tile.",
         "`cache_read`", "`in`"},
        {"cache_write", "Results should stay in registers until they are complete.", "`cache_write`",
         "`in` of the result"},
        {"set_scope", "A temporary that exists already should be in registers or in shared memory.",
         "`set_scope`", "`store_in`"},
        {"transform_layout",
         "Weights should be packed in the order in which they are read, or a temporary needs a blocked "
         "layout.",
         "`transform_layout`", "`reorder_storage`"},
        {"pack",
         "An input is read several times with a large stride: a packed panel, as in BLIS. `cache_read`, "
         "`compute_at` and `transform_layout` in one step.",
         "`cache_read`, `compute_at`, `transform_layout`", "`in`, `compute_at`, `reorder_storage`"},
        {"reindex",
         "A buffer is indexed by sums of iterators, and `tensorize` needs one index for each (im2col).",
         "`reindex`", ""},
        {"split_buffer", "After `loop_partition`, the parts of a temporary should have scopes of their own.",
         "", ""},
        {"storage_align", "Threads of a GPU have bank conflicts in shared memory.", "`storage_align`",
         "`align_storage`"},
        {"prefetch", "Data comes from L3 or memory in an order that the hardware prefetcher doesn't follow.",
         "", "`prefetch`"},
        {"software_pipeline",
         "A GPU block waits for its copies to shared memory: the next copies overlap with computing.",
         "the annotation `software_pipeline_stage`", "`async`"}}},
      {"Reductions",
       {{"decompose_reduction",
         "Nearly every reduction: it removes the check for the first term. It comes last, or just before the "
         "R loop is vectorized.",
         "`decompose_reduction`", "the pure definition is a stage of its own"},
        {"rfactor",
         "A long reduction with few results should use several threads, or several chains of additions.",
         "`rfactor`", "`rfactor`"},
        {"skip_zeros",
         "A sum over a padded input, where many terms are zero: transposed convolutions and pooling borders.",
         "", ""},
        {"pad_einsum",
         "Sizes that an instruction or a tile doesn't divide: the padding costs less than the partial tiles.",
         "`pad_einsum`", ""}}},
      {"Hardware instructions",
       {{"blockize", "A tile should move as a unit; `tensorize` does it by itself.", "`blockize`", ""},
        {"tensorize",
         "The processor has an instruction for the tile, such as a dot product of bytes or a tensor core's "
         "product.",
         "`tensorize`", ""}}},
      {"Decisions for the tuner",
       {{"sample_factors", "The sizes of tiles should be searched.", "`sample_perfect_tile`", ""},
        {"sample_choice", "Any other number or word should be searched.", "`sample_categorical`", ""},
        {"sample_location", "The place of a block should be searched.", "`sample_compute_location`", ""}}},
      {"Hints",
       {{"annotate",
         "Fine tuning of what lowering does: non-temporal stores, peeled borders, chains of sums, static "
         "division among threads.",
         "`annotate`", ""}}}};
  return groups;
}

const Advice& advice_on(const std::string& primitive) {
  for (const Group& g : guide())
    for (const Advice& a : g.primitives)
      if (primitive == a.primitive) return a;
  NESTOR_CHECK(false) << "schedules/guide.cpp has no line for " << primitive;
  return guide().front().primitives.front();
}

}  // namespace nestor::schedules
