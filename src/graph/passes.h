// The graph passes, one file each; pipeline.cpp lists them with what holds afterwards.
#pragma once

#include "nestor/graph.h"

namespace nestor {

void remove_identities(Graph& g, const EvaluateFn&);
void fold_constants(Graph& g, const EvaluateFn& evaluate);
void expand_quantized(Graph& g, const EvaluateFn&);
void use_col2im(Graph& g, const EvaluateFn&, const OptimizeOptions& options = {});
void flip_convolutions(Graph& g, const EvaluateFn&);
void fold_batch_norm(Graph& g, const EvaluateFn&);
void merge_equal_nodes(Graph& g, const EvaluateFn&);
void remove_dead_nodes(Graph& g, const EvaluateFn&);

// A convolution over 3 x 3, of constant weights in f32, that Winograd's algorithm applies to.
bool has_winograd_form(const Graph& g, const Node& n);
// Of these, those to which Winograd's transform gains most: with 16 channels and more, and most lanes of its
// blocks of filters filled. Columns multiply all windows by all lanes, the transform a fourth of that and
// less. (Cascade Lake, images of 60 to 5000 pixels: 9 to 11 and 17 to 23 filters of 20 channels and more 1.0
// to 2.1 times as fast as columns or rows of the image; 8 filters as fast, 4 to 7 up to three times slower.)
bool suits_winograd(const Graph& g, const Node& n, int64_t lanes);

}  // namespace nestor
