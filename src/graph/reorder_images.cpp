// A convolution that moves by more than one element reads a row-major image badly: broadcasts come from a
// plane each, lanes along a row leave out every other element. In blocks of channels a line is used whole.
// Where what is computed of an image is much more than to copy it, in and out, it is worth it to reorder.
// (Zen 3: 3x3/2 of 301 to 74 channels at 74 15.3 to 8.6 ms, 7x7/2 of 481 to 16 at 33 5.4 to 2.5, of 192 to 12
// at 73 7.4 to 5.9, 5x5/2 of 192 to 16 at 55 2.0 to 1.4, 3x3/2 of 78 to 61 at 110 3.7 to 3.5, of 301 to 32
// at 106 18 to 8.5; as near the limit 1x5/2 of 32 to 64 at 32x30 0.21 to 0.23.) Most gain so many lines that
// they don't stay in the first level. (3x3/2 of 512 to 12 at 74 7.4 to 3.9, of 378 to 22 at 57 2.3 to 2.0 and
// beside a busy neighbour 4.4 to 2.2; of fewer 48 to 32 at 90 0.64 to 0.69, 96 to 32 at 40 0.34 to 0.25.)
//
// One that moves by one element reads lines from as many planes, and as many pages, as there are channels.
// That costs less than strides do: more must be computed of it.
// (Zen 3, large windows, Winograd takes most small ones: 5x5 of 384 to 128 channels at 23 24 to 13.6 ms, of
// 64 to 117 at 50 13.3 to 10.6, of 128 to 128 at 28 8.5 to 6.9, of 32 to 64 at 126 20 to 19; 7x7 of 128 to
// 128 at 15 8.1 to 4.7; transposed 3x3x3 of 356 to 16 at 16x12x16 22 to 15; 7x7 of 8 the same. While
// neighbours use the caches more. 25 random ones of which less is computed, small ones that are dilated and
// few filters, 28 % less time; 3x3 of 301 to 24 at 33 2.8 to 1.9, 2x2 of 128 to 32 at 57 2.0 to 1.3. Of still
// less: 1x3 of 512 to 32 at 33 1.2 to 1.4.)
//
// One of a single pixel is a product of matrices, but where neither few pixels nor filters lie as lanes want.
// (Zen 3, 7x7 pixels of 256 to 256 channels 84 to 70 us, of 1024 to 320 437 to 361, of 576 to 1280 1.04 to
// 0.80 ms; 17x17 of 1024 to 256 2.3 to 1.7; but 7x7 of 160 to 320 or 21x23 of 320 to 512 no better.)
//
// Strided windows of a channel each, which are gathered from eight planes at once, gain too, unless they are
// small and the copies go to memory. (Zen 3: 5x5/2 of 96 at 56 0.43 to 0.10 ms, of 240 at 28 0.28 to 0.06, of
// 261 at 112 6.6 to 2.1; 3x3/2 of 192 at 28 69 to 31 us, of 144 at 56 120 to 98, of 96 at 112 380 to 334; of
// 64 at 224 1.3 to 1.6 ms. Groups of 24 channels 1.2 to 1.7.)
// Others do where windows are large, or rows short. (7x7 of 96 at 56 0.62 to 0.38 ms, of 384 at 14 191 to 81
// us, 5x5 of 240 at 28 232 to 143, of 480 at 14 101 to 68, 3x3 of 576 at 14 81 to 62, of 960 at 7 46 to 23;
// of 144 at 56 146 to 202.)
//
// This was measured with vectors of 8 elements, and is only chosen with such or shorter ones.
//
// With the widest ones windows of a channel each gain where they are large, unless the copies go to memory
// (Zen 5: 5x5/2 of 384 at 47 0.26 to 0.12 ms, 5x5 of 455 at 33 0.27 to 0.18, but of 320 at 97 1.5 to 2.0; 3x3
// none but along rows of up to 4, 192 images of 128 at 2 461 to 15 us, of 5 to 8 14 % less to twice as much),
// and so do groups of few channels along rows that leave lanes empty (3x3 of 54 groups of 4 at 17 34 to 24
// us, 5x5/2 of 8 groups of 8 at 19 18 to 10).
//
// Many images of a few pixels gain by blocks whatever their vectors: a tile is then a point of each of
// several images, and what meets padding there isn't computed. (Zen 5: 16 of 3x2, 5x5 of 64 channels to 384,
// 466 to 114 us; 208 of 2x2, 3x3 of 384 to 161, 6.8 to 1.9 ms; with rows of two results, of 30 in the middle
// half of the time, one 4 % more: 3x3/2, 32 of 14x4 of 448 to 128 3.6 to 1.8 ms.) Results of strided
// transposed ones: scattered.cpp.
//
// With the widest ones, where the third level is far, it is worth it where weights don't stay in the second
// level: in blocks the sum goes in parts of channels (schedules/library/panel_parts.cpp), while row major all
// weights come again for each tile. (Emerald Rapids, 2 MB: 7x7/2 of 384 channels to 54 at 36 9.2 to 4.4 ms,
// 7x7 of 320 to 40 at 28 9.8 to 6.2, 5x5/2 of 480 to 128 at 30 6.1 to 4.1, 3x3/2 of 512 to 512 at 28 7.6 to
// 5.8, of 258 to 448 at 58 13.5 to 11.8; of weights of two thirds of it and less none.) So it is for large
// windows of many channels to one block of filters (7x7/2 of 96 to 16 at 30 0.25 to 0.19, 5x5 of 480 to 16 at
// 14 0.48 to 0.39), but not where the copies go to memory (5x5/2 of 320 to 16 at 56 1.5 to 1.7).
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/lanes.h"
#include "src/graph/passes.h"
#include "src/graph/reorders.h"
#include "src/graph/scattered.h"
#include "src/ops/products.h"

namespace nestor {

namespace {

constexpr double kSaved = 0.37;  // of the cycles of its products
constexpr double kSavedOfMany = 0.6, kSavedUnstrided = 0.2;
constexpr int64_t kLines = 384;           // of a plane each, that stay in the first level
constexpr double kInCaches = 16 << 20;    // bytes
constexpr int64_t kPixelsInShortRow = 4;  // pixels

const Node& producer_of(const Graph& g, ValueId v) {
  return g.nodes[static_cast<size_t>(value_of(g, v).producer)];
}

bool is_strided(const ops::ConvShape& s) {
  return std::any_of(s.window.stride.begin(), s.window.stride.end(), [](int64_t n) { return n > 1; });
}

double saved(const ops::ConvShape& s) {
  if (!is_strided(s)) return kSavedUnstrided;
  const int64_t lines = s.channels * product(s.window.kernel) / s.window.kernel.back();
  return lines > kLines ? kSavedOfMany : kSaved;
}

// Whether a window of one pixel, each beside the last one, finds its image better in blocks: where rows of
// pixels would leave lanes over, filters are the lanes, and each step's broadcasts come from another line.
bool is_torn_point(const ops::ConvShape& s, int64_t lanes) {
  constexpr int64_t kManyChannels = 256, kMost = 1024, kFewPixels = 128;
  const int64_t pixels = product(s.window.output);
  return s.group == 1 && pixels % lanes != 0 && s.channels >= kManyChannels &&
         (pixels <= kFewPixels || s.channels >= kMost);
}

// Whether windows of a channel each take longer by lanes along rows of the image, a load for each product,
// than by channels with copies; in cycles for a vector of results, fitted to those of the comment above.
bool is_window_of_blocks(const ops::ConvShape& s, int64_t lanes) {
  constexpr double kTapInRow = 1, kShortRow = 16, kTapInBlocks = 0.5, kCopied = 8.5;
  const int64_t row = s.window.output.back(), vectors = ceil_div(row, lanes);
  const auto taps = static_cast<double>(product(s.window.kernel)), n = static_cast<double>(vectors);
  const double in_rows = kTapInRow * taps * n * static_cast<double>(lanes) / static_cast<double>(row) +
                         (vectors <= 2 ? kShortRow / n : 0);
  return in_rows > kTapInBlocks * taps + kCopied;
}

// Cycles of one core, of all products.
double products(const ops::ConvShape& s, int64_t lanes) {
  const auto blocks = static_cast<double>(ceil_div(s.filters, lanes));
  const auto sums = static_cast<double>(s.n * product(s.window.output)) * blocks;
  return sums * static_cast<double>(s.channels * product(s.window.kernel)) / kFmasPerCycle;
}

// With the widest vectors, where what doesn't stay near a core comes from afar.
bool pays_by_parts(const ops::ConvShape& s, double copied, const PartitionOptions& how) {
  constexpr double kLargeShare = 0.9;  // of the second level, taken by weights
  constexpr double kInMemory = 4 << 20, kFarBytes = 8, kCachedBytes = 16;  // copied in a cycle
  constexpr double kOfMany = 0.1, kOfFew = 0.16;  // that copies take of the products' cycles
  constexpr int64_t kLargeWindow = 25, kManyChannels = 48;
  if (s.group != 1 || s.channels < how.channel_block || how.near_weights == 0) return false;
  const int64_t lanes = how.channel_block, window = product(s.window.kernel);
  const auto weights = static_cast<double>(s.filters * s.channels * window * bytes_of(DType::f32));
  const double share = copied / (copied > kInMemory ? kFarBytes : kCachedBytes) / products(s, lanes);
  if (weights >= kLargeShare * static_cast<double>(how.near_weights)) return share <= kOfMany;
  const bool one_block = s.filters <= lanes && 4 * s.filters >= 3 * lanes;
  return one_block && window >= kLargeWindow && s.channels >= kManyChannels && copied <= kInMemory &&
         share <= kOfFew;
}

// Windows of a channel each so large that lanes along rows, a load for each product, take longer than by
// channels with copies; or of so few channels in a group that lanes go along rows, which they fill badly.
bool fills_rows_badly(const ops::ConvShape& s, double copied, int64_t lanes) {
  constexpr int64_t kLargeWindow = 25, kLeastOfShort = 9;
  constexpr double kFilled = 0.75, kCopied = 6;  // cycles for a vector, read and written
  const int64_t group = s.channels / s.group, window = product(s.window.kernel);
  if (s.group == 1 || s.filters != s.channels || group % lanes == 0 || filled(s.channels, lanes) < kFilled)
    return false;
  if (group == 1) {
    const int64_t pixels = s.window.output.back();
    if (pixels > 1 && pixels <= kPixelsInShortRow && window >= kLeastOfShort) return true;
    return window >= kLargeWindow && (is_strided(s) || copied <= kInCaches);
  }
  const double row = filled(s.window.output.back(), lanes);
  const double work = static_cast<double>(group * window) / kFmasPerCycle;
  const double copies = kCopied * (1 + static_cast<double>(product(s.window.input)) /
                                           static_cast<double>(product(s.window.output)));
  return row < kFilled && work * (1 / row - 1 / filled(s.channels, lanes)) > copies;
}

// The share of all products that don't meet padding.
double share_inside(const ops::Window& w) {
  double share = 1;
  for (size_t d = 0; d < w.rank(); ++d) {
    const int64_t inside =
        ops::pairs_inside(w.output[d], w.kernel[d], w.stride[d], w.dilation[d], w.pad_begin[d], w.input[d]);
    share *= static_cast<double>(inside) / static_cast<double>(w.output[d] * w.kernel[d]);
  }
  return share;
}

// Images so small, and so many, that in blocks a tile of filters takes a point of each of several images: all
// its products are inside of them, or none. A tile of one image's points computes its padding, too. One of a
// row of two points has half of the accumulators that it needs.
bool is_small_in_batch(const ops::ConvShape& s) {
  constexpr int64_t kLeastImages = 4;
  constexpr double kLeastSaved = 0.3, kSavedOfPairs = 0.4;  // of the products' cycles
  constexpr double kCopied = 10;                            // cycles for a vector, read and written
  if (s.group > 1 || s.n < kLeastImages || s.window.output.back() > kPixelsInShortRow) return false;
  const double padding = 1 - share_inside(s.window);
  const double work = static_cast<double>(s.channels * product(s.window.kernel)) / kFmasPerCycle;
  const double images = static_cast<double>(s.channels * product(s.window.input)) /
                        static_cast<double>(s.filters * product(s.window.output));
  const bool pairs = s.window.output.back() == 2 && product(s.window.kernel) > 1;
  const double saved = pairs ? std::max(padding, kSavedOfPairs) : padding;
  return saved > kLeastSaved && saved * work > kCopied * (1 + images);
}

// What has to lie in blocks of channels for a node's copies to pay.
enum class Gain { none, by_image, by_result };

Gain gain_of(const Graph& g, const Partition& p, const KernelCall& call, const Node& n,
             const PartitionOptions& how) {
  constexpr int64_t kSmallWindow = 9;
  const bool transposed = ops::is_conv_transpose(n);
  if (!transposed && (n.op != "Conv" || !n.domain.empty())) return Gain::none;
  if (!is_constant(g, n.inputs[1])) return Gain::none;
  const OpContext ctx(g, n);
  if (ctx.input(0).dtype != DType::f32) return Gain::none;
  const int64_t lanes = how.channel_block;
  const bool row_major = !p.blocked.count(call.args.back());
  if (transposed)
    return row_major && scatters_badly(ops::transposed_shape(ctx), lanes) ? Gain::by_result : Gain::none;
  const ops::ConvShape s = ops::conv_shape(ctx, 1).typical();
  if (row_major && is_small_in_batch(s)) return Gain::by_result;
  const auto by_image = [](bool pays) { return pays ? Gain::by_image : Gain::none; };
  if (p.blocked.count(n.inputs[0])) return Gain::none;
  double copied = 0;  // read and written
  for (const ValueId v : images_of(g, call, {n.outputs[0]})) {
    const TensorType& t = value_of(g, v).type;
    if (!p.blocked.count(v)) copied += 2 * static_cast<double>(product(t.shape.typical()) * bytes_of(t.dtype));
  }
  if (lanes >= kWidestVector)
    return by_image(fills_rows_badly(s, copied, lanes) || pays_by_parts(s, copied, how));
  const bool strided = is_strided(s), point = product(s.window.kernel) == 1;
  if (s.channels < lanes || (!strided && point && !is_torn_point(s, lanes))) return Gain::none;
  if (s.group > 1 && s.group == s.channels && s.group == s.filters)
    return by_image((copied <= kInCaches || product(s.window.kernel) > kSmallWindow) &&
                    (strided || is_window_of_blocks(s, lanes)));
  return by_image(s.group == 1 && saved(s) * products(s, lanes) > copied / kBytesReordered);
}

// By what a node makes, what its function does.
std::map<ValueId, ValueId> results_of(const Graph& g, const Partition& p) {
  std::map<ValueId, ValueId> out;
  for (const KernelCall& call : p.calls)
    for (const int i : call.nodes) out[g.nodes[static_cast<size_t>(i)].outputs[0]] = call.args.back();
  return out;
}

}  // namespace

bool reorder_images(Graph& g, Partition& p, const PartitionOptions& how) {
  if (how.channel_block <= 1) return false;
  std::set<ValueId> refused, kept;
  for (;;) {
    std::map<ValueId, Gain> gains;
    std::set<ValueId> chosen;
    for (const KernelCall& call : p.calls)
      for (const int i : call.nodes) {
        const Node& n = g.nodes[static_cast<size_t>(i)];
        const Gain gain = refused.count(n.outputs[0]) ? Gain::none : gain_of(g, p, call, n, how);
        if (gain == Gain::none) continue;
        gains[n.outputs[0]] = gain;
        chosen.insert(n.outputs[0]);
      }
    if (chosen.empty()) return false;
    Graph changed = with_reorders(g, p, chosen, kept);
    Partition q = partition(changed, how);
    const std::map<ValueId, ValueId> results = results_of(changed, q);
    const size_t before = refused.size() + kept.size();
    for (const auto& [made, gain] : gains) {
      const ValueId image = producer_of(g, made).inputs[0], copy = producer_of(changed, made).inputs[0];
      if (!q.blocked.count(gain == Gain::by_image ? copy : results.at(made)))
        refused.insert(made);
      else if (copy != image && !q.blocked.count(copy))
        kept.insert(image);
    }
    if (refused.size() + kept.size() > before) continue;
    for (const auto& [made, gain] : gains) {
      std::string& why = changed.nodes[static_cast<size_t>(value_of(changed, made).producer)].why;
      why += fmt::format("{}it {} in blocks of channels, which pays for the copy", why.empty() ? "" : "; ",
                         gain == Gain::by_image ? "reads its image" : "makes its result");
    }
    g = std::move(changed);
    p = std::move(q);
    return true;
  }
}

}  // namespace nestor
