// What a whole model should give: its graph as it was read, evaluated node by node in f64. No graph pass, no
// fusion and no schedule has a part in it, so it tells where one of those changed the model's values; what a
// function's oracle (driver.h) starts from is already their work.
//
// How far off may a model be? The bounds of functions are rigorous, but carried through a network they grow
// by the size of its weights in every layer and soon say nothing. So it is measured how much the model cares:
// it is evaluated again with noise. Each element of each node's result is moved by a random part of what its
// own rounding may come to (the bound of the node's function, whose inputs are taken as exact), and what that
// does to an output says how far rounding takes it; a compiled model may be kRoom times as far off. (Monte
// Carlo arithmetic: Parker, "Monte Carlo arithmetic: exploiting randomness in floating-point arithmetic",
// 1997.) That holds for steps, too: where a byte's rounding decides, some of the noise decides otherwise.
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
  GraphOracle(Graph g, const Target& target);
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
std::pair<Source, std::optional<GraphOracle>> load_with_oracle(const std::string& spec, const CompileOptions& options);

}  // namespace nestor
