// Loops and branches as nodes (src/graph/control_flow.h): what they make is what their bodies say. They have
// no loop nest; their functions are places in a partition until their bodies are put there.
#include <algorithm>

#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

const TensorType& output_type(const Graph& body, size_t k) {
  return body.values[static_cast<size_t>(body.outputs.at(k))].type;
}

// After the condition come the states, then elements, of which there is one for each iteration.
std::vector<TensorType> infer_loop(const OpContext& ctx) {
  const Graph& body = *ctx.node().bodies.at(0);
  const int64_t states = ctx.get_int("states", 0);
  const std::vector<Expr> trips = ctx.has_input(0) ? ctx.elements(0) : std::vector<Expr>{};
  const Dim length =
      trips.empty() ? Dim(std::max(ctx.get_int("trips", -1), ctx.get_int("limit", 0))) : ctx.dim(trips[0]);
  std::vector<TensorType> out;
  for (size_t k = 1; k < body.outputs.size(); ++k) {
    out.push_back(output_type(body, k));
    if (static_cast<int64_t>(k) > states) out.back().shape.insert(out.back().shape.begin(), length);
  }
  return out;
}

std::vector<TensorType> infer_branch(const OpContext& ctx) {
  const auto& bodies = ctx.node().bodies;  // of which one may be empty, which can't be taken
  const Graph& body = bodies.at(0)->outputs.empty() ? *bodies.at(1) : *bodies.at(0);
  std::vector<TensorType> out;
  for (size_t k = 0; k < body.outputs.size(); ++k) out.push_back(output_type(body, k));
  return out;
}

void build_nothing(const OpContext&, FuncBuilder&, const Tensors&, const Tensors&) {}

}  // namespace

void register_control_flow(Rows& rows) {
  for (const auto& [name, infer] : {std::pair{"Loop", &infer_loop}, {"If", &infer_branch}})
    rows.push_back({.name = name,
                    .domain = "nestor",
                    .min_inputs = 1,
                    .max_inputs = -1,
                    .infer = infer,
                    .build = build_nothing,
                    .spelled_out = true,
                    .note = "a loop or a branch of the plan; made by the compiler, not by models."});
}

}  // namespace nestor::ops
