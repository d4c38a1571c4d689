// Which tile a convolution gets on a GPU: the cheapest by the instructions of its threads and by the waves of
// its blocks. Rows and channels divide, so that only the copies and a ragged end of columns are guarded.
#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "schedules/library/cuda_windows.h"

namespace nestor::library {

namespace {

constexpr int64_t kWarp = 32, kMostThreads = 256, kMostShared = 40 << 10;
constexpr int64_t kMostRegisters = 112;  // of sums and operands
constexpr int64_t kMostSums = 64;        // of one thread
constexpr int64_t kMostOwnRows = 16, kMostChunk = 16;
constexpr int64_t kShared = 160 << 10;  // of a multiprocessor
constexpr double kBusy = 256;           // threads of a multiprocessor that hide latencies
constexpr double kCopied = 12;          // instructions for an element that is copied, its padding tested
constexpr double kSharedLoad = 1.5;     // of a warp, in instructions
constexpr double kSector = 64, kBarriers = 60, kStored = 6;  // instructions for each
// A further kernel, in instructions of a multiprocessor: 2 us of 128 a cycle at 1.4 GHz.
constexpr double kLaunch = 360e3;
constexpr double kPartial = 10;  // instructions for a partial result that is written and read

std::vector<int64_t> divisors(int64_t n, int64_t most) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

// Whether warps read an element a thread without conflicts, with rows of the image `pitch` apart: each row
// goes on in the bank behind the one before. Depthwise, so do channels. Else threads of other channels read
// the same, so that it is enough if a warp's are told apart.
bool without_conflicts(const WindowSizes& w, const WindowTile& t, int64_t pitch) {
  const int64_t row = t.own_y * w.y.stride * pitch, places = t.rows * t.lanes_x;
  if (t.rows == 1 || (row - t.lanes_x) % kWarp == 0)
    return w.depthwise() || places <= kWarp || places % kWarp == 0;
  if (w.depthwise() || w.element_bytes < 4 || places > kWarp) return false;
  std::set<int64_t> banks;
  for (int64_t r = 0; r < t.rows; ++r)
    for (int64_t x = 0; x < t.lanes_x; ++x)
      if (!banks.insert((r * row + x) % kWarp).second) return false;
  return true;
}

// The smallest distance of the image's rows at which a warp reads them without conflicts; 0 where none is.
int64_t pitch_of(const WindowSizes& w, const WindowTile& t) {
  const int64_t width = ceil_div(w.x.seen(t.lanes_x), w.x.stride);
  for (int64_t pitch = width; pitch < width + kWarp; ++pitch)
    if (without_conflicts(w, t, pitch)) return pitch;
  return 0;
}

// Columns of a tile: the divisors, and where rows are long parts of a warp, too.
std::vector<int64_t> columns_of(int64_t extent) {
  std::vector<int64_t> out = divisors(extent, kMostThreads);
  for (int64_t n = kWarp / 4; n <= kWarp && n < extent; n *= 2)
    if (extent % n != 0) out.push_back(n);
  return out;
}

// Sectors of so many bytes side by side, which begin in the middle of one where rows don't divide.
int64_t pieces(int64_t bytes) {
  return ceil_div(bytes, 32) + (bytes % 32 != 0);
}

int64_t image_rows(const WindowSizes& w, const WindowTile& t) {
  return (w.depthwise() ? t.lanes_o : t.chunk) * w.taps_beside * w.y.seen(t.rows * t.own_y);
}

int64_t shared_elements(const WindowSizes& w, const WindowTile& t) {
  const int64_t weights = t.lanes_o * t.own_o * t.chunk * w.y.taps * w.x.taps * w.taps_beside;
  return image_rows(w, t) * t.pitch * w.x.stride + weights;
}

// Threads for a row: a warp, less where the row is shorter or the threads are no multiple of it.
int64_t wide_of(const WindowSizes& w, const WindowTile& t) {
  int64_t wide = std::gcd(t.threads(), kWarp);
  while (wide / 2 >= w.x.seen(t.lanes_x)) wide /= 2;
  return wide;
}

double price_of(const WindowSizes& w, const WindowTile& t, int multiprocessors) {
  const auto threads = static_cast<double>(t.threads());
  const int64_t taps = w.y.taps * w.x.taps * w.taps_beside;
  const auto channels = static_cast<double>(w.depthwise() ? 1 : w.channels);
  const auto chunk = static_cast<double>(w.depthwise() ? 1 : t.chunk);
  const auto fma = static_cast<double>(taps * t.own_o * t.own_y);
  const auto loads =
      static_cast<double>(w.x.taps * w.taps_beside * (w.y.seen(t.own_y) + w.y.taps * ceil_div(t.own_o, 4)));
  const int64_t rows = image_rows(w, t), width = w.x.seen(t.lanes_x);
  const int64_t columns = ceil_div(width, t.wide), turns = ceil_div(rows, t.threads() / t.wide) * columns;
  const double weights = static_cast<double>(taps * t.lanes_o * t.own_o) * chunk / threads / 4;
  // Rows of the output side by side are one piece.
  const int64_t together = t.own_y == 1 && t.lanes_x == w.x.extent ? t.rows : 1;
  const int64_t stored = t.threads() / t.lanes_x / together * t.own_o * t.own_y;
  const int64_t read =  // sectors
      rows * (columns * pieces(std::min(width, t.wide) * w.element_bytes) + (t.lanes_x < w.x.extent));
  const double copied = (static_cast<double>(turns * (t.wide < kWarp ? 2 : 1)) + weights) * kCopied +
                        static_cast<double>(read) * kSector / threads + kBarriers;
  const double own =
      channels * (fma + kSharedLoad * loads + copied / chunk) +
      kStored * static_cast<double>(t.own_o * t.own_y) +
      kSector * static_cast<double>(stored * pieces(together * t.lanes_x * w.element_bytes)) / threads;
  const int64_t blocks = w.outer * (w.outputs / (t.lanes_o * t.own_o)) * (w.y.extent / (t.rows * t.own_y)) *
                         ceil_div(w.x.extent, t.lanes_x);
  const double waves = blocks > 4 * multiprocessors ? static_cast<double>(blocks) / multiprocessors
                                                    : static_cast<double>(ceil_div(blocks, multiprocessors));
  const auto warps = static_cast<double>(ceil_div(t.threads(), kWarp) * kWarp);
  const auto fit = static_cast<double>(kShared / (shared_elements(w, t) * w.element_bytes + 1024));
  return waves * warps * own / std::min(1.0, std::min(waves, fit) * threads / kBusy);
}

}  // namespace

std::optional<WindowTile> choose_window_tile(const WindowSizes& w, int multiprocessors, double* price) {
  std::optional<WindowTile> best;
  double least = 0;
  const auto look_at = [&](WindowTile t) {
    const int64_t registers = t.own_o * t.own_y + w.y.seen(t.own_y) + t.own_o;
    if (registers > kMostRegisters || t.threads() > kMostThreads || t.threads() < kWarp) return;
    t.pitch = pitch_of(w, t);
    if (t.pitch == 0) return;
    t.wide = wide_of(w, t);
    for (const int64_t chunk : divisors(std::max<int64_t>(1, w.channels), kMostChunk)) {
      t.chunk = chunk;
      if (shared_elements(w, t) * w.element_bytes > kMostShared) break;
      const double p = price_of(w, t, multiprocessors);
      if (best && p >= least) continue;
      best = t;
      least = p;
    }
  };
  WindowTile t;
  for (const int64_t lanes_x : columns_of(w.x.extent))
    for (const int64_t own_y : divisors(w.y.extent, kMostOwnRows))
      for (const int64_t rows : divisors(w.y.extent / own_y, kMostThreads / lanes_x))
        for (const int64_t own_o : w.depthwise() ? std::vector<int64_t>{1} : divisors(w.outputs, 8))
          for (const int64_t lanes_o : divisors(w.outputs / own_o, kMostThreads)) {
            if (own_o * own_y > kMostSums) continue;
            t.lanes_x = lanes_x;
            t.own_y = own_y;
            t.rows = rows;
            t.own_o = own_o;
            t.lanes_o = lanes_o;
            look_at(t);
          }
  if (price) *price = least;
  return best;
}

int64_t choose_window_parts(const WindowSizes& w, int multiprocessors) {
  double whole = 0;
  if (w.depthwise() || !choose_window_tile(w, multiprocessors, &whole)) return 1;
  const auto outputs = static_cast<double>(w.outer * w.outputs * w.y.extent * w.x.extent);
  int64_t best = 1;
  double least = whole;
  for (const int64_t parts : divisors(w.channels, kWarp)) {
    if (parts == 1) continue;
    WindowSizes part = w;
    part.channels /= parts;
    part.outer *= parts;
    double price = 0;
    if (!choose_window_tile(part, multiprocessors, &price)) continue;
    price += kLaunch + outputs * static_cast<double>(parts) * kPartial / multiprocessors;
    if (price < least) {
      best = parts;
      least = price;
    }
  }
  return best;
}

}  // namespace nestor::library
