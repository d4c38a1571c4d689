// Elementwise producers move into their consumers where that costs no repeated work that matters.
#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

// How often a consumer reads each element: the product of the iterators that its access doesn't move with,
// and of taps.
bool reads_repeatedly(const BlockInfo& consumer, const Buffer& buffer) {
  int count = 0;
  for (const Access& a : consumer.accesses) {
    if (a.buffer != buffer || a.write) continue;
    ++count;
    for (const Iter& i : consumer.iters)
      if (i.extent > 1 && !a.uses(i)) return true;
    // A window: an S and an R iterator in one index.
    for (const Expr& e : a.indices) {
      bool spatial = false, reduce = false;
      for (const Iter& i : consumer.iters)
        if (i.extent > 1 && uses_var(e, i.var)) (i.reduce ? reduce : spatial) = true;
      if (spatial && reduce) return true;
    }
  }
  return count > 1;
}

bool worth_inlining(const PrimFunc& f, const BlockInfo& b) {
  if (b.reduction || b.output_is_param) return false;
  const std::vector<std::string> readers = readers_of(f, b.output);
  const bool dear = b.has_math || b.has_select || b.accesses.size() > 4;
  for (const std::string& r : readers)
    if (reads_repeatedly(analyze(f, r), b.output) && dear) return false;
  return !readers.empty() && (readers.size() == 1 || !dear);
}

}  // namespace

void inline_producers(Schedule& s) {
  for (const std::string& name : block_names(s.func()))
    if (find_block(s.func(), name) && worth_inlining(s.func(), analyze(s.func(), name)))
      s.try_step("compute_inline " + name);
}

}  // namespace nestor::library
