// Our kernel for several threads beside ours for one.
#pragma once

#include <vector>

#include "bench/cpu/copy.h"
#include "bench/cpu/ours.h"
#include "bench/cpu/pairs.h"

namespace nestor::bench {

struct Gain {        // both times of one thread / times of all
  Interval ours;     // the work
  Interval machine;  // what as many threads bring work that nothing of ours holds up
};

// `ours` is the kernel for `settings.threads`. The machine's: where memory binds, `copy` isn't null, the copy
// shared by all threads; else the one-thread kernel at once on each, with nothing in common.
//
// Elsewhere on a machine shared with others a neighbour slows a core for half a second at a time, and few
// kernels as much as those that live on its caches. The rounds that count are the third in which the
// machine's own threads took the least, whatever the work for several took in them; while even the best that
// one and all took tells of neighbours the rounds go on, four times as long at most. Intervals are of those
// rounds, and don't know that they were chosen.
Gain gain_of_threads(const Problem& p, const Ours& ours, const Settings& settings, Copy* copy);

}  // namespace nestor::bench
