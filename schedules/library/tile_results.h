// Where a tile's results lie: in registers, in a panel on their way, in the output.
#pragma once

#include <string>
#include <vector>

#include "nestor/schedule.h"
#include "nestor/target.h"
#include "schedules/library/analysis.h"
#include "schedules/library/tile.h"

namespace nestor::library {

// The dimension of the reduction's output that has the iterator as a plain index, or -1.
int dim_of(const BlockInfo& b, const Iter* i);

// The iterator of a block that walks dimension `dim` of what it reads; null where none does plainly.
const Iter* iter_over(const BlockInfo& reader, const Buffer& read, int dim);

// The block's first write; null where it has none.
const Access* write_of(const BlockInfo& b);

// The iterator whose neighbours in the output of `writer` are `stride` elements apart; null: none.
const Iter* iter_at(const BlockInfo& writer, int64_t stride);

// Results that lie in the output without a gap, beside those of one iteration of `lanes`.
int64_t run_beside(const BlockInfo& writer, const Iter& lanes);

constexpr int64_t kShortestRun = 4;  // results, or lanes: below, scattered stores are as few

// The dimensions `last` of a temporary go last, in that order; the others stay in theirs. They go in whole
// vectors where `vector` isn't 1, which takes one `last`.
void lay_last(Schedule& s, const Buffer& buffer, const std::vector<int>& last, int64_t vector = 1);

// Has `w` write past the caches what a tile of a sum of so many terms made, where that pays; row: the
// iterator of w, null for none, that walks the rows of a tile; see stream_output.cpp.
bool stream_output(Schedule& s, const BlockInfo& w, const Iter* row, int64_t terms, const Target& target);

// The loop goes innermost, so that a row is stored by whole vectors.
void lanes_last(Schedule& s, const std::string& block, const std::string& lanes);

// The results of some tiles on their way to the output; see result_panel.cpp.
struct ResultPanel {
  std::vector<const Iter*> held;  // of the reduction, as they lie in the output; empty: no panel
  std::string why;

  // Whether the loop around the reduction walks what the panel holds.
  bool holds(const BlockInfo& b, const std::string& loop) const;
};

// `cut`, if not null, is an iterator of which loops outside the panel's leave but `steps`.
ResultPanel result_panel(const PrimFunc& f, const BlockInfo& b, const std::string& writer, const Tile& t,
                         const Iter* cut, int64_t steps, const Target& target);

// The block that copies registers to the panel, between the reduction and its writer.
std::string add_panel(Schedule& s, const BlockInfo& b, const std::string& writer, const Tile& t,
                      const ResultPanel& panel);

// The writer goes to the loop `loop` of the reduction, outside of which is nothing that the panel holds; it
// stays after all loops where that is empty.
void write_panel(Schedule& s, const BlockInfo& b, const std::string& writer, const Tile& t,
                 const ResultPanel& panel, const std::string& loop);

}  // namespace nestor::library
