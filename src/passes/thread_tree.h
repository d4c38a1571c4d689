// A reduction over the results of a block's threads (primitive reduce_threads) as a tree of shuffles.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "nestor/ir.h"

namespace nestor::passes {

struct ThreadDimension {
  Var var;
  int64_t extent = 0;  // 0: no loop of the kernel is bound to it
};
using ThreadGroup = std::array<ThreadDimension, 3>;  // of one block: z, y, x

// True for a loop that reduce_threads marked.
bool reduces_threads(const For& loop);

// Of a marked loop, all threads of a row (those that differ only in x) together, each with its own iteration.
// `temporaries` get the buffers that it needs, `guard` says which threads store the result, of a block that
// does. Throws ScheduleError where the loop holds something else, or the threads aren't a power of two.
Stmt thread_tree(const For& loop, const ThreadGroup& threads, const std::function<Stmt(const Stmt&)>& guard,
                 std::vector<BufferDecl>& temporaries);

// Trees of a scheduled function as expressions over what the threads have, in the order of the shuffles and
// equal to the last bit but for the sign of a zero that is a maximum or minimum: for the interpreter, whose
// threads run one after the other. To be done before lowering.
PrimFunc without_thread_trees(const PrimFunc& f);

}  // namespace nestor::passes
