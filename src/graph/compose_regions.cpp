// Operators that read images at places that other tensors say: regions of interest, and convolutions whose
// taps are moved. Elements between pixels are bilinear.
#include <fmt/format.h>

#include "src/graph/compose.h"

namespace nestor {

namespace {

// Nodes on elements of one type, written shortly.
struct Arithmetic {
  Composer& c;
  DType type;
  using Name = std::string;
  Name number(double v) const { return c.scalar(v, type); }
  Name size(const Dim& v) const {
    return v.known() ? number(static_cast<double>(static_cast<int64_t>(v))) : c.cast(c.number(v), type);
  }
  Name add(const Name& a, const Name& b) const { return c.op("Add", {a, b}); }
  Name sub(const Name& a, const Name& b) const { return c.op("Sub", {a, b}); }
  Name mul(const Name& a, const Name& b) const { return c.op("Mul", {a, b}); }
  Name div(const Name& a, const Name& b) const { return c.op("Div", {a, b}); }
  Name max(const Name& a, const Name& b) const { return c.op("Max", {a, b}); }
  Name min(const Name& a, const Name& b) const { return c.op("Min", {a, b}); }
  Name both(const Name& a, const Name& b) const { return c.op("And", {a, b}); }
  Name where(const Name& cond, const Name& a, const Name& b) const { return c.op("Where", {cond, a, b}); }
  Name counted(const Dim& n, int64_t rank, int64_t axis) const {
    return c.cast(c.counted(n, rank, axis), type);
  }
};

// ---- Regions of interest

// One column of [regions, columns], as [regions, 1 ...].
std::string column(Composer& c, size_t input, int64_t k, int64_t rank) {
  Dims shape(static_cast<size_t>(rank), 1);
  shape[0] = c.size(input, 0);
  return c.reshaped(c.sliced(c.input(input), 1, k, k + 1), shape);
}

// Where samples lie along one axis: region r has them at start[r] + (bin + (k + 0.5) / samples[r]) * size[r].
struct Samples {
  std::string start, size;  // [regions, 1, 1]: of the region, and of one bin
  std::string count;        // of a bin's samples
  Dim most = 0;             // of which at most so many lie in the image
};

Samples samples_of(Composer& c, const Arithmetic& a, int64_t low, int64_t bins, const Dim& extent) {
  const OpContext& ctx = c.ctx();
  const double scale = ctx.get_float("spatial_scale", 1);
  const bool half_pixel = ctx.node().opset >= 16 &&
                          ctx.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const auto edge = [&](int64_t k) {
    const std::string v = a.mul(column(c, 1, k, 3), a.number(scale));
    return half_pixel ? a.sub(v, a.number(0.5)) : v;
  };
  Samples s;
  s.start = edge(low);
  std::string length = a.sub(edge(low + 2), s.start);
  if (!half_pixel) length = a.max(length, a.number(1));
  s.size = a.div(length, a.number(static_cast<double>(bins)));
  const int64_t ratio = ctx.get_int("sampling_ratio", 0);
  if (ratio < 0 || ratio > 1024) ctx.fail(fmt::format("`sampling_ratio` is {}", ratio), "0 to 1024");
  s.most = ratio;
  s.count = a.number(static_cast<double>(ratio));
  if (ratio > 0) return s;
  // As many as a bin has pixels, rounded up: they lie more than half a pixel apart, where there are several.
  s.count = a.max(c.op("Ceil", {s.size}), a.number(1));
  s.most = 2 * extent + 4;
  return s;
}

// Weights of an axis' pixels in a bin's mean: [regions, bins, extent]. A sample outside counts as 0, one on
// the border as the pixel there.
std::string mean_weights(Composer& c, const Arithmetic& a, const Samples& s, int64_t bins,
                         const Dim& extent) {
  const auto as_rank_4 = [&](const std::string& v) { return c.op("Unsqueeze", {v, c.ints({3})}); };
  const std::string bin = a.add(s.start, a.mul(a.counted(bins, 3, 1), s.size));
  const std::string step = a.div(s.size, s.count);
  std::string k = a.counted(s.most, 3, 2);
  if (c.ctx().get_int("sampling_ratio", 0) == 0)  // from the first that isn't before the image
    k = a.add(
        k, a.max(c.op("Ceil", {a.sub(a.div(a.sub(a.number(-1), bin), step), a.number(0.5))}), a.number(0)));
  const std::string at = a.add(bin, a.mul(a.add(k, a.number(0.5)), step)), last = a.size(extent);
  const std::string counts =
      a.both(c.op("Less", {k, s.count}),
             a.both(c.op("GreaterOrEqual", {at, a.number(-1)}), c.op("LessOrEqual", {at, last})));
  const std::string inside = a.min(a.max(at, a.number(0)), a.size(extent - 1));
  const std::string apart = c.op("Abs", {a.sub(as_rank_4(inside), a.counted(extent, 4, 3))});
  const std::string weight = a.max(a.sub(a.number(1), apart), a.number(0));
  const std::string counted = a.where(as_rank_4(counts), weight, a.number(0));
  return a.div(c.reduced("ReduceSum", counted, {2}, false), s.count);
}

// One corner of the pixels around each sample of an axis, and its weight: [regions, bins * samples].
struct Corner {
  std::string pixel, weight;
};
std::pair<Corner, Corner> corners(Composer& c, const Arithmetic& a, const Samples& s, int64_t bins,
                                  const Dim& extent) {
  const Dim regions = c.size(1, 0);
  const std::string step = a.div(s.size, s.count);
  std::string at = a.add(a.add(s.start, a.mul(a.counted(bins, 3, 1), s.size)),
                         a.mul(a.add(a.counted(s.most, 3, 2), a.number(0.5)), step));
  at = c.reshaped(at, {regions, bins * s.most});
  const std::string there =
      a.both(c.op("GreaterOrEqual", {at, a.number(-1)}), c.op("LessOrEqual", {at, a.size(extent)}));
  const std::string end = a.size(extent - 1);
  const std::string inside = a.min(a.max(at, a.number(0)), end), low = c.op("Floor", {inside});
  const std::string rest = a.sub(inside, low);
  const auto known = [&](const std::string& w) { return a.where(there, w, a.number(0)); };
  return {{c.cast(low, DType::i64), known(a.sub(a.number(1), rest))},
          {c.cast(a.min(a.add(low, a.number(1)), end), DType::i64), known(rest)}};
}

// Of each sample the sum of the weighted corners, and of each bin the mean sample, or the largest of both:
// [regions, channels, bins].
void from_corners(Composer& c, const Arithmetic& a, const Samples& rows, const Samples& columns,
                  int64_t height, int64_t width, bool largest) {
  const Dims& x = c.type(0).shape;
  const Dim regions = c.size(1, 0), channels = x[1];
  const auto [top, bottom] = corners(c, a, rows, height, x[2]);
  const auto [left, right] = corners(c, a, columns, width, x[3]);
  const Dim m = height * rows.most, n = width * columns.most;
  const std::string flat =
      c.reshaped(c.op("Transpose", {c.input(0)}, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}}),
                 {x[0] * x[2] * x[3], channels});
  const std::string image =
      c.op("Mul", {c.reshaped(c.cast(c.input(2), DType::i64), {regions, 1, 1}), c.number(x[2] * x[3])});
  std::string samples;
  for (const Corner& row : {top, bottom})
    for (const Corner& column : {left, right}) {
      const std::string line = c.op("Mul", {c.reshaped(row.pixel, {regions, m, 1}), c.number(x[3])});
      const std::string at =
          c.op("Add", {c.op("Add", {image, line}), c.reshaped(column.pixel, {regions, 1, n})});
      const std::string weight =
          a.mul(c.reshaped(row.weight, {regions, m, 1, 1}), c.reshaped(column.weight, {regions, 1, n, 1}));
      const std::string v = a.mul(c.op("Gather", {flat, at}), weight);
      samples = samples.empty() ? v : largest ? a.max(samples, v) : a.add(samples, v);
    }
  const std::string apart = c.reshaped(samples, {regions, height, rows.most, width, columns.most, channels});
  c.give(0, c.op("Transpose", {c.reduced(largest ? "ReduceMax" : "ReduceMean", apart, {2, 4}, false)},
                 {{"perm", std::vector<int64_t>{0, 3, 1, 2}}}));
}

// If the regions decide how many samples there are, the mean is computed as a product with the rows' weights
// and one with the columns'. Of few samples the pixels around each are read (56x56, 64 channels, 100 regions
// of 7x7 bins: a tenth of the time).
void roi_align(Composer& c) {
  const OpContext& ctx = c.ctx();
  const Dims& x = c.type(0).shape;
  if (x.size() != 4 || c.rank(1) != 2 || !must_equal(c.size(1, 1), 4) || c.rank(2) != 1 ||
      !must_equal(c.size(2, 0), c.size(1, 0), "each region is in an image"))
    ctx.fail(fmt::format("the image is {}, the regions are {} in images {}", to_string(c.type(0)),
                         to_string(c.type(1)), to_string(c.type(2))),
             "[N, C, H, W], [regions, 4] and [regions]");
  const Dim regions = c.size(1, 0);
  const int64_t height = ctx.get_int("output_height", 1), width = ctx.get_int("output_width", 1);
  if (height < 1 || width < 1 || !(x[2] >= 1) || !(x[3] >= 1))
    ctx.fail("the image or the output has no elements");
  const std::string mode = ctx.get_string("mode", "avg");
  if (mode != "avg" && mode != "max") ctx.fail("`mode` is \"" + mode + "\"", "avg or max");
  const Arithmetic a{c, c.type(0).dtype};
  const Samples rows = samples_of(c, a, 1, height, x[2]), columns = samples_of(c, a, 0, width, x[3]);
  if (ctx.get_int("sampling_ratio", 0) > 0)
    return from_corners(c, a, rows, columns, height, width, mode == "max");
  if (mode == "max")
    ctx.fail("`mode` max isn't supported where the regions decide how many samples there are",
             "`sampling_ratio` 2");
  const auto spread = [&](const std::string& v, const Dims& shape) { return c.reshaped(v, shape); };
  const std::string down = spread(mean_weights(c, a, rows, height, x[2]), {regions, 1, height, x[2]});
  const std::string across = spread(c.op("Transpose", {mean_weights(c, a, columns, width, x[3])},
                                         {{"perm", std::vector<int64_t>{0, 2, 1}}}),
                                    {regions, 1, x[3], width});
  const std::string images = x[0] == 1 ? c.input(0) : c.op("Gather", {c.input(0), c.input(2)});
  c.give(0, c.op("MatMul", {c.op("MatMul", {down, images}), across}));
}

// The largest element of each bin, whose edges are rounded to pixels; 0 where a bin has none.
void max_roi_pool(Composer& c) {
  const OpContext& ctx = c.ctx();
  const Dims& x = c.type(0).shape;
  const std::vector<int64_t> pooled = ctx.get_ints("pooled_shape", {});
  if (x.size() != 4 || c.rank(1) != 2 || !must_equal(c.size(1, 1), 5) || pooled.size() != 2 ||
      pooled[0] < 1 || pooled[1] < 1)
    ctx.fail(fmt::format("the image is {}, the regions are {}", to_string(c.type(0)), to_string(c.type(1))),
             "[N, C, H, W], [regions, 5] and a `pooled_shape` of two sizes");
  const Arithmetic a{c, c.type(0).dtype};
  const double scale = ctx.get_float("spatial_scale", 1);
  const auto edge = [&](int64_t k) {  // half up
    return c.op("Floor", {a.add(a.mul(column(c, 1, k, 3), a.number(scale)), a.number(0.5))});
  };
  // Whether a pixel belongs to a bin: [regions, bins, extent].
  const auto belongs = [&](int64_t low, int64_t bins, const Dim& extent) {
    const std::string start = edge(low), bin = a.counted(bins, 3, 1), pixel = a.counted(extent, 3, 2);
    const std::string length = a.max(a.add(a.sub(edge(low + 2), start), a.number(1)), a.number(1));
    const std::string size = a.div(length, a.number(static_cast<double>(bins)));
    const std::string from = a.add(c.op("Floor", {a.mul(bin, size)}), start),
                      to = a.add(c.op("Ceil", {a.mul(a.add(bin, a.number(1)), size)}), start);
    return a.both(c.op("GreaterOrEqual", {pixel, from}), c.op("Less", {pixel, to}));
  };
  const Dim regions = c.size(1, 0);
  const std::string image = c.reshaped(c.cast(c.sliced(c.input(1), 1, 0, 1), DType::i64), {regions});
  const std::string least = a.number(-std::numeric_limits<double>::infinity());
  const auto largest = [&](const std::string& v, const std::string& of, const Dims& mask, int64_t axis) {
    return c.reduced("ReduceMax", a.where(c.reshaped(of, mask), v, least), {axis}, false);
  };
  std::string y =
      c.op("Unsqueeze", {c.op("Gather", {c.input(0), image}), c.ints({2})});  // [regions, C, 1, H, W]
  y = largest(y, belongs(2, pooled[0], x[2]), {regions, 1, pooled[0], x[2], 1}, 3);
  y = largest(c.op("Unsqueeze", {y, c.ints({3})}), belongs(1, pooled[1], x[3]),
              {regions, 1, 1, pooled[1], x[3]}, 4);
  c.give(0, a.where(c.op("Equal", {y, least}), a.number(0), y));
}

// ---- Convolutions with moved taps

// A product of the weights with what the taps read, bilinear and 0 outside of the image.
void deform_conv(Composer& c) {
  const OpContext& ctx = c.ctx();
  const std::vector<int64_t>&x = c.type(0).shape, &w = c.type(1).shape, &moved = c.type(2).shape;
  if (x.size() != 4 || w.size() != 4 || moved.size() != 4)
    ctx.fail("convolutions of two-dimensional images are supported, [N, C, H, W]");
  const int64_t group = ctx.get_int("group", 1), parts = ctx.get_int("offset_group", 1), taps = w[2] * w[3];
  const std::vector<int64_t> strides = ctx.get_ints("strides", {1, 1}),
                             pads = ctx.get_ints("pads", {0, 0, 0, 0}),
                             dilations = ctx.get_ints("dilations", {1, 1});
  const bool fits = group > 0 && parts > 0 && strides.size() == 2 && pads.size() == 4 &&
                    dilations.size() == 2 && x[1] == w[1] * group && w[0] % group == 0 && x[1] % parts == 0 &&
                    moved[0] == x[0] && moved[1] == 2 * parts * taps && product(x) > 0;
  if (!fits)
    ctx.fail(fmt::format("image {}, weights {} and offsets {} don't belong together", to_string(c.type(0)),
                         to_string(c.type(1)), to_string(c.type(2))));
  const int64_t n = x[0], height = moved[2], width = moved[3], places = height * width;
  const Arithmetic a{c, c.type(0).dtype};
  const std::string offsets = c.reshaped(c.input(2), {n, parts, taps, 2, places});
  const std::string mask = c.has(4) ? c.reshaped(c.input(4), {n, parts, taps, places}) : "";
  // Where each tap reads, along one axis: [n, parts, taps, places].
  const auto place_of = [&](int64_t axis) {
    const auto k = static_cast<size_t>(axis);
    Tensor at(a.type, {1, 1, taps, places});
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t p = 0; p < places; ++p) {
        const int64_t tap = axis == 0 ? t / w[3] : t % w[3], place = axis == 0 ? p / width : p % width;
        at.set(t * places + p, static_cast<double>(place * strides[k] - pads[k] + tap * dilations[k]));
      }
    const std::string offset = c.op("Squeeze", {c.sliced(offsets, 3, axis, axis + 1), c.ints({3})});
    return a.add(offset, c.constant(at));
  };
  const std::string images = c.reshaped(c.input(0), {n, parts, x[1] / parts, x[2] * x[3]});
  const std::string row = place_of(0), column = place_of(1);
  const std::string top = c.op("Floor", {row}), left = c.op("Floor", {column});
  const auto pixel = [&](const std::string& low, int64_t beyond) {
    return a.add(low, a.number(static_cast<double>(beyond)));
  };
  const auto weight = [&](const std::string& at, const std::string& p, int64_t extent) {
    const std::string inside = a.both(c.op("GreaterOrEqual", {p, a.number(0)}),
                                      c.op("Less", {p, a.number(static_cast<double>(extent))}));
    return a.where(inside, a.sub(a.number(1), c.op("Abs", {a.sub(at, p)})), a.number(0));
  };
  const auto inner = [&](const std::string& p, int64_t extent) {
    return a.min(a.max(p, a.number(0)), a.number(static_cast<double>(extent - 1)));
  };
  std::string read;
  for (int64_t i = 0; i < 4; ++i) {
    const std::string r = pixel(top, i / 2), s = pixel(left, i % 2);
    const std::string line =
        c.op("Mul", {c.cast(inner(r, x[2]), DType::i64), c.scalar(static_cast<double>(x[3]), DType::i64)});
    const std::string at = c.op("Add", {line, c.cast(inner(s, x[3]), DType::i64)});
    const std::string every = c.op("Expand", {c.reshaped(at, {n, parts, 1, taps * places}),
                                              c.ints({n, parts, x[1] / parts, taps * places})});
    std::string of = a.mul(weight(row, r, x[2]), weight(column, s, x[3]));
    if (!mask.empty()) of = a.mul(of, mask);
    const std::string v = a.mul(c.op("GatherElements", {images, every}, {{"axis", int64_t{3}}}),
                                c.reshaped(of, {n, parts, 1, taps * places}));
    read = read.empty() ? v : a.add(read, v);
  }
  const std::string columns = c.reshaped(read, {n, group, w[1] * taps, places});
  const std::string weights = c.reshaped(c.input(1), {1, group, w[0] / group, w[1] * taps});
  std::string y = c.reshaped(c.op("MatMul", {weights, columns}), {n, w[0], height, width});
  if (c.has(3)) y = a.add(y, c.reshaped(c.input(3), {1, w[0], 1, 1}));
  c.give(0, y);
}

}  // namespace

std::vector<Composition> region_compositions() {
  return {{"", "RoiAlign", 10, roi_align},
          {"", "MaxRoiPool", 1, max_roi_pool},
          {"", "DeformConv", 19, deform_conv}};
}

}  // namespace nestor
