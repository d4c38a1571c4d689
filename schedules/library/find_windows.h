// What a convolution is made of, as its schedule for a GPU sees it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nestor/ir.h"
#include "schedules/library/cuda_windows.h"

namespace nestor::library::windows {

struct Iter {
  Var var;  // null: none
  int64_t extent = 1;
  std::string loop;
};
struct Windows {
  Buffer out, weights, image;
  size_t out_o = 0, out_y = 0, out_x = 0, weights_o = 0, image_o = 0;  // dimensions
  size_t image_dims = 0, weights_dims = 0;
  Iter o, y, x, c, r, s;
  std::vector<Iter> outer, taps;  // images and groups; taps of further dimensions
  WindowSizes sizes;
};

// Nothing where the block is no convolution of plain loops.
std::optional<Windows> windows_of(const Block& block);

}  // namespace nestor::library::windows
