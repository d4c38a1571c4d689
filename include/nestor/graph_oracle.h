// The reference for a whole model: its graph as it was read, evaluated node by node in f64. No graph pass,
// fusion or schedule is involved, so it detects errors in all of them. (The oracle of a function, in
// driver.h, starts after graph passes and fusion.)
//
// How large may a difference be? The error bounds of functions are rigorous, but carried through a network
// they grow in every layer by the size of the weights, and soon say nothing. So the sensitivity is measured:
// the graph is evaluated again with noise. Each element of each node's result is changed by a random part of
// the error bound of that node's function, whose inputs are taken as exact. The change of an output then
// shows how far rounding can take it, and a compiled model may differ by kRoom times as much. (Monte Carlo
// arithmetic: Parker, "Monte Carlo arithmetic: exploiting randomness in floating-point arithmetic", 1997.)
// This covers step functions too: where a byte is rounded up or down, some of the noise decides the other
// way.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nestor/graph.h"
#include "nestor/runtime.h"
#include "nestor/target.h"
#include "nestor/verify.h"

namespace nestor {

class GraphOracle {
 public:
  static constexpr int kNoisy = 2;  // evaluations with noise
  static constexpr double kRoom = 4;

  // g: with the nodes whose values are known (src/graph/unfolded.h), so that these are computed here, too.
  // found: sizes that values decide, as the model's run found them; what the graph finds is compared.
  GraphOracle(Graph g, const Target& target, std::map<std::string, int64_t> found = {});
  ~GraphOracle();
  GraphOracle(GraphOracle&&) noexcept;

  double seconds() const;  // that check() takes, roughly

  // One comparison for each output, and for each value where what was computed while reading (shapes, mostly)
  // isn't what its node makes.
  struct Check {
    std::string name;
    Comparison comparison;
    Tensor want;
  };
  std::vector<Check> check(const NamedTensors& inputs, const NamedTensors& outputs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct CompileOptions;
struct Source;
// load() of a model file or an operator, which is read once for both. No oracle where runs decide sizes.
std::pair<Source, std::optional<GraphOracle>> load_with_oracle(const std::string& spec,
                                                               const CompileOptions& options);

}  // namespace nestor
