#include "src/graph/control_flow.h"
#include "src/graph/found_sizes.h"
#include "src/graph/passes.h"

namespace nestor {

// The order matters: products of bytes leave sums of weights to be folded; constants first of what follows,
// since a weight may come out of a Transpose or Cast; norms before equal nodes, so that what folding leaves
// alike is merged; dead nodes first, so that masks nobody reads stop a Dropout from being nothing no longer,
// and last, since every pass leaves some.
std::vector<GraphPass> graph_pipeline(const OptimizeOptions& options) {
  std::vector<GraphPass> passes = {
      {"drop_unread", "nodes and outputs that nothing reads are removed", remove_dead_nodes}};
  if (!options.halves)
    passes.push_back({"widen_halves", "f16 and bf16 values between nodes are f32 values, rounded",
                      [options](Graph& g, const EvaluateFn&) { widen_halves(g, options); }});
  const std::vector<GraphPass> others = {
      {"multiply_einsums", "Einsums that are matrix products are MatMul nodes", multiply_einsums},
      {"remove_identities",
       "no Identity, Dropout, or reshape to the same shape; no two transpositions in a row",
       remove_identities},
      {"pack_weights", "weights of few bits that products and Gathers read are packed, several in a byte",
       pack_weights},
      {"move_bytes", "data movement of quantized values moves the bytes", move_bytes},
      {"multiply_quantized", "products of quantized values are scaled products of bytes",
       [options](Graph& g, const EvaluateFn& evaluate) { multiply_quantized(g, evaluate, options); }},
      {"expand_quantized", "products of bytes are sums of u8 times i8 without zero points", expand_quantized},
      {"fold_constants", "no node has constant inputs only", fold_constants},
      {"fold_batch_norm", "BatchNormalization is folded into the weights before it, or is a Mul and an Add",
       fold_batch_norm},
      {"fold_steps", "divisions by quantization scales are folded into constants", fold_steps},
      {"join_logarithms", "no Log is of a Sigmoid or a Softmax", join_logarithms},
      {"crop_windows", "no kernel element of a convolution reads only padding", crop_windows},
      {"use_col2im", "a convolution with few filters is a matrix product and a Col2Im",
       [options](Graph& g, const EvaluateFn& evaluate) { use_col2im(g, evaluate, options); }},
      {"flip_convolutions", "constant weights of every convolution have the filters as first dimension",
       [options](Graph& g, const EvaluateFn&) { flip_convolutions(g, options); }},
      {"optimize_bodies", "bodies of loops and branches have gone through these passes",
       [options](Graph& g, const EvaluateFn& evaluate) { optimize_bodies(g, evaluate, options); }},
      {"merge_equal_nodes", "no two nodes compute the same, no two constants are the same",
       merge_equal_nodes},
      {"remove_dead_nodes", "every node leads to an output", remove_dead_nodes},
  };
  passes.insert(passes.end(), others.begin(), others.end());
  return passes;
}

void optimize(Graph& g, const EvaluateFn& evaluate, const OptimizeOptions& options) {
  for (const GraphPass& pass : graph_pipeline(options)) {
    if (!g.symbols) {
      pass.run(g, evaluate);
      continue;
    }
    // What a pass must know of sizes may be open: then the graph stays as it was before.
    Graph changed = g;
    try {
      pass.run(changed, evaluate);
      g = std::move(changed);
    } catch (const SymbolicSize& e) {
      if (options.note) options.note(std::string(pass.name) + " is left out: " + e.what());
    }
  }
  order_found_sizes(g);
}

}  // namespace nestor
