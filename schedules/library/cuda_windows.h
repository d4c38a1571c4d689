// Convolutions on a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nestor/schedule.h"
#include "schedules/library/cuda_work.h"

namespace nestor::library {

// Schedules a convolution, depthwise ones too, and the elementwise block that reads it, if `epilogue` isn't
// empty. False, and s as it was, where the block is none, or no tile suits it.
bool tile_windows(Schedule& s, const std::string& block, const std::string& epilogue,
                  int multiprocessors = kMultiprocessors);

// Its sum over channels in two kernels, where the results alone are too few threads. True where it was split:
// the parts are scheduled, and the block is left, a reduction over them.
bool split_windows(Schedule& s, const std::string& block, int multiprocessors = kMultiprocessors);

// Whether a reduction reads the buffer through windows, as a convolution does.
bool reads_windows(const PrimFunc& f, const std::string& block, const Buffer& buffer);

// What decides about a tile.
struct WindowSizes {
  struct Side {
    int64_t extent = 1, taps = 1, stride = 1, dilation = 1;
    // Elements of the image that `n` neighbours see.
    int64_t seen(int64_t n) const { return (n - 1) * stride + (taps - 1) * dilation + 1; }
  };
  Side y, x;
  int64_t outputs = 0, channels = 0;  // none that are summed: depthwise
  int64_t taps_beside = 1;            // of further dimensions
  int64_t outer = 1;                  // images, groups
  int64_t element_bytes = 4;
  bool depthwise() const { return channels == 0; }
};

// A block of threads computes lanes_o * own_o channels, rows * own_y rows and lanes_x columns; a thread own_o
// x own_y of them, its rows side by side. `chunk` channels are summed for each time that the block waits.
struct WindowTile {
  int64_t own_o = 1, own_y = 1, rows = 1, lanes_x = 1, lanes_o = 1, chunk = 1;
  int64_t pitch = 0;  // of the image's rows in shared memory, where strides split them
  int64_t wide = 1;   // threads that copy a row of the image
  int64_t threads() const { return lanes_o * rows * lanes_x; }
};

// Nothing where no tile keeps a warp busy. `price`: what it takes, in instructions of one multiprocessor.
std::optional<WindowTile> choose_window_tile(const WindowSizes& w, int multiprocessors,
                                             double* price = nullptr);
// How many parts the channels are best summed in; 1: none.
int64_t choose_window_parts(const WindowSizes& w, int multiprocessors);

}  // namespace nestor::library
