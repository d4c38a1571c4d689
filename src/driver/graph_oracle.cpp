// Each node is a function of its own with a parameter for every operand. No two operands are the same
// parameter and none is a constant, so code that merges operands elsewhere is compared with code that
// doesn't. Equal functions are compiled once; small ones are interpreted.
#include "nestor/graph_oracle.h"

#include <algorithm>
#include <cmath>

#include "nestor/driver.h"
#include "src/driver/graph_runs.h"
#include "src/driver/load.h"
#include "src/driver/oracle.h"
#include "src/graph/found_sizes.h"
#include "src/graph/unfolded.h"

namespace nestor {

namespace {

// How far the output may be off, everywhere alike but where noise makes it infinite or none of it.
Tensor allowance(const Runs& runs) {
  double most = 0;
  Tensor out(DType::f64, runs[0].shape());
  for (int64_t i = 0; i < out.size(); ++i)
    for (const Tensor& noisy : runs) {
      const double off = std::fabs(noisy.get(i) - runs[0].get(i));
      if (std::isfinite(off))
        most = std::max(most, off);
      else if (std::isfinite(noisy.get(i)) != std::isfinite(runs[0].get(i)))
        out.set(i, INFINITY);
    }
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, std::max(out.get(i), GraphOracle::kRoom * most));
  return out;
}

// `got` beside the runs; where noise decides whether a value is finite, it is right whatever it is.
Comparison compared(const Tensor& got, const Runs& runs) {
  const Tensor allowed = allowance(runs);
  Tensor want = runs[0];
  for (int64_t i = 0; i < want.size() && got.shape() == want.shape(); ++i) {
    if (std::isfinite(allowed.get(i))) continue;
    if (want.data() == runs[0].data()) want = want.clone();
    want.set(i, got.get(i));
  }
  return compare(got, want, allowed);
}

}  // namespace

struct GraphOracle::Impl {
  GraphRuns runs;
  std::map<std::string, int64_t> found;
};

GraphOracle::GraphOracle(Graph g, const Target& target, std::map<std::string, int64_t> found)
    : impl_(new Impl{GraphRuns(std::move(g), target), std::move(found)}) {}
GraphOracle::~GraphOracle() = default;
GraphOracle::GraphOracle(GraphOracle&&) noexcept = default;

double GraphOracle::seconds() const {
  constexpr double kWorkPerSecond = 3e8, kToCompile = 0.1;
  return impl_->runs.work() / kWorkPerSecond + kToCompile * static_cast<double>(impl_->runs.functions());
}

std::vector<GraphOracle::Check> GraphOracle::check(const NamedTensors& inputs, const NamedTensors& outputs) {
  GraphRuns& runs = impl_->runs;
  const std::map<std::string, int64_t>& found = impl_->found;
  const Graph& g = runs.graph();
  const auto value = [&](ValueId v) -> const Value& { return g.values[static_cast<size_t>(v)]; };
  std::vector<Check> checks;
  runs.clear();
  for (const ValueId v : g.inputs) {
    Runs same;
    same.fill(in_f64(inputs.at(value(v).name)));
    runs.set(v, same);
  }
  runs.run(0, [&](const Node& n) {
    if (is_found_size(n)) {
      const Runs counts = runs.runs_of(n.outputs[0]);
      Tensor size(DType::i64, {});
      size.set_int(0, found.at(symbol_found_by(n)));
      checks.push_back({"the size " + symbol_found_by(n), compare(size, counts[0]), counts[0]});
    }
    for (const ValueId v : n.outputs) {
      if (v < 0 || !value(v).constant.defined()) continue;
      const Runs made = runs.runs_of(v);
      const Comparison c = compared(value(v).constant, made);
      if (!c.ok()) checks.push_back({"`" + value(v).name + "` while reading", c, made[0]});
    }
  });
  for (const ValueId v : g.outputs) {
    const Runs made = runs.runs_of(v);
    checks.push_back({value(v).name, compared(outputs.at(value(v).name), made), made[0]});
  }
  runs.clear();
  return checks;
}

std::pair<Source, std::optional<GraphOracle>> load_with_oracle(const std::string& spec,
                                                               const CompileOptions& options) {
  const Model model = model_of(spec, options);
  BuildOptions again = build_options(options);
  Source source{build_graph(model, again), std::nullopt};
  if (source.graph.symbols) return {std::move(source), std::nullopt};
  again.warn = {};
  return {std::move(source),
          GraphOracle(build_unfolded(model, again), oracle_target(options.target), again.found)};
}

}  // namespace nestor
