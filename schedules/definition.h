// A block that defines its buffer as one expression of the indices: such blocks can be inlined, copied and
// replaced.
#pragma once

#include "schedules/access.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

struct Definition {
  const Store* store = nullptr;
  std::vector<int> iterator_of_dim;  // -1: the index is a constant
};
// The block as one store at distinct plain iterators (or constants), with iterators beside those only of
// extent 1; `why` says what else it is.
std::optional<Definition> definition_of(const Block& b, std::string* why);

// Every element of the buffer is written by the block: plain iterators over the whole shape, no `where`, and
// loops that are seen to run all instances (a block that compute_at moved runs what is read).
bool writes_whole(const PrimFunc& f, const Place& p, const Buffer& b);

// Over all loops, does what the block writes, a box without gaps, hold [lo, hi] in dimension d? A reader may
// have instances that read nothing (a select guards them) beyond what is written; they would be lost if they
// moved to the writer's loops.
bool reaches(const Place& writer, const Buffer& b, size_t d, int64_t lo, int64_t hi);

PrimFunc without_decl(const PrimFunc& f, const Buffer& b);  // of a temporary, wherever it is declared

// The outermost statement of f's body that holds s, below what is no sequence: the root of s's nest.
Stmt root_of(const PrimFunc& f, const Place& p);
// Forbids (a semantic requirement) what reads b in p before the loops around it: b must be a parameter, or
// written whole before them.
void forbid_incomplete(const StepContext& ctx, int requirement, int arg, const Place& p, const Buffer& b);
// for d0 ..., block NAME { to[d] = from[d] } over the whole shape; loops are named after `stems`.
Stmt copy_nest(const std::string& name, const BufferDecl& to, const Buffer& from,
               const std::vector<std::string>& stems);
// Names for the dimensions of b after the iterators by which the block accesses it.
std::vector<std::string> dim_stems(const Block& block, const BufferDecl& b);

}  // namespace nestor::schedules
