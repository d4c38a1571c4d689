// A convolution with few filters has little to share: neither filters nor the outputs of one residue of a
// stride fill the rows of a register tile, and each residue reads the whole input again. But its taps are
// alike: all products of an input element with the weights of all taps and filters are one product of
// matrices,
//
//   T[o r s, y x] = sum over c  W[o, c, r, s] X[c, y x]
//
// which reads the input once, and Col2Im adds up what falls on the same output. This holds for a
// ConvTranspose of any stride, and for a Conv without strides, whose taps lie the other way around. T has to
// be written and read; how much that is, against what lanes are empty otherwise, is what the choice weighs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/lanes.h"
#include "src/graph/passes.h"
#include "src/ops/products.h"
#include "src/ops/transposed.h"

namespace nestor {

namespace {

using ops::TransposedShape;

// The share of all products that reach an output: the others aren't computed.
double share_inside(const TransposedShape& s) {
  double share = 1;
  for (size_t d = 0; d < s.input.size(); ++d) {
    const int64_t pairs =
        ops::pairs_inside(s.input[d], s.kernel[d], s.stride[d], s.dilation[d], s.pad[d], s.output[d]);
    share *= static_cast<double>(pairs) / static_cast<double>(s.input[d] * s.kernel[d]);
  }
  return share;
}

// How many cycles of one core an element of T takes, or what stands for it in the nests of residues or
// windows. Fitted to 450 works of random shapes on Granite Rapids, f32 in vectors of 16, and only there: of
// these what it decides was between 0.76 and 20 times as fast as the other way. Arithmetic goes with the
// target's lanes; what is waited for where channels lie badly, or far away, does not (the model is fitted as
// if it were arithmetic in vectors of 16).
class Costs {
 public:
  Costs(const TransposedShape& s, DType type, double nests, const OptimizeOptions& options)
      : s_(s), lanes_(options.lanes), nests_(nests) {
    const Dims three(2, 3), one(2, 1);
    transformed_ = options.winograd && type == DType::f32 && s.kernel == three && s.stride == one &&
                   s.dilation == one && s.group == 1;
    const auto bytes = static_cast<double>(bytes_of(type));
    const double pixels = static_cast<double>(product(s.input)),
                 taps = static_cast<double>(product(s.kernel));
    constexpr double kNear = 1.5 * (1 << 20), kPage = 4096;
    far_ = pixels * bytes * static_cast<double>(s.channels) > kNear;
    clash_ = std::fmod(pixels * bytes, kPage) == 0;  // channels meet in few sets of the caches
    megabytes_ = static_cast<double>(s.n * s.filters) * taps * pixels * bytes / (1 << 20);
    const auto channels = static_cast<double>(s.channels / s.group);
    steps_ = channels / (kFmasPerCycle * static_cast<double>(lanes_));
    widest_steps_ = channels / (kFmasPerCycle * static_cast<double>(kWidestVector));
  }

  double columns() const {
    constexpr double kLeast = 1, kOfAMegabyte = 0.3, kFromMemory = 10;
    return steps_ / kReached + (far_ || clash_ ? waited(kReached, kReachedFromAfar) : 0) +
           std::min(kLeast + kOfAMegabyte * megabytes_, kFromMemory);
  }
  double direct() const {
    constexpr double kWritten = 0.5;
    return share_inside(s_) * (steps_ / reached() + waiting()) + kWritten + passes();
  }

 private:
  static constexpr double kReached = 0.75, kReachedFromAfar = 0.5;

  // By which the widest vectors reach one share of their peak instead of the other.
  double waited(double near, double afar) const { return widest_steps_ * (1 / afar - 1 / near); }

  // By a register tile of filters in blocks of lanes: so many filters are worth a block. Of residues they are
  // worth their blocks (blocked_values.cpp), unless one iterator stands for both (ops/conv_transpose.cpp).
  bool by_filters() const {
    const int64_t filters = s_.filters / s_.group, whole = ceil_div(filters, lanes_) * lanes_;
    if (s_.group > 1 && filters % lanes_ != 0) return false;
    if (!s_.strided()) return 4 * filters >= 3 * lanes_;
    const bool scattered = s_.stride.back() > 2;
    return filters >= lanes_ && 4 * filters >= (scattered ? 2 : 3) * whole;
  }
  // Of the peak: of windows along a row, a vector of the row and the next few by all filters; of residues, a
  // few filters by what a row of the image is cut into.
  double reached() const {
    constexpr double kOfAFilter = 0.05, kOfResidues = 0.4;
    const int64_t filters = s_.filters / s_.group, whole = ceil_div(filters, lanes_) * lanes_;
    const auto n = static_cast<double>(filters);
    if (by_filters()) return kReached * n / static_cast<double>(whole) * hidden(whole / lanes_);
    return s_.strided() ? std::min(kOfResidues, kOfAFilter * n) : windows(lanes_);
  }
  // Of an FMA's latency. A tile is `vectors` of filters, as many as choose_tile takes beside each other, by
  // outputs of one residue along a row. Beside padding a tap reaches few of these, and leaves few FMAs under
  // way, unless the sum may be Winograd's. (Zen 3, 4x4 of 64 to 58 at 30x5 0.34 ms, by columns 0.23; 5x5 of
  // 128 to 128 at 6x6 0.60 and 0.38.)
  double hidden(int64_t vectors) const {
    constexpr int64_t kToHideLatency = 8;
    const bool many_registers = lanes_ >= kWidestVector;
    const int64_t beside = many_registers ? 4 : 2, accumulators = many_registers ? 24 : 12;
    const size_t d = s_.input.size() - 1;
    const int64_t stride = s_.stride[d];
    int64_t made = 0, slots = 0;
    for (int64_t tap = 0; tap < s_.kernel[d]; ++tap) {
      const int64_t back = s_.dilation[d] * tap - s_.pad[d], first = (back % stride + stride) % stride;
      if (first >= s_.output[d]) continue;
      const int64_t outputs = ceil_div(s_.output[d] - first, stride), input = (first - back) / stride;
      const int64_t columns = std::min(vectors, std::max(beside, ceil_div(kToHideLatency, outputs)));
      const int64_t rows = ceil_div(outputs, ceil_div(outputs * columns, accumulators));
      for (int64_t t = 0; t < outputs; t += rows) {
        int64_t from = t, to = std::min(t + rows, outputs);
        if (!transformed_) {
          from = std::max(from, -input);
          to = std::min<int64_t>(to, s_.input[d] - input);
        }
        const int64_t reached = columns * std::max<int64_t>(0, to - from);
        made += reached;
        slots += reached ? std::max(reached, kToHideLatency) : 0;
      }
    }
    return slots ? static_cast<double>(made) / static_cast<double>(slots) : 1;
  }
  // Each nest of residues passes over the whole output, for the taps that are its own, by what a row of them
  // is long. (Cascade Lake, 5x5x5 taps, strides of 4: on 4x8x4 direct sums take twice the time of columns.)
  double passes() const {
    constexpr double kOfANest = 0.3;
    if (by_filters() || !s_.strided()) return 0;
    const auto row = static_cast<double>(s_.output.back()) / static_cast<double>(s_.stride.back());
    return kOfANest * nests_ * nests_ / row;
  }
  double windows(int64_t lanes) const {
    constexpr double kWindows = 0.8, kInFlight = 16;
    const int64_t row = s_.output.back(), vectors = ceil_div(row, lanes);
    const double in_flight =
        static_cast<double>(s_.filters / s_.group) * static_cast<double>(std::min<int64_t>(vectors, 8));
    return kWindows * filled(row, lanes) * std::min(1.0, in_flight / kInFlight);
  }
  double waiting() const {
    constexpr double kClash = 0.35, kAfar = 0.55;
    if (by_filters() || s_.strided() || !(clash_ || far_)) return 0;
    const double near = windows(kWidestVector);
    return waited(near, near * (clash_ ? kClash : kAfar));
  }

  const TransposedShape& s_;
  int64_t lanes_;
  double nests_;  // where passes over the output count, else 0
  double megabytes_, steps_, widest_steps_;
  bool far_, clash_, transformed_;
};

// The same where an image stays in planes, as its filters fill too little of their last block of channels for
// blocks to be worth their while (src/graph/blocked_values.cpp), on a core that takes up few micro-operations
// a cycle and whose third level is far. There lanes lie along rows of the image, with a load for each product
// or two; windows that step by one are computed whole, in the padding too. Fitted to 235 works of random
// shapes on Cascade Lake: what it decides took 0.63 of the time of direct sums, the better one of each 0.61;
// of 15 others that it alone made columns 0.69.
class PlaneCosts {
 public:
  PlaneCosts(const TransposedShape& s, DType type, int64_t lanes) : s_(s), lanes_(lanes) {
    constexpr double kNear = 1.5 * (1 << 20);
    const auto bytes = static_cast<double>(bytes_of(type));
    pixels_ = static_cast<double>(product(s.input));
    const auto products = static_cast<double>(s.n * s.filters * product(s.kernel)) * pixels_;
    far_ = pixels_ * bytes * static_cast<double>(s.channels) > kNear;
    megabytes_ = products * bytes / (1 << 20);
    steps_ = static_cast<double>(s.channels) / (kFmasPerCycle * static_cast<double>(lanes));
  }
  static bool applies(const TransposedShape& s, int64_t lanes) {
    return s.group == 1 && 4 * s.filters < 3 * lanes * ceil_div(s.filters, lanes);
  }

  double columns() const {
    constexpr double kNear = 0.6, kAfar = 0.36, kLeast = 0.8, kOfAMegabyte = 0.125, kFromMemory = 5.5;
    return steps_ / (far_ ? kAfar : kNear) + kLeast + std::min(kOfAMegabyte * megabytes_, kFromMemory);
  }
  double direct() const {
    constexpr double kAfar = 0.58, kWritten = 0.35;
    const double share = s_.strided() ? share_inside(s_) : static_cast<double>(product(s_.output)) / pixels_;
    return share * steps_ / (far_ ? kAfar * reached() : reached()) + kWritten;
  }

 private:
  double reached() const {
    constexpr double kOfResidues = 0.29, kOfWindows = 0.45, kAlongOneDimension = 0.65;
    if (s_.strided()) return kOfResidues;
    if (s_.input.size() == 1) return kAlongOneDimension;
    return kOfWindows * filled(s_.output.back(), lanes_);
  }

  const TransposedShape& s_;
  int64_t lanes_;
  double pixels_, megabytes_, steps_;
  bool far_;
};

struct Choice {
  bool columns = false;
  std::string why;  // empty where nothing speaks for them
};

Choice choose(const TransposedShape& s, DType type, const OptimizeOptions& options) {
  constexpr int64_t kMostTerms = 512;    // of an output; more than 64 are a reduction's loops, no more code
  constexpr int64_t kLeastChannels = 8;  // for an element of T to be more than a product or two
  constexpr double kLeastGain = 0.9, kLeastGainInside = 0.75;
  // Of residues, each a product of its own: 125 of them took 5 s to compile, one product and a Col2Im 0.7 s.
  constexpr size_t kMostNests = 32;
  const int64_t lanes = options.lanes;
  int64_t terms = 1;
  for (size_t d = 0; d < s.input.size(); ++d) {
    if (s.output[d] < 1 || s.input[d] < 1 || s.kernel[d] > kMostTerms * s.stride[d]) return {};
    terms *= ceil_div(s.kernel[d], s.stride[d] / std::gcd<int64_t, int64_t>(s.stride[d], s.dilation[d]));
  }
  if (terms > kMostTerms || product(s.kernel) == 1) return {};
  const std::vector<ops::ResidueClasses> nests = ops::classes_of(s);
  if (nests.size() > kMostNests)
    return {true, fmt::format("{} residues, each a product of its own, would be much code", nests.size())};
  if (s.channels / s.group < kLeastChannels) return {};
  const auto by = [&](const auto& costs, double least) -> Choice {
    const double share = costs.columns() / costs.direct();
    return {share < least, fmt::format("a matrix product and Col2Im take {:.2f} times the cycles of the "
                                       "direct convolution; they are used only below {:.2f} times",
                                       share, least)};
  };
  const auto sums = std::count_if(nests.begin(), nests.end(), [](const ops::ResidueClasses& n) {
    return std::all_of(n.begin(), n.end(), [](const ops::ResidueClass& c) { return c.taps > 0; });
  });
  const Choice any = by(Costs(s, type, options.waits ? static_cast<double>(sums) : 0, options), kLeastGain);
  if (any.columns || !options.waits || !PlaneCosts::applies(s, lanes)) return any;
  // Windows that stay inside their image waste nothing in its padding.
  const bool inside = !s.strided() && product(s.output) < product(s.input);
  return by(PlaneCosts(s, type, lanes), inside ? kLeastGainInside : kLeastGain);
}

// A Conv as the ConvTranspose whose taps lie the other way around; nothing where it isn't one.
std::optional<TransposedShape> turned(const ops::ConvShape& c) {
  const ops::Window& w = c.window;
  TransposedShape s{c.n,      c.channels, c.filters,  c.group, true,    w.input,
                    w.kernel, w.stride,   w.dilation, {},      w.output};
  for (size_t d = 0; d < w.rank(); ++d) {
    s.pad.push_back(w.extent(d) - 1 - w.pad_begin[d]);
    if (w.stride[d] != 1 || s.pad[d] < 0) return std::nullopt;
  }
  return s;
}

// Paddings with which an image of the output's size has as many blocks as the input has elements; empty where
// there are none.
Dims paddings(const TransposedShape& s) {
  Dims out = s.pad;
  for (size_t d = 0; d < s.input.size(); ++d) {
    const Dim whole = s.stride[d] * (s.input[d] - 1) + s.dilation[d] * (s.kernel[d] - 1) + 1;
    const Dim end = whole - s.pad[d] - s.output[d];
    if (!end.known() || end <= -s.stride[d]) return {};
    out.push_back(max(end, 0));
  }
  return out;
}

// Weights of either order as [group, filters * taps, channels], the taps of a Conv turned around.
Tensor taps_first(const Tensor& w, const TransposedShape& s) {
  const int64_t channels = s.channels / s.group, filters = s.filters / s.group, taps = product(s.kernel);
  Tensor out(w.dtype(), {s.group, filters * taps, channels});
  const int64_t bytes = bytes_of(w.dtype());
  const auto* source = static_cast<const char*>(w.data());
  auto* target = static_cast<char*>(out.data());
  for (int64_t g = 0; g < s.group; ++g)
    for (int64_t o = 0; o < filters; ++o)
      for (int64_t t = 0; t < taps; ++t)
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t at = s.filters_first ? ((g * filters + o) * channels + c) * taps + taps - 1 - t
                                             : ((g * channels + c) * filters + o) * taps + t;
          std::memcpy(target, source + at * bytes, static_cast<size_t>(bytes));
          target += bytes;
        }
  return s.group == 1 ? out.reshaped({filters * taps, channels}) : out;
}

class ColumnsExpansion : Expansion {
 public:
  using Expansion::Expansion;

  void run(const TransposedShape& s, const Dims& pads, const std::string& why) {
    const Dim pixels = product(s.input);
    const int64_t channels = s.channels / s.group;
    const Dims columns = s.group > 1 ? Dims{s.n, s.group, channels, pixels} : Dims{s.n, channels, pixels};
    const Tensor w = taps_first(constant_of(g_, n_.inputs[1]), s);
    const ValueId x = reshaped(n_.inputs[0], columns);
    ValueId products = add("MatMul", {constant("taps_first", w), x});
    if (s.group > 1) products = reshaped(products, {s.n, w.size() / channels, pixels});
    std::vector<ValueId> inputs = {products, list(s.output), constant("block", ints(s.kernel))};
    if (n_.inputs.size() > 2 && n_.inputs[2] >= 0) inputs.push_back(n_.inputs[2]);
    add("Col2Im", inputs, {{"strides", s.stride}, {"dilations", s.dilation}, {"pads", pads}}, "nestor");
    finish();
    nodes_.back().why = why;
  }
};

// Whether what makes v, past element-wise nodes, is a convolution that may be Winograd's: that needs its
// result in blocks of channels, which a product of matrices doesn't read, and would be a direct sum instead,
// at two or three times the cost.
bool behind_winograd(const Graph& g, ValueId v) {
  for (int p = value_of(g, v).producer; p >= 0; p = value_of(g, v).producer) {
    const Node& n = g.nodes[static_cast<size_t>(p)];
    if (has_winograd_form(g, n)) return true;
    const OpDef* op = find_op(n.domain, n.op, n.opset);
    if (!op || op->pattern > Pattern::broadcast || n.inputs.empty() || n.inputs[0] < 0) return false;
    v = n.inputs[0];
  }
  return false;
}

// With its sizes as they usually are.
TransposedShape usual(TransposedShape s) {
  for (Dim* d : {&s.n, &s.channels, &s.filters}) *d = d->typical();
  for (Dims* list : {&s.input, &s.output}) *list = list->typical();
  return s;
}

std::optional<TransposedShape> shape_of(const Graph& g, const Node& n, const OptimizeOptions& options) {
  if ((n.op != "ConvTranspose" && n.op != "Conv") || !n.domain.empty() || !is_constant(g, n.inputs[1]))
    return std::nullopt;
  const bool suits = options.winograd && options.waits && suits_winograd(g, n, options.lanes);
  if (suits || behind_winograd(g, n.inputs[0])) return std::nullopt;
  const OpContext ctx(g, n);
  if (bytes_of(ctx.input(0).dtype) < 4) return std::nullopt;  // rounded once, behind all sums
  return n.op == "Conv" ? turned(ops::conv_shape(ctx, 1)) : std::optional(ops::transposed_shape(ctx));
}

}  // namespace

void use_col2im(Graph& g, const EvaluateFn&, const OptimizeOptions& options) {
  std::vector<Node> nodes;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node n = g.nodes[i];  // a copy: values move when some are added
    const auto s = shape_of(g, n, options);
    const Choice choice = s ? choose(usual(*s), value_of(g, n.inputs[0]).type.dtype, options) : Choice();
    if (const Dims pads = choice.columns ? paddings(*s) : Dims(); !pads.empty()) {
      ColumnsExpansion(g, n, nodes).run(*s, pads, choice.why);
    } else {
      if (!choice.columns) n.why = choice.why;
      nodes.push_back(std::move(n));
    }
  }
  replace_nodes(g, std::move(nodes));
  compact(g, std::vector<bool>(g.nodes.size(), true));
}

}  // namespace nestor
