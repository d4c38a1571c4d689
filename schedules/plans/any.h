// The family `any`: plans for every nest.
//
// Blocks stand alone, or with others: a map is inlined where it is read, a producer is computed at a loop of
// its reader (a tile of it at a time, so that what a stencil reads twice comes from a cache or registers), a
// map that reads a reduction's result is computed where that is complete. The nest of a block that stands
// alone is, from the outside in,
//
//   parallel tiles | tiles that stay in a cache | the reduction, some steps at once | registers | lanes
//
// with a size for each spatial loop at each level. Lanes go along any loop, also a reduction's. Results of a
// reduction are kept in registers until it is complete. Constants may be laid out in the order in which tiles
// read them.
#pragma once

#include <map>

#include "schedules/library/analysis.h"
#include "schedules/plans/families.h"

namespace nestor::plans {

// What a plan says of one block.
struct BlockPlan {
  std::string place = "root";  // "root", "inline", "outer" or "tile": of its reader, or of whom it reads
  std::string lanes = "none";  // a loop
  int64_t width = 1;           // lanes, in vectors
  std::map<std::string, int64_t> tile;   // by spatial loop: iterations of the level below registers
  std::map<std::string, int64_t> inner;  // by spatial loop: in registers; by reduction loop: at once
  int64_t parallel = 0;                  // so many outer loops
  std::string tail = "peel";
  bool local = true;                // results in registers
  std::vector<std::string> packed;  // constants
};

// A block and how it can be put with others.
struct PlanBlock {
  library::BlockInfo info;
  std::string reads;         // the reduction that it alone reads and may be computed with; empty: none
  bool keeps_order = false;  // its loops stay as they are
  bool moves = false;        // it has one reader, and may be computed there
  std::vector<std::string> constants;  // that can be laid out by lanes
  int64_t lanes = 1;                   // of a vector of its results
};
std::vector<PlanBlock> plan_blocks(const PrimFunc& f, const Target& target);

// Steps for the blocks as they are planned, one plan per block. Throws ScheduleError.
Trace emit_any(const PrimFunc& f, const std::vector<PlanBlock>& blocks, const std::vector<BlockPlan>& plans);

}  // namespace nestor::plans
