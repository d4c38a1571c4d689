// The family `any`: plans for every nest.
//
// A block stays alone or joins others. A map can be inlined into its reader. A producer can be computed at a
// loop of its reader: a tile at a time, so that what a stencil reads twice comes from a cache or registers;
// or by a sliding window, each row once, just before it is read. A map that reads a reduction's result can be
// computed where that is complete. The nest of a block that stays alone is, from the outside in,
//
//   parallel tiles | k-blocks for a cache | tiles for a cache | the reduction, unrolled | registers | lanes
//
// with a size for each spatial loop at each level. Lanes can go along any loop, also a reduction's. Results
// of a reduction are kept in registers until it, or its k-block, is complete. What many tiles read may be
// packed in the order in which they read it. The remainder of the vectorized loop may be a block of its own,
// vectorized along another loop.
#pragma once

#include <map>

#include "schedules/library/analysis.h"
#include "schedules/plans/families.h"

namespace nestor::plans {

// What a plan says of one block.
struct BlockPlan {
  // "root"; "inline", "outer", "tile" or "slide": of its reader; "follow-outer", "follow-tile": of whom it
  // reads.
  std::string place = "root";
  std::string lanes = "none";            // a loop
  int64_t width = 1;                     // lanes, in vectors
  std::map<std::string, int64_t> tile;   // by spatial loop: iterations of the level below registers
  std::map<std::string, int64_t> inner;  // by spatial loop: in registers; by reduction loop: at once
  std::string outermost, nearest;        // spatial loops: of those over tiles, the first and the last
  int64_t steps = 0;                     // of the longest reduction loop, that stay in a cache; 0: all
  bool steps_outside = false;            // of all tiles but those of `outermost`
  int64_t parts = 1;                     // of that loop, each a sum of its own, for threads
  bool sums = false;                     // steps at once, too, have sums of their own
  bool fused = false;                    // the loops of PlanBlock::dense are one
  bool rest = false;                     // what whole vectors leave of the lanes' loop is a block of its own
  int64_t parallel = 0;                  // so many outer loops
  std::string tail = "peel";
  bool local = true;                // results in registers
  bool stream = false;              // results go past the caches
  std::vector<std::string> packed;  // constants and copies of inputs

  bool follows() const { return place.starts_with("follow"); }
  bool goes() const { return place == "outer" || place == "tile" || place == "slide"; }
};

// A block and how it can be put with others.
struct PlanBlock {
  library::BlockInfo info;
  std::string reads;         // the reduction that it alone reads and may be computed with; empty: none
  bool keeps_order = false;  // its loops stay as they are
  bool moves = false;        // it may be computed where it is read
  std::vector<std::string> readers;    // in their order
  std::vector<std::string> along;      // loops of its only one along which that reads elements several times
  std::vector<std::string> constants;  // that can be laid out by lanes
  std::vector<std::string> inputs;     // that many tiles read, which can be copied
  std::string longest;                 // reduction loop; empty: none
  std::vector<std::string> dense;      // loops that every access walks as if they were one; empty: no two
  int64_t lanes = 1;                   // of a vector of its results

  bool is_constant(const std::string& buffer) const;
  // Lanes can go along the loop: neighbours there are neighbours in memory somewhere, or can be laid out so.
  bool has_lanes(const library::Iter& i) const;
  // Iterations of a loop that fill no vector, where they are few beside whole vectors; else 0.
  int64_t rest_of(const library::Iter& i) const;
};
std::vector<PlanBlock> plan_blocks(const PrimFunc& f, const Target& target);

// The choices there are for a block, and what a plan says of it.
void add_fields(const PlanBlock& block, const Target& target, std::vector<PlanField>& fields);
BlockPlan read_fields(const PlanBlock& block, const std::map<std::string, std::string>& said);

// Steps for the blocks as they are planned, one plan per block. Throws ScheduleError.
Trace emit_any(const PrimFunc& f, const std::vector<PlanBlock>& blocks, const std::vector<BlockPlan>& plans);

}  // namespace nestor::plans
