// What blocks read and write, seen from the loops around them.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "nestor/schedule.h"
#include "schedules/affine.h"
#include "schedules/nest.h"

namespace nestor::schedules {

// accesses_of (schedule.h) with the indices over loop variables.
std::vector<BlockAccess> accesses_at(const Place& p);
std::vector<BlockAccess> accesses_at(const Place& p, const BufferTest& wanted);
VarMap bindings_of(const Block& b);

// An S iterator that the block's work doesn't use: it only says which instances run, such as the guard of a
// tail.
bool is_guard(const Block& b, const IterVar& i);

// Ranges of the loops on the path: [0, extent), unbounded above where the extent is symbolic.
Interval range_of_loop(const Stmt& loop);
Facts facts_at(const Place& p);
// The symbolic sizes in the extents of loops and iterators around: they stand still.
std::unordered_set<Var> sizes_at(const Place& p);
// The loop runs over a size that is an expression of these alone.
bool is_open(const Stmt& loop, const std::unordered_set<Var>& sizes);

// The blocks that write or read a buffer, in program order.
std::vector<Place> writers(const PrimFunc& f, const Buffer& b);
std::vector<Place> readers(const PrimFunc& f, const Buffer& b);
bool writes(const Block& b, const Buffer& buffer);
bool reads(const Block& b, const Buffer& buffer);
std::vector<Buffer> read_buffers(const Block& b);

// What kind of definition a block is: the ground on which it may be moved or computed again.
enum class BlockKind : uint8_t {
  map,        // stores only, reads nothing that it writes, each instance writes elements of its own
  reduction,  // one Update, perhaps an init of the same element, each S point an element of its own
  other
};
struct BlockInfo {
  BlockKind kind = BlockKind::other;
  std::string why;  // it is `other`
  Buffer out;       // the buffer it writes (map: if only one)
  const Update* update = nullptr;
};
BlockInfo inspect(const Block& b);

// True if iterations of the loops `moving` (some of p's) run different instances of the block, with the other
// loops standing still.
bool distinct_instances(const Place& p, const std::vector<Stmt>& moving);

// Where a buffer is declared as seen from a place: the index of its Alloc in the path, -1 for the function,
// or nothing where the place can't see it.
std::optional<int> declared_at(const PrimFunc& f, const std::vector<Stmt>& path, const Buffer& b);

// Kind of a loop for a block: used by bindings of S iterators, of R iterators, both or none (guards don't
// count).
struct LoopUse {
  bool spatial = false, reduce = false;
};
LoopUse use_of(const Block& b, const Var& loop);
// The S iterator of the results that is bound to the loop as it is, or null. Such a loop stands still while a
// reduction runs, so R iterators may speak of it; own_use_of doesn't count that.
const IterVar* bound_to(const Block& b, const Var& loop);
LoopUse own_use_of(const Block& b, const Var& loop);

// The bindings of all blocks inside, simplified with the ranges of the loops inside and of `facts`.
Stmt simplify_bindings(const Stmt& s, Facts facts);

bool is_temporary(const PrimFunc& f, const Buffer& b);
BufferDecl decl_of(const PrimFunc& f, const Buffer& b);

// The iterator is 0 where all loops around the block are: for R iterators, where the init runs.
bool begins_at_zero(const Place& p, const IterVar& i);
// It may be below 0 where the loops of R iterators alone are 0: its first tile begins before it.
bool begins_below_zero(const Place& p, const IterVar& i);

}  // namespace nestor::schedules
