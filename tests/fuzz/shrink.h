// The smallest case that still fails in the same way: fewer steps, smaller extents, fewer blocks.
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/campaign.h"

namespace nestor {

// A case as plain data, so that any part can be changed and the rest tried again.
struct SmallCase {
  int function = 0;
  Sizes sizes;
  std::vector<std::string> without;  // blocks taken out, see remove_block
  std::vector<std::string> steps;
  std::string road;
  uint64_t seed = 1;
  double tolerance = 0;
  std::string open;     // letters of symbolic dimensions
  OpenSizes at = {{}};  // values of these

  PrimFunc func() const;
};
SmallCase small_case(const Failure& failure, const CampaignOptions& options);

// In a process of its own: what becomes of the case, "crash" included. Nothing where the function itself
// makes no sense.
Finding try_case(const SmallCase& c, const Roads& roads);

struct Shrunk {
  SmallCase small;
  Finding verdict;
  int tried = 0;
};
Shrunk shrink(const Failure& failure, const CampaignOptions& options, const Roads& roads,
              double seconds = 60);

// DIR/STEM.nest and DIR/STEM.sched, for `nestor verify STEM.nest --schedule STEM.sched` and for replay_files.
std::vector<std::string> write_case(const SmallCase& c, const Finding& v, const std::string& dir,
                                    const std::string& stem);
Finding replay_files(const std::string& sched, const Roads& roads);

// The function without a block: what it wrote becomes an input, what only it read goes, what is read no more
// becomes an output.
PrimFunc remove_block(const PrimFunc& f, const std::string& block);

}  // namespace nestor
