// The graph passes, one file each; pipeline.cpp lists them with what holds afterwards.
#pragma once

#include "nestor/graph.h"

namespace nestor {

void remove_identities(Graph& g, const EvaluateFn&);
void fold_constants(Graph& g, const EvaluateFn& evaluate);
void expand_quantized(Graph& g, const EvaluateFn&);
void use_col2im(Graph& g, const EvaluateFn&, int64_t lanes = kWidestVector, bool waits = false);
void flip_convolutions(Graph& g, const EvaluateFn&);
void fold_batch_norm(Graph& g, const EvaluateFn&);
void merge_equal_nodes(Graph& g, const EvaluateFn&);
void remove_dead_nodes(Graph& g, const EvaluateFn&);

// A convolution over 3 x 3, of constant weights in f32, that Winograd's algorithm applies to.
bool has_winograd_form(const Graph& g, const Node& n);

}  // namespace nestor
