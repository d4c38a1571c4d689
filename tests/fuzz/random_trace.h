// Random legal traces: primitives with random arguments, of which the accepted ones are kept.
#pragma once

#include <map>
#include <random>
#include <string>

#include "nestor/schedule.h"

namespace nestor {

struct TraceCounts {
  struct Row {
    int64_t accepted = 0, refused = 0;
  };
  std::map<std::string, Row> rows;  // by primitive
};
std::string print(const TraceCounts& counts);  // a table

// A schedule of about `wanted` accepted steps. Primitives that were accepted least so far are proposed more
// often.
Schedule random_schedule(const PrimFunc& f, int wanted, std::mt19937_64& rng, TraceCounts& counts);

}  // namespace nestor
