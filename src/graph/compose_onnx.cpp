// Operators of ONNX that are a few others: chosen, cut, put in their place, and counted.
#include <cmath>
#include <numbers>

#include "src/graph/compose.h"
#include "src/ops/common.h"

namespace nestor {

namespace {

constexpr int64_t kMostWindow = 1 << 24;

// x Sigmoid(alpha x) b
void swiglu(Composer& c) {
  const std::string gate = c.op(
      "Mul", {c.input(0),
              c.op("Sigmoid",
                   {c.op("Mul", {c.input(0), c.scalar(c.ctx().get_float("alpha", 1), c.type(0).dtype)})})});
  c.give(0, c.op("Mul", {gate, c.input(1)}));
}

// 1 where the largest element of a row stands first, else 0. Until opset 12 all axes from `axis` on are a
// row.
void hardmax(Composer& c) {
  const bool matrix = c.ctx().node().opset < 13;
  const int64_t axis = c.axis(c.ctx().get_int("axis", matrix ? 1 : -1), c.rank(0));
  const Dims& shape = c.shape(0);
  std::string x = c.input(0);
  int64_t along = axis, rank = c.rank(0);
  Dim size = shape[static_cast<size_t>(axis)];
  if (matrix) {
    x = c.op("Flatten", {x}, {{"axis", axis}});
    along = 1, rank = 2, size = product(Dims(shape.begin() + axis, shape.end()));
  }
  const std::string best = c.op("ArgMax", {x}, {{"axis", along}, {"keepdims", int64_t{1}}});
  std::string y = c.cast(c.op("Equal", {c.counted(size, rank, along), best}), c.type(0).dtype);
  c.give(0, matrix ? c.reshaped(y, shape) : y);
}

// The middle of an axis, or the axis in the middle of zeros.
void center_crop_pad(Composer& c) {
  const std::vector<int64_t> sizes = c.known(1);
  std::vector<int64_t> axes = c.ctx().get_ints("axes", {});
  if (axes.empty())
    for (int64_t d = 0; d < c.rank(0); ++d) axes.push_back(d);
  if (axes.size() != sizes.size()) c.ctx().fail("`shape` and `axes` differ in length");
  std::string x = c.input(0);
  std::vector<int64_t> pads(static_cast<size_t>(2 * c.rank(0)), 0);
  bool padded = false;
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t axis = c.axis(axes[k], c.rank(0)), has = c.type(0).shape[static_cast<size_t>(axis)];
    if (sizes[k] < 0) c.ctx().fail("`shape` has a size below zero");
    if (sizes[k] < has) x = c.sliced(x, axis, (has - sizes[k]) / 2, (has - sizes[k]) / 2 + sizes[k]);
    if (sizes[k] <= has) continue;
    padded = true;
    pads[static_cast<size_t>(axis)] = (sizes[k] - has) / 2;
    pads[static_cast<size_t>(c.rank(0) + axis)] = sizes[k] - has - (sizes[k] - has) / 2;
  }
  c.give(0, padded ? c.op("Pad", {x, c.ints(pads)}) : c.op("Identity", {x}));
}

// a0 - a1 cos(2 pi k / n) + a2 cos(4 pi k / n)
void window(Composer& c, double a0, double a1, double a2) {
  const std::vector<int64_t> size = c.known(0);
  if (size.size() != 1 || size[0] < 0 || size[0] > kMostWindow)
    c.ctx().fail("the size must be one number, from 0 to " + std::to_string(kMostWindow));
  const bool periodic = c.ctx().get_int("periodic", 1) != 0;
  const double n = static_cast<double>(periodic ? size[0] : size[0] - 1);
  Tensor t(DType::f64, {size[0]});
  for (int64_t k = 0; k < size[0]; ++k) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(k) / n;
    t.set(k, size[0] == 1 && !periodic ? 1 : a0 - a1 * std::cos(turn) + a2 * std::cos(2 * turn));
  }
  c.give(0, c.op("Cast", {c.constant(t)}, {{"to", c.ctx().get_int("output_datatype", 1)}}));
}

// The first `lens[b]` elements along time in the opposite order, the others as they are.
void reverse_sequence(Composer& c) {
  const int64_t rank = c.rank(0), time = c.axis(c.ctx().get_int("time_axis", 0), rank),
                batch = c.axis(c.ctx().get_int("batch_axis", 1), rank);
  const Dims& shape = c.shape(0);
  if (time == batch) c.ctx().fail("`time_axis` and `batch_axis` are the same");
  const Dim& samples = shape[static_cast<size_t>(batch)];
  if (c.rank(1) != 1 || !must_equal(c.size(1, 0), samples, "`sequence_lens` has one of each of the batch"))
    c.ctx().fail("`sequence_lens` is " + to_string(c.type(1)) +
                 ", it must have one length for each of the batch");
  Dims per_batch(static_cast<size_t>(rank), 1);
  per_batch[static_cast<size_t>(batch)] = samples;
  const std::string lens = c.reshaped(c.input(1), per_batch),
                    at = c.counted(shape[static_cast<size_t>(time)], rank, time);
  const std::string last = c.op("Sub", {lens, c.scalar(1, DType::i64)});
  const std::string from = c.op("Where", {c.op("Less", {at, lens}), c.op("Sub", {last, at}), at});
  c.give(0, c.op("GatherElements", {c.input(0), c.op("Expand", {from, c.ints(shape)})}, {{"axis", time}}));
}

// A row of new elements in a cache, from a place of each batch on.
void tensor_scatter(Composer& c) {
  const int64_t rank = c.rank(0), axis = c.axis(c.ctx().get_int("axis", -2), rank);
  const Dims &cache = c.shape(0), &update = c.shape(1);
  const std::string mode = c.ctx().get_string("mode", "linear");
  if (mode != "linear" && mode != "circular")
    c.ctx().fail("`mode` is \"" + mode + "\"", "linear or circular");
  if (axis == 0 || update.size() != cache.size()) c.ctx().fail("the cache and its update don't fit together");
  std::string at = c.counted(update[static_cast<size_t>(axis)], rank, axis);
  if (c.has(2)) {
    Dims per_batch(static_cast<size_t>(rank), 1);
    per_batch[0] = cache[0];
    at = c.op("Add", {c.reshaped(c.input(2), per_batch), at});
  }
  if (mode == "circular") at = c.op("Mod", {at, c.number(cache[static_cast<size_t>(axis)])});
  c.give(0, c.op("ScatterElements", {c.input(0), c.op("Expand", {at, c.ints(update)}), c.input(1)},
                 {{"axis", axis}}));
}

// Each element at its place in zeros. Places count in the smallest output that pooling may have come from; a
// larger one that is asked for has zeros behind it.
void max_unpool(Composer& c) {
  const std::vector<int64_t>& x = c.type(0).shape;
  if (x.size() < 3 || c.type(1).shape != x) c.ctx().fail("the places must be as many as the elements");
  const size_t spatial = x.size() - 2;
  const std::vector<int64_t> kernel = c.ctx().get_ints("kernel_shape", {}),
                             strides = c.ctx().get_ints("strides", std::vector<int64_t>(spatial, 1)),
                             pads = c.ctx().get_ints("pads", std::vector<int64_t>(2 * spatial, 0));
  if (kernel.size() != spatial || strides.size() != spatial || pads.size() != 2 * spatial)
    c.ctx().fail("`kernel_shape`, `strides` or `pads` has the wrong length");
  std::vector<int64_t> shape = {x[0], x[1]};
  for (size_t d = 0; d < spatial; ++d)
    shape.push_back((x[d + 2] - 1) * strides[d] + kernel[d] - pads[d] - pads[spatial + d]);
  const auto all = [](const std::vector<int64_t>& s) { return std::vector<int64_t>{product(s)}; };
  const std::string zeros = c.op("Expand", {c.scalar(0, c.type(0).dtype), c.ints(all(shape))});
  std::string y =
      c.op("ScatterElements", {zeros, c.reshaped(c.input(1), all(x)), c.reshaped(c.input(0), all(x))},
           {{"axis", int64_t{0}}});
  y = c.reshaped(y, shape);
  if (c.has(2)) {
    const std::vector<int64_t> wanted = c.known(2);
    std::vector<int64_t> behind(2 * shape.size(), 0);
    if (wanted.size() != shape.size()) c.ctx().fail("`output_shape` has the wrong length");
    for (size_t d = 0; d < shape.size(); ++d) behind[shape.size() + d] = wanted[d] - shape[d];
    y = c.op("Pad", {y, c.ints(behind)});
  }
  c.give(0, y);
}

// A convolution of each channel with what came before: the state's elements, or zeros, stand in front.
void causal_conv(Composer& c) {
  if (c.rank(0) != 3 || c.rank(1) != 3) c.ctx().fail("the input and the weight must have 3 dimensions");
  const int64_t channels = c.type(0).shape[1], taps = c.type(1).shape[2];
  const Dims state = {c.shape(0)[0], channels, taps - 1};
  const std::string before =
      c.has(3) ? c.input(3) : c.op("Expand", {c.scalar(0, c.type(0).dtype), c.ints(state)});
  const std::string x = c.op("Concat", {before, c.input(0)}, {{"axis", int64_t{2}}});
  std::string y = c.op("Conv", {x, c.input(1), c.has(2) ? c.input(2) : ""}, {{"group", channels}});
  const std::string activation = c.ctx().get_string("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = c.op("Mul", {y, c.op("Sigmoid", {y})});
  else if (activation != "none")
    c.ctx().fail("`activation` is \"" + activation + "\"", "none, silu or swish");
  c.give(0, y);
  const Dim length = taps - 1 + c.shape(0)[2];
  c.give(1, c.sliced(x, 2, length - (taps - 1), length));
}

// Discrete Fourier transforms are products with a matrix of cosines and sines.
struct Turns {
  std::string cosines, sines;  // [inputs, outputs]
};
constexpr int64_t kMostTurns = 1 << 24;

Turns turns(Composer& c, int64_t from, int64_t to, int64_t length, bool inverse, DType type) {
  if (from * to > kMostTurns)
    c.ctx().fail("a transform of " + std::to_string(length) +
                     " elements is too long to be a product with a matrix of turns",
                 "at most " + std::to_string(static_cast<int64_t>(std::sqrt(kMostTurns))) + " elements");
  Tensor cosines(type, {from, to}), sines(type, {from, to});
  for (int64_t i = 0; i < from; ++i)
    for (int64_t k = 0; k < to; ++k) {
      const double turn =
          -2 * std::numbers::pi * static_cast<double>(i * k % length) / static_cast<double>(length);
      cosines.set(i * to + k, std::cos(turn) / (inverse ? static_cast<double>(length) : 1));
      sines.set(i * to + k, std::sin(inverse ? -turn : turn) / (inverse ? static_cast<double>(length) : 1));
    }
  return {c.constant(cosines), c.constant(sines)};
}

void dft(Composer& c) {
  const OpContext& ctx = c.ctx();
  const bool since_20 = ctx.node().opset >= 20, inverse = ctx.get_int("inverse", 0) != 0,
             onesided = ctx.get_int("onesided", 0) != 0;
  const int64_t rank = c.rank(0);
  if (rank < 2) ctx.fail("the input needs a last dimension of 1 (real) or 2 (complex)");
  int64_t given = since_20 ? -2 : ctx.get_int("axis", 1);
  if (since_20 && c.has(2)) given = c.known_number(2);
  const int64_t axis = c.axis(given, rank), parts = c.type(0).shape.back();
  if (axis == rank - 1 || (parts != 1 && parts != 2))
    ctx.fail("the last dimension holds the real and the imaginary part", "another axis; 1 or 2 elements");
  if (onesided && inverse && parts == 1) ctx.fail("an inverse transform of one side needs complex elements");
  const int64_t has = c.type(0).shape[static_cast<size_t>(axis)];
  int64_t length = c.has(1) ? c.known_number(1) : has;
  if (onesided && inverse && !c.has(1)) length = 2 * (has - 1);
  if (length < 1 || length > kMostTurns)
    ctx.fail("the transform's length is " + std::to_string(length), "1 to " + std::to_string(kMostTurns));
  const DType type = c.type(0).dtype;

  // The axis last, the parts apart; what is beyond the length is cut off, and zeros behind add nothing.
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < rank - 1; ++d)
    if (d != axis) perm.push_back(d);
  perm.push_back(axis);
  const auto part = [&](int64_t k) {
    const std::string p = c.op("Squeeze", {c.sliced(c.input(0), rank - 1, k, k + 1), c.ints({rank - 1})});
    return c.op("Transpose", {p}, {{"perm", perm}});
  };
  const bool half = onesided && inverse;  // the other half is this one's mirror image
  const int64_t used = std::min(has, half ? length / 2 + 1 : length),
                made = onesided && !inverse ? length / 2 + 1 : length;
  const auto cut = [&](const std::string& v) { return used < has ? c.sliced(v, rank - 2, 0, used) : v; };
  const std::string real = cut(part(0)), imaginary = parts == 2 ? cut(part(1)) : "";
  const Turns t = turns(c, used, made, length, inverse, type);
  const auto times = [&](const std::string& v, const std::string& m) { return c.op("MatMul", {v, m}); };
  std::string re, im;
  if (half) {
    Tensor twice(type, {used, 1});
    for (int64_t i = 0; i < used; ++i) twice.set(i, i == 0 || 2 * i == length ? 1 : 2);
    const std::string w = c.constant(twice);
    re = c.op("Sub", {times(real, c.op("Mul", {t.cosines, w})), times(imaginary, c.op("Mul", {t.sines, w}))});
  } else if (parts == 2) {
    re = c.op("Sub", {times(real, t.cosines), times(imaginary, t.sines)});
    im = c.op("Add", {times(real, t.sines), times(imaginary, t.cosines)});
  } else {
    re = times(real, t.cosines);
    im = times(real, t.sines);
  }
  std::vector<int64_t> back(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) back[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  const auto placed = [&](const std::string& v) {
    return c.op("Unsqueeze", {c.op("Transpose", {v}, {{"perm", back}}), c.ints({rank - 1})});
  };
  c.give(0, half ? placed(re) : c.op("Concat", {placed(re), placed(im)}, {{"axis", rank - 1}}));
}

// Frames of a signal, each by the window, transformed.
// Where the elements of each frame stand.
std::string places(Composer& c, const Dim& frames, int64_t step, int64_t length) {
  if (!frames.known())
    return c.op("Add",
                {c.op("Mul", {c.counted(frames, 2, 0), c.scalar(static_cast<double>(step), DType::i64)}),
                 c.counted(length, 2, 1)});
  Tensor at(DType::i64, {frames, length});
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t i = 0; i < length; ++i) at.set_int(f * length + i, f * step + i);
  return c.constant(at);
}

void stft(Composer& c) {
  const OpContext& ctx = c.ctx();
  const Dims& shape = c.shape(0);
  const Dim signal = shape.size() > 1 ? shape[1] : Dim(0), parts = shape.size() == 3 ? shape[2] : Dim(1);
  const bool onesided = ctx.get_int("onesided", 1) != 0;
  if (shape.size() < 2 || shape.size() > 3 || parts != 1)
    ctx.fail("the signal is " + to_string(c.type(0)) + "; real ones are supported, [batch, length, 1]");
  const int64_t step = c.known_number(1),
                length = c.has(3) ? c.known_number(3) : int64_t{c.has(2) ? c.size(2, 0) : Dim(0)};
  if (step < 1 || length < 1 || !ops::must_be_at_most(length, signal, "a frame fits into the signal"))
    ctx.fail("a frame's length or step is out of range", "1 up to the signal's length");
  const Dim frames = (signal - length) / step + 1;
  const int64_t made = onesided ? length / 2 + 1 : length;
  if (length > kMostTurns || (frames.known() && frames > kMostTurns / length))
    ctx.fail(to_string(frames) + " frames of " + std::to_string(length) + " elements are too many",
             "a longer step, or the signal in parts");
  const std::string flat = c.reshaped(c.input(0), {shape[0], signal});
  std::string x = c.op("Gather", {flat, places(c, frames, step, length)}, {{"axis", int64_t{1}}});
  if (c.has(2)) x = c.op("Mul", {x, c.input(2)});
  const Turns t = turns(c, length, made, length, false, c.type(0).dtype);
  const auto part = [&](const std::string& m) {
    return c.op("Unsqueeze", {c.op("MatMul", {x, m}), c.ints({3})});
  };
  c.give(0, c.op("Concat", {part(t.cosines), part(t.sines)}, {{"axis", int64_t{3}}}));
}

}  // namespace

std::vector<Composition> onnx_compositions() {
  const auto with = [](double a0, double a1, double a2) {
    return [=](Composer& c) { window(c, a0, a1, a2); };
  };
  return {{"", "SwiGLU", 1, swiglu},
          {"", "Hardmax", 1, hardmax},
          {"", "CenterCropPad", 18, center_crop_pad},
          {"", "HannWindow", 17, with(0.5, 0.5, 0)},
          {"", "HammingWindow", 17, with(25.0 / 46, 21.0 / 46, 0)},
          {"", "BlackmanWindow", 17, with(0.42, 0.5, 0.08)},
          {"", "ReverseSequence", 10, reverse_sequence},
          {"", "TensorScatter", 1, tensor_scatter},
          {"", "MaxUnpool", 9, max_unpool},
          {"", "CausalConvWithState", 1, causal_conv},
          {"", "DFT", 17, dft},
          {"", "STFT", 17, stft}};
}

}  // namespace nestor
