// What Attention and RotaryEmbedding (opset 23) say of their inputs. They are spelled out in smaller
// operators as a graph is built (src/graph/spell_out_attention.cpp).
#pragma once

#include <optional>

#include "nestor/ops.h"

namespace nestor::ops {

struct AttentionShape {
  bool flat = false;  // [batch, sequence, heads * size]; else [batch, heads, sequence, size]
  Dim batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, past = 0, size = 0, v_size = 0;
  Dim total() const { return past + keys; }
};
// Inputs Q K V mask past_key past_value nonpad_kv_seqlen; fails where they don't fit.
AttentionShape attention_shape(const OpContext& ctx);
// The type in which the softmax is taken.
DType softmax_type(const OpContext& ctx);

struct RotaryShape {
  bool flat = false;  // as above
  Dim batch = 0, heads = 0, sequence = 0, size = 0, rotated = 0;
};
// Inputs X cos sin position_ids.
RotaryShape rotary_shape(const OpContext& ctx);

}  // namespace nestor::ops
