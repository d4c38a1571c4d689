// Which convolutions are worth Winograd's algorithm. F(4x4, 3x3) needs a quarter of the products, F(3x3, 3x3)
// 25 of 81, F(2x2, 3x3) 4 of 9; against that stand the transforms of tiles, tiles that hang over the border,
// and weights that are 4 (25/9, 16/9) times as many bytes, and have to come from somewhere. The model counts
// cycles of one core:
//
//   arithmetic: two vector FMAs a cycle
//   transforms: what the loops of src/ops/winograd.cpp come to, for each tile and vector of channels, and
//               what begins, ends and moves a short sum of products for each vector of results where L3 is
//               near, which is most of it where channels are few (Zen 3, images of 8 to 112: of 4 channels as
//               much time as the direct sum or half as much again, of 8 two thirds, of 16 half); many times
//               that for the input where its channels are less than a vector, by no power of two, and stores
//               have no masks (Zen 3, 16 filters at 124 x 124: of 7 channels 0.53 ms, direct 0.31; of 8 0.24)
//   weights:    once through the caches in a call, a fifth hidden behind the arithmetic; from L3, which
//               serves each thread its part, or from memory where all weights of the model together are more
//               than L3 holds. From L3, half is hidden where a line has uses enough to be asked for a panel
//               ahead (Cascade Lake, by F(4x4) instead of F(2x2): 64-128 at 14 x 14 26 % less time, 96-160
//               and 64-256 20, 128-64 and 192-64 16, 128-128 12). Which tile is best is asked with a third
//               hidden where L3 is far: F(3x3) has the fewer weights (256 at 14 x 14 5 % less time, 384 10 to
//               16). Whether any is better than the direct sum is not: of four images, 32-512 at 7 x 7 would
//               take 1.7 times as long
//   spills:     where a row of tiles, its weights and its results don't stay in the second-level cache
//               together, products go behind it and come back, the more of them the less of the cache is
//               left (Cascade Lake: of 64@56 F(4x4) takes 26 % less time than F(3x3), which needs two thirds
//               of the cache, not nine tenths; of 64@45 6 % more); where a row of tiles takes half of it and
//               the third level is far, whose lines are fetched before they are written, so do the
//               transformed tiles, and what is more than a quarter of it comes from memory. With few
//               channels, or few filters, there is little else to do (Granite Rapids: 16-384 at 104 x
//               104 15.4 ms, direct 7.1; Cascade Lake: 16-256 at 104 9.6 and 6.0, 256-16 9.6 and 7.4,
//               128-64 6.6 and 12.2). Where it is near, products of few channels are made for a few filters
//               at a time, whose results are asked for ahead: little spills (Zen 3: 8-192 at 123 x 123 2.7
//               ms, direct 4.4, 16-192 at 112 3.3 and 7.0, of ten images 8-192 at 37 2.4 and 4.0, 4-192 1.7
//               and 2.1)
//   reorders:   lanes are channels, so that what isn't in blocks of them (a model's inputs and outputs) is
//               copied: a read and a write of each element (Zen 3, row-major images of 8 to 64 channels, 45
//               layers that are Winograd's by 8 bytes a cycle, not by 5: 36 % less time, the least 13)
//
// Rounding is worse than the direct sum's, so that a tenth less time is the least that is asked for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/lanes.h"
#include "src/graph/passes.h"
#include "src/graph/reorders.h"
#include "src/graph/winograd_budget.h"

namespace nestor {

namespace {

constexpr double kBytesFromL3 = 16, kBytesFromMemory = 9;
constexpr double kBytesReorderedFar = 5;
constexpr double kShownOfWeights = 0.8, kShownAskedAhead = 0.5, kShownAskedFar = 0.64, kLeastGain = 0.9;
constexpr double kLittleMore = 1.08;     // time for which no other weights are stored
constexpr double kUsesToAskAhead = 12;   // of a line, as in schedules/library/stream_panels.cpp
constexpr double kLeastUses = 4;         // of a vector of weights: with fewer, loads bind
constexpr double kPieces = 12;           // of the time that a vector's transform takes
constexpr double kOfAResult = 8;         // cycles beside the transform and the FMAs, where L3 is near
constexpr double kChannelsToSpill = 32;  // there; products of fewer are made for a few filters at a time
// Of a far third level: the part of it that stays, bytes from memory.
constexpr double kPartOfL3 = 4, kFarFromMemory = 6.5;

struct Layer {
  int64_t n, channels, filters, height, width;  // of the output
  double taps;                                  // of all outputs of an image, those in the padding left out
  int64_t reordered = 0;                        // bytes of operands and results that aren't in blocks
};

// How often one of three taps meets an element of the input, over all outputs along a dimension.
int64_t taps_inside(int64_t input, int64_t output, int64_t pad) {
  int64_t taps = 0;
  for (int64_t r = 0; r < 3; ++r)
    taps += std::max<int64_t>(0, std::min(output, input + pad - r) - std::max<int64_t>(0, pad - r));
  return taps;
}

// A convolution that the algorithm applies to.
std::optional<Layer> layer_of(const Graph& g, const Node& n) {
  if (!has_winograd_form(g, n)) return std::nullopt;
  const OpContext ctx(g, n);
  const std::vector<int64_t> x = ctx.input(0).shape.typical(), w = ctx.input(1).shape.typical(),
                             y = ctx.output(0).shape.typical();
  if (product(y) == 0) return std::nullopt;
  // What auto_pad adds is split evenly, or almost so.
  const auto pads = ctx.get_ints("pads", {(y[2] - x[2] + 2) / 2, (y[3] - x[3] + 2) / 2});
  const int64_t taps = taps_inside(x[2], y[2], pads[0]) * taps_inside(x[3], y[3], pads[1]);
  return Layer{y[0], w[1], w[0], y[2], y[3], static_cast<double>(taps)};
}

class Costs {
 public:
  Costs(const Layer& l, const WinogradOptions& o, bool from_memory)
      : l_(l), o_(o), from_memory_(from_memory) {}

  double direct() const {
    const double products = real(l_.n) * l_.taps * real(l_.channels) * vectors(l_.filters);
    return products / kFmasPerCycle / o_.threads +
           weights(9, real(l_.n * l_.height * l_.width), kShownAskedAhead);
  }
  // `asked`: the part of weights that shows, where they are asked for ahead.
  double winograd(int64_t tile, double asked = kShownAskedAhead) const {
    const double reads = real(tile + 2), rows = real(ceil_div(l_.height, tile));
    const double tiles = real(l_.n) * rows * real(ceil_div(l_.width, tile));
    const double uses = std::max(tiles, kLeastUses);
    const double products = reads * reads * uses * real(l_.channels) * vectors(l_.filters);
    // Stores bind: tile columns of the first pass over the input are shared, the others are whole tiles.
    const double in = reads * (real(tile) + 0.2) + reads * reads, out = real(tile) * (reads + real(tile));
    const double pieces = in_pieces() ? kPieces : 1;
    const double transforms = 1.3 * tiles * (pieces * in * vectors(l_.channels) + out * vectors(l_.filters)) +
                              results() * real(l_.n * l_.height * l_.width) * vectors(l_.filters);
    const double reorders = 2 * real(l_.reordered) / (o_.far_l3 ? kBytesReorderedFar : kBytesReordered);
    return (products / kFmasPerCycle + transforms + reorders + spills(tile)) / o_.threads +
           weights(reads * reads, tiles, asked);
  }
  // To compare tiles.
  double winograd_among(int64_t tile) const {
    return winograd(tile, o_.far_l3 ? kShownAskedFar : kShownAskedAhead);
  }

 private:
  static double real(int64_t n) { return static_cast<double>(n); }
  double vectors(int64_t channels) const { return real(ceil_div(channels, o_.lanes)); }

  double results() const { return o_.far_l3 ? 0 : kOfAResult; }

  // Whether a vector of the input's channels is stored and read in pieces.
  bool in_pieces() const {
    return !o_.masks && l_.channels < o_.lanes && (l_.channels & (l_.channels - 1)) != 0;
  }

  double spills(int64_t tile) const {
    const double points = 4 * real(tile + 2) * real(tile + 2), l2 = real(o_.l2_bytes);
    const double tiles_of_row = real(ceil_div(l_.width, tile)), rows = real(l_.n * ceil_div(l_.height, tile));
    const double row = points * tiles_of_row * real(l_.channels + l_.filters);
    const double weights = points * real(l_.channels) * real(l_.filters);
    const double results = 4 * real(tile) * real(l_.width) * real(l_.filters);
    const double beyond = (row + weights + results - 0.75 * l2) / (0.25 * l2);
    if (row * rows <= l2 || beyond <= 0) return 0;
    const double products = points * tiles_of_row * rows * real(l_.filters), from_l3 = o_.l3_bytes_per_cycle;
    const double goes = std::min(beyond, 1.0) * 2 * products;
    if (!o_.far_l3) return std::min(1.0, real(l_.channels) / kChannelsToSpill) * goes / from_l3;
    if (2 * row <= l2) return goes / from_l3;
    const double moved = products + points * tiles_of_row * rows * real(l_.channels);
    return 3 * moved / (kPartOfL3 * moved <= real(o_.l3_bytes) ? from_l3 : std::min(from_l3, kFarFromMemory));
  }
  double weights(double of_each_pair, double uses, double asked) const {
    const double bytes = 4 * of_each_pair * real(l_.channels) * real(l_.filters);
    if (!from_memory_ && bytes <= real(o_.l2_bytes)) return 0;
    const bool far = from_memory_ || bytes > real(o_.l3_bytes);
    const double shown = !far && uses >= kUsesToAskAhead ? asked : kShownOfWeights;
    return shown * bytes / (far ? kBytesFromMemory : kBytesFromL3 * o_.threads);
  }

  Layer l_;
  WinogradOptions o_;
  bool from_memory_;
};

// Tiles whose weights are stored; see TransformedWeights.
using Stored = std::set<int64_t>;

WinogradChoice choose_tile(const Layer& l, const WinogradOptions& options, bool from_memory,
                           const Stored& stored) {
  if (options.tile) return {options.tile, "the algorithm was requested", 0, {{options.tile, 0}}};
  const Costs costs(l, options, from_memory);
  const double direct = costs.direct();
  double least = HUGE_VAL;
  std::vector<double> shares;
  WinogradChoice choice;
  for (const int64_t tile : {2, 3, 4}) {
    shares.push_back(costs.winograd(tile) / direct);
    const double among = costs.winograd_among(tile);
    if (shares.back() > kLeastGain) continue;
    choice.gains[tile] = direct - costs.winograd(tile);
    if (among >= least) continue;
    least = among;
    choice.tile = tile;
  }
  if (const int64_t best = choice.tile; best != 0 && !stored.count(best)) {
    double near = kLittleMore * least;
    for (const auto& [tile, gain] : choice.gains)
      if (const double among = costs.winograd_among(tile); stored.count(tile) && among <= near) {
        near = among;
        choice.tile = tile;
      }
  }
  if (choice.tile != 0) choice.gain = choice.gains.at(choice.tile);
  choice.why = fmt::format(
      "Winograd's F(4x4, 3x3) takes {:.2f} times the cycles of the direct convolution, F(3x3, 3x3) {:.2f}, "
      "F(2x2, 3x3) {:.2f}; it is used only below {:.1f} times, because it rounds more",
      shares[2], shares[1], shares[0], kLeastGain);
  if (options.far_l3 && choice.tile != 0 &&
      shares[static_cast<size_t>(choice.tile - 2)] > *std::ranges::min_element(shares))
    choice.why += fmt::format("; F({0}x{0}, 3x3) reads fewer weights from beyond the caches", choice.tile);
  if (choice.tile != 0)
    choice.why += fmt::format(
        "; an infinity, a NaN or a very large element of the image affects all {0}x{0} outputs of its tiles; "
        "with --exact-conv only those that read it",
        choice.tile);
  return choice;
}

// Layers may share weights: `transformed` has those that were transformed before.
using Transformed = std::map<std::pair<ValueId, int64_t>, ValueId>;

ValueId transform(Graph& g, const Node& conv, int64_t tile, const EvaluateFn& evaluate,
                  Transformed& transformed) {
  const auto known = transformed.find({conv.inputs[1], tile});
  if (known != transformed.end()) return known->second;
  Node weights{"WinogradWeights", conv.name, 1, {conv.inputs[1]}, {}, {{"tile", tile}}, "nestor"};
  const TensorType type = find_op("nestor", "WinogradWeights", 1)->infer(OpContext(g, weights))[0];
  const std::string name = value_of(g, conv.inputs[1]).name + ".winograd";
  weights.outputs = {add_value(g, name, type)};
  NESTOR_CHECK(evaluate_node(g, weights, evaluate)) << "the weights of " << conv.name;
  return transformed[{conv.inputs[1], tile}] = weights.outputs[0];
}

Node winograd_node(const Node& conv, const WinogradChoice& choice, ValueId weights) {
  Node out = conv;
  out.op = "WinogradConv";
  out.domain = "nestor";
  out.opset = 1;
  out.inputs.resize(3, -1);
  out.inputs = {conv.inputs[0], weights, out.inputs[2], conv.inputs[1]};
  out.attrs["tile"] = choice.tile;
  out.why = choice.why;
  return out;
}

int64_t bytes_of_constants(const Graph& g) {
  int64_t bytes = 0;
  for (const Value& v : g.values)
    if (v.constant.defined()) bytes += v.constant.bytes();
  return bytes;
}

// Of those that become Winograd's; the others say why not.
WinogradChoices choose_tiles(Graph& g, const Partition& p, const WinogradOptions& options,
                             const std::set<ValueId>& refused) {
  const int64_t bytes = bytes_of_constants(g);
  const auto unblocked = [&](ValueId v) {
    const TensorType& t = value_of(g, v).type;
    return p.blocked.count(v) ? 0 : product(t.shape.typical()) * bytes_of(t.dtype);
  };
  WinogradChoices chosen;
  for (const KernelCall& call : p.calls)
    for (const int i : call.nodes) {
      Node& n = g.nodes[static_cast<size_t>(i)];
      std::optional<Layer> layer = layer_of(g, n);
      if (!layer) continue;
      if (refused.count(n.outputs[0])) {
        n.why = "Winograd's algorithm can't have its operands in a blocked layout";
        continue;
      }
      for (const ValueId v : images_of(g, call, {n.outputs[0]})) layer->reordered += unblocked(v);
      Stored stored;
      for (const int64_t tile : {2, 3, 4})
        if (options.stored && options.stored->known.count({hash_of_bytes(constant_of(g, n.inputs[1])), tile}))
          stored.insert(tile);
      WinogradChoice choice = choose_tile(*layer, options, bytes > options.l3_bytes, stored);
      if (choice.tile != 0)
        chosen[n.outputs[0]] = std::move(choice);
      else
        n.why = std::move(choice.why);
    }
  keep_within(options.budget < 0 ? std::max(bytes, WinogradOptions::kSmallModel) : options.budget,
              options.stored, g, chosen);
  return chosen;
}

}  // namespace

bool has_winograd_form(const Graph& g, const Node& n) {
  return has_winograd_shape(g, n) && is_constant(g, n.inputs[1]);
}

bool has_winograd_shape(const Graph& g, const Node& n) {
  if (n.op != "Conv" || !n.domain.empty()) return false;
  const OpContext ctx(g, n);
  const std::vector<int64_t>&w = ctx.input(1).shape, ones{1, 1};
  return ctx.input(0).dtype == DType::f32 && w.size() == 4 && w[2] == 3 && w[3] == 3 &&
         ctx.get_ints("strides", ones) == ones && ctx.get_ints("dilations", ones) == ones &&
         ctx.get_int("group", 1) == 1;
}

bool suits_winograd(const Graph& g, const Node& n, int64_t lanes) {
  constexpr int64_t kLeastChannels = 16, kLeastImage = 28;
  constexpr double kFilled = 0.62;  // of the lanes of blocks of filters
  if (!has_winograd_form(g, n)) return false;
  const OpContext ctx(g, n);
  const std::vector<int64_t> w = ctx.input(1).shape, y = ctx.output(0).shape.typical();
  return w[1] >= kLeastChannels && std::min(y[2], y[3]) >= kLeastImage &&
         static_cast<double>(w[0]) >= kFilled * static_cast<double>(lanes * ceil_div(w[0], lanes));
}

bool use_winograd(Graph& g, Partition& p, const PartitionOptions& how, const WinogradOptions& options,
                  const EvaluateFn& evaluate) {
  if (how.channel_block <= 1) return false;
  std::set<ValueId> refused;
  for (;;) {
    const WinogradChoices chosen = choose_tiles(g, p, options, refused);
    if (chosen.empty()) return false;
    std::set<ValueId> results;
    for (const auto& [made, choice] : chosen) results.insert(made);
    Graph changed = with_reorders(g, p, results);
    const Partition q = partition(changed, how);
    const size_t before = refused.size();
    for (const KernelCall& call : q.calls)
      for (const int i : call.nodes) {
        const Node& n = changed.nodes[static_cast<size_t>(i)];
        if (chosen.count(n.outputs[0]) &&
            !(q.blocked.count(n.inputs[0]) && q.blocked.count(call.args.back())))
          refused.insert(n.outputs[0]);
      }
    if (refused.size() > before) continue;
    Transformed transformed;
    for (Node& n : changed.nodes)
      if (const auto it = chosen.find(n.outputs[0]); it != chosen.end())
        n = winograd_node(n, it->second, transform(changed, n, it->second.tile, evaluate, transformed));
    g = std::move(changed);
    p = partition(g, how);
    for (const KernelCall& call : p.calls)
      for (const int i : call.nodes)
        if (const Node& n = g.nodes[static_cast<size_t>(i)]; n.op == "WinogradConv")
          NESTOR_CHECK(p.blocked.count(n.inputs[0]) && p.blocked.count(call.args.back())) << n.name;
    return true;
  }
}

}  // namespace nestor
