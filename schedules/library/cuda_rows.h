// Row-wise works on a GPU: reductions over rows and the maps between them (softmax, norms, means) in one
// kernel.
#pragma once

#include <string>
#include <vector>

#include "nestor/schedule.h"
#include "schedules/library/analysis.h"

namespace nestor::library {

// One block of a group, its loops told apart: those that number the rows, in one order for all blocks, and
// those within a row.
struct RowBlock {
  BlockInfo info;
  std::vector<const Iter*> rows, inner;
  std::vector<std::string> units;  // loops of one iteration
  int64_t length = 1;              // of a row
};

// Neighbouring blocks that compute row by row from row results that all of them index alike.
struct RowGroup {
  std::vector<RowBlock> blocks;
  int64_t rows = 1;
  bool along_row = true;  // neighbours in memory are neighbours in a row, or are rows
  const RowBlock& longest() const;
};

// The group around the reduction `block`, of `candidates` in program order, which stand in nests of their own
// one behind the other; empty where the block is no reduction of rows.
RowGroup row_group(const PrimFunc& f, const std::vector<std::string>& candidates, const std::string& block);

// Threads of a row, and rows of a block.
struct RowShape {
  int64_t threads = 32, rows = 1;
};
constexpr int64_t kRowBlock = 128;  // threads of a block of short rows
// More threads where there are few rows, so that all multiprocessors have some. A thread takes `piece`
// elements at once.
RowShape row_shape(const RowGroup& g, int64_t elements, int64_t piece);

// Schedules the group as one kernel; false, and s as it was, where it can't be.
bool bind_rows(Schedule& s, const std::vector<std::string>& candidates, const std::string& block);

}  // namespace nestor::library
