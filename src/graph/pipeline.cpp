#include "src/graph/passes.h"

namespace nestor {

// The order matters: products of bytes leave sums of weights to be folded; constants first of what follows,
// since a weight may come out of a Transpose or Cast; norms before equal nodes, so that what folding leaves
// alike is merged; dead nodes first, so that masks nobody reads stop a Dropout from being nothing no longer,
// and last, since every pass leaves some.
std::vector<GraphPass> graph_pipeline(const OptimizeOptions& options) {
  std::vector<GraphPass> passes = {
      {"drop_unread", "no node or output that nothing reads", remove_dead_nodes}};
  if (!options.halves)
    passes.push_back({"widen_halves", "between nodes, f16 and bf16 stand in f32",
                      [options](Graph& g, const EvaluateFn&) { widen_halves(g, options); }});
  const std::vector<GraphPass> others = {
      {"multiply_einsums", "no Einsum of floats is a product of matrices", multiply_einsums},
      {"remove_identities",
       "no Identity, Dropout, or reshape to the same shape; no two transpositions in a row",
       remove_identities},
      {"move_bytes", "what moves or picks elements that bytes stand for reads the bytes", move_bytes},
      {"multiply_quantized", "products of what bytes stand for are products of bytes, scaled",
       [options](Graph& g, const EvaluateFn& evaluate) { multiply_quantized(g, evaluate, options); }},
      {"expand_quantized", "products of bytes are sums of u8 times i8 without zero points", expand_quantized},
      {"fold_constants", "no node has constant inputs only", fold_constants},
      {"fold_batch_norm", "BatchNormalization is in the weights before it, else a Mul and an Add",
       fold_batch_norm},
      {"fold_steps", "constants, not elements, are divided by the steps of bytes made of them", fold_steps},
      {"join_logarithms", "no Log is of a Sigmoid or a Softmax", join_logarithms},
      {"crop_windows", "no tap of a convolution meets nothing but padding", crop_windows},
      {"use_col2im", "a convolution with few filters is a product of matrices and a Col2Im",
       [options](Graph& g, const EvaluateFn& evaluate) { use_col2im(g, evaluate, options); }},
      {"flip_convolutions", "constant weights of every convolution have their filters first",
       [options](Graph& g, const EvaluateFn&) { flip_convolutions(g, options); }},
      {"merge_equal_nodes", "no two nodes compute the same, no two constants are the same",
       merge_equal_nodes},
      {"remove_dead_nodes", "every node leads to an output", remove_dead_nodes},
  };
  passes.insert(passes.end(), others.begin(), others.end());
  return passes;
}

void optimize(Graph& g, const EvaluateFn& evaluate, const OptimizeOptions& options) {
  for (const GraphPass& pass : graph_pipeline(options)) pass.run(g, evaluate);
}

}  // namespace nestor
