// Along which two iterators a map's tiles are turned in registers (turn_map.cpp).
#pragma once

#include "nestor/target.h"
#include "schedules/library/analysis.h"

namespace nestor::library {

struct Turn {
  const Iter *lanes = nullptr, *rows = nullptr;
  const Iter* written = nullptr;  // unrolled besides the rows: what is written is interleaved along it
};

// The cheapest pair, or three; rows is null where none is cheaper than lanes alone. Of rows as cheap, those
// nearest in what is written: lines of an image, not channels, each another page. (Cascade Lake, Col2Im of
// 5x5x5 taps, strides of 4, on 14x4x5: 10.4 to 4.5 ms; of 5x5, strides of 2, on 14x47: 20 to 4.)
Turn choose_turn(const BlockInfo& b, const Target& target);

// Whether the few elements along r fill what lies between two along l.
bool leaves_no_gaps(const Access& a, const Iter& l, const Iter& r);

}  // namespace nestor::library
