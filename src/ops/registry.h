// The families of operators, each in a file of its own. The list is spelled out: registration by static
// constructors would be dropped by the linker, since nothing refers to them in a static library.
#pragma once

#include <vector>

#include "nestor/ops.h"

namespace nestor::ops {

using Rows = std::vector<OpDef>;

void register_matmul(Rows& rows);
void register_conv(Rows& rows);
void register_conv_transpose(Rows& rows);
void register_col2im(Rows& rows);
void register_quantized(Rows& rows);
void register_quantize(Rows& rows);
void register_winograd(Rows& rows);
void register_unary(Rows& rows);
void register_binary(Rows& rows);
void register_bits(Rows& rows);
void register_packed(Rows& rows);
void register_formats(Rows& rows);
void register_pool(Rows& rows);
void register_softmax(Rows& rows);
void register_reduce(Rows& rows);
void register_arg_extremum(Rows& rows);
void register_normalization(Rows& rows);
void register_reshape(Rows& rows);
void register_movement(Rows& rows);
void register_pad(Rows& rows);
void register_gather(Rows& rows);
void register_scan(Rows& rows);
void register_scatter(Rows& rows);
void register_one_hot(Rows& rows);
void register_einsum(Rows& rows);
void register_recurrent(Rows& rows);
void register_top_k(Rows& rows);
void register_grid_sample(Rows& rows);
void register_affine_grid(Rows& rows);
void register_known(Rows& rows);
void register_found_size(Rows& rows);
void register_kept_boxes(Rows& rows);
void register_order(Rows& rows);
void register_attention(Rows& rows);
void register_resize(Rows& rows);
void register_space_depth(Rows& rows);
void register_triangle(Rows& rows);
void register_constant(Rows& rows);
void register_control_flow(Rows& rows);

}  // namespace nestor::ops
