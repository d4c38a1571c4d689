// The graph passes, one file each; pipeline.cpp lists them with what holds afterwards.
#pragma once

#include "nestor/graph.h"

namespace nestor {

void remove_identities(Graph& g, const EvaluateFn&);
void pack_weights(Graph& g, const EvaluateFn& evaluate);
void fold_constants(Graph& g, const EvaluateFn& evaluate);
void multiply_einsums(Graph& g, const EvaluateFn&);
void widen_halves(Graph& g, const OptimizeOptions& options);
void move_bytes(Graph& g, const EvaluateFn&);
void multiply_quantized(Graph& g, const EvaluateFn&, const OptimizeOptions& options = {});
void expand_quantized(Graph& g, const EvaluateFn&);
void join_logarithms(Graph& g, const EvaluateFn&);
void crop_windows(Graph& g, const EvaluateFn&);
void use_col2im(Graph& g, const EvaluateFn&, const OptimizeOptions& options = {});
void flip_convolutions(Graph& g, const OptimizeOptions& options);
void fold_batch_norm(Graph& g, const EvaluateFn&);
void fold_steps(Graph& g, const EvaluateFn&);
void merge_equal_nodes(Graph& g, const EvaluateFn&);
void remove_dead_nodes(Graph& g, const EvaluateFn&);

// Attribute of a Mul that scales a sum of bytes which stands for a sum of reals (multiply_quantized): the
// definition doesn't say how that is rounded.
inline constexpr const char* kOfReals = "of_reals";

// Of 3 x 3 in f32, by strides of 1 and without groups.
bool has_winograd_shape(const Graph& g, const Node& n);
// A convolution over 3 x 3, of constant weights in f32, that Winograd's algorithm applies to.
bool has_winograd_form(const Graph& g, const Node& n);
// Of these, those to which Winograd's transform gains most: with 16 channels and more, images of 28 and more
// to a side, and most lanes of its blocks of filters filled. Columns multiply all windows by all lanes, the
// transform a fourth of that and less. (Cascade Lake: 20 to 24, 36 and 11 filters 1.2 to 2.1 times as fast as
// columns or rows of the image; 9 and 17 of 64 to 256 channels, and 10x10 and 14x14, up to twice as slow.)
bool suits_winograd(const Graph& g, const Node& n, int64_t lanes);

}  // namespace nestor
