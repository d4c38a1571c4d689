// What compute_at and reverse_compute_at share: the new loops of a block that moves under a loop.
#pragma once

#include "schedules/access.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

// The part of an iterator's domain that must run under the loop: [base, base + extent), cut by the domain as
// ever.
struct IterSpan {
  Expr base;
  Expr extent;
};
IterSpan whole(const IterVar& i);
IterSpan exact_span_of(const Bound& b, const IterVar& i);  // runs no other instances
IterSpan span_of(const Bound& b, const IterVar& i);  // the whole domain where that is no more iterations

// The block with new loops, one per iterator, S before R. Guards fall away with the loops that they guarded;
// those over loops that are around the new place stay. Loops of S iterators are named by the step's results,
// or after their iterators. `guards` are added, with fresh variables; in them an iterator's variable stands
// for its new loop.
Stmt rebuild(const StepContext& ctx, const Place& p, const std::vector<IterSpan>& spans, const Stmt& loop,
             std::vector<IterVar> guards = {});
size_t count_spatial(const Block& b);  // without guards
// The guards of a block below `loop` that only loops down to it decide: where they don't hold nothing of the
// block runs. Loops of `steps` count too, under the names that it gives them.
std::vector<IterVar> standing_guards(const Place& q, const Stmt& loop, const VarMap& steps = {});

// The block's buffers can be seen from the loop's body, and live there at least as long as `out`.
void check_visible(const StepContext& ctx, int requirement, const Place& p, const LoopRef& loop);

size_t order_of(const std::vector<Place>& all, const Stmt& block);  // its index in program order

// body with `added` before the first child that holds one of `others`, or behind the last one.
Stmt insert_before(const Stmt& body, const std::vector<Stmt>& others, const Stmt& added);
Stmt insert_after(const Stmt& body, const std::vector<Stmt>& others, const Stmt& added);

// Declares `decl` where b is declared: in the same allocation's body, or for the whole function.
PrimFunc declare_beside(PrimFunc f, const Buffer& b, const BufferDecl& decl);

// A loop of `f` by its variable, after edits made new handles.
Stmt loop_with(const PrimFunc& f, const Var& v);

}  // namespace nestor::schedules
