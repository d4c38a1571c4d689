// The end of a search: compares the fastest candidates with the default, in turns on one worker, so that a
// lucky sample or a drifting clock isn't taken for a gain.
#pragma once

#include <functional>
#include <vector>

#include "nestor/tune.h"

namespace nestor {

struct Final {
  bool compared = false;  // else the comparison was cut short, or a side failed
  size_t winner = 0;      // of the contestants; 0 is the default
  double default_ns = 0, winner_ns = 0;
  double noise = 0;  // half of the range of the middle half of the pairs' ratios, relative
};

// How many jobs that takes with so many contestants, the default included.
size_t jobs_of_final(size_t contestants);

// The first contestant is the default. Of several others the fastest in a few rounds meets it in pairs, and
// wins if it is faster in all of them but one, by 2 % in the middle.
// All are measured by one worker of the pool; once `stop` is true no longer.
Final decide(const std::vector<Job>& contestants, WorkerPool& pool, int worker,
             const std::function<bool()>& stop);

}  // namespace nestor
