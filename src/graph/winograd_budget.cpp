#include "src/graph/winograd_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "src/graph/edit.h"
#include "src/graph/passes.h"

namespace nestor {

namespace {

constexpr const char* kSmallerTile =
    "; F({0}x{0}, 3x3) is taken, whose weights fit beside those for other sizes";
const std::string kBeyondBudget = "Winograd's transformed weights would exceed the budget of ";

// Bytes that transforming some weights adds to them.
int64_t bytes_added(const Graph& g, ValueId weights, int64_t tile) {
  const Tensor& w = constant_of(g, weights);
  return w.size() / 9 * ((tile + 2) * (tile + 2) - 9) * bytes_of(w.dtype());
}

// Those that transformed weights take beside others that are stored.
int64_t bytes_stored(const Graph& g, ValueId weights, int64_t tile, const TransformedWeights& stored) {
  const Tensor& w = constant_of(g, weights);
  return stored.known.count({hash_of_bytes(w), tile}) ? 0 : bytes_added(g, weights, tile) + w.bytes();
}

}  // namespace

void keep_within(int64_t budget, const TransformedWeights* stored, Graph& g, WinogradChoices& chosen) {
  const auto bytes_for = [&](ValueId weights, int64_t tile) {
    return stored ? bytes_stored(g, weights, tile, *stored) : bytes_added(g, weights, tile);
  };
  const auto worth_it = [&](ValueId made, int64_t tile) { return chosen.at(made).gains.count(tile) > 0; };

  struct Group {
    std::vector<ValueId> made;
    double gain = 0;
    int64_t bytes = 0;
    ValueId weights = -1;
    int64_t tile = 0;
    double rate() const { return gain / static_cast<double>(std::max<int64_t>(bytes, 1)); }
  };
  std::map<std::pair<ValueId, int64_t>, Group> by_weights;
  for (const auto& [made, choice] : chosen) {
    const ValueId weights = g.nodes[static_cast<size_t>(value_of(g, made).producer)].inputs[1];
    Group& group = by_weights[{weights, choice.tile}];
    group.made.push_back(made);
    group.gain += choice.gain;
    group.bytes = bytes_for(weights, choice.tile);
    group.weights = weights;
    group.tile = choice.tile;
  }
  std::vector<const Group*> order;
  for (const auto& entry : by_weights) order.push_back(&entry.second);
  std::ranges::stable_sort(order, std::greater(), &Group::rate);
  int64_t left = stored ? std::min(budget, stored->left) : budget;
  for (const Group* group : order) {
    int64_t tile = group->tile, bytes = group->bytes;
    while (stored && bytes > left && --tile > 1) bytes = bytes_for(group->weights, tile);
    if (bytes <= left && std::ranges::all_of(group->made, [&](ValueId v) { return worth_it(v, tile); })) {
      left -= bytes;
      for (const ValueId made : group->made) {
        if (tile != group->tile) chosen.at(made).why += fmt::format(kSmallerTile, tile);
        chosen.at(made).tile = tile;
      }
      continue;
    }
    for (const ValueId made : group->made) {
      g.nodes[static_cast<size_t>(value_of(g, made).producer)].why =
          fmt::format("{}{} bytes", kBeyondBudget, budget);
      chosen.erase(made);
    }
  }
}

size_t hash_of_bytes(const Tensor& t) {
  return std::hash<std::string_view>()({static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes())});
}

WinogradBytes winograd_bytes(const Graph& g) {
  WinogradBytes out;
  std::set<ValueId> counted;
  for (const Node& n : g.nodes) {
    out.over_budget += n.op == "Conv" && n.why.starts_with(kBeyondBudget);
    if (n.op != "WinogradConv" || n.domain != "nestor") continue;
    ++out.convolutions;
    if (counted.insert(n.inputs[1]).second)
      for (const auto& [input, sign] : {std::pair{1, 1}, std::pair{3, -1}}) {
        const TensorType& t = value_of(g, n.inputs[static_cast<size_t>(input)]).type;
        out.added += sign * product(t.shape) * bytes_of(t.dtype);
      }
  }
  return out;
}

}  // namespace nestor
