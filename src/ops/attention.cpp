#include "src/ops/attention.h"

#include <fmt/format.h>

#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

enum Input { kQ, kK, kV, kMask, kPastKey, kPastValue, kLengths };

int64_t heads_of(const OpContext& ctx, const char* attribute, int i) {
  const int64_t heads = ctx.get_int(attribute, 0), width = ctx.input(i).shape[2];
  if (heads < 1 || width % heads != 0)
    ctx.fail(fmt::format("`{}` is {}, which must divide the last dimension of input {}, {}", attribute, heads,
                         i, to_string(ctx.input(i))));
  return heads;
}

// A mask broadcasts to scores [batch, heads, queries, keys]; keys that it lacks are masked.
void check_mask(const OpContext& ctx, const AttentionShape& s) {
  const TensorType& mask = ctx.input(kMask);
  if (!is_bool(mask.dtype)) require_same_type(ctx, kQ, kMask);
  const Dims scores = {s.batch, s.heads, s.queries, s.total()};
  bool fits = !mask.shape.empty() && mask.shape.size() <= 4;
  for (size_t d = 0; fits && d < mask.shape.size(); ++d) {
    const Dim &n = mask.shape[mask.shape.size() - 1 - d], &m = scores[3 - d];
    const bool shorter = d == 0 ? n.known() && m.known() && n < m : n == 1;
    fits = shorter || must_equal(n, m, "a mask has a column for each key");
  }
  if (!fits)
    ctx.fail(fmt::format("the mask {} doesn't broadcast to scores {}", to_string(mask),
                         to_string(TensorType{ctx.input(kQ).dtype, scores})));
}

std::vector<TensorType> infer_attention(const OpContext& ctx) {
  const AttentionShape s = attention_shape(ctx);
  softmax_type(ctx);
  const int64_t mode = ctx.get_int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) ctx.fail(fmt::format("`qk_matmul_output_mode` is {}", mode), "0 to 3");
  for (const char* window : {"left_window_size", "right_window_size"})
    if (ctx.get_int(window, -1) < -1)
      ctx.fail(fmt::format("`{}` is {}", window, ctx.get_int(window, -1)), "-1 for none, 0 or more");
  const DType t = ctx.input(kQ).dtype;
  const Dims y =
      s.flat ? Dims{s.batch, s.queries, s.heads * s.v_size} : Dims{s.batch, s.heads, s.queries, s.v_size};
  return {{t, y},
          {t, {s.batch, s.kv_heads, s.total(), s.size}},
          {ctx.input(kV).dtype, {s.batch, s.kv_heads, s.total(), s.v_size}},
          {t, {s.batch, s.heads, s.queries, s.total()}}};
}

std::vector<TensorType> infer_rotary(const OpContext& ctx) {
  rotary_shape(ctx);
  return {ctx.input(0)};
}

}  // namespace

AttentionShape attention_shape(const OpContext& ctx) {
  require_type(ctx, kQ, kFloats);
  for (const int i : {kK, kV}) require_same_type(ctx, kQ, i);
  const Dims &q = ctx.input(kQ).shape, &k = ctx.input(kK).shape, &v = ctx.input(kV).shape;
  if (q.size() != 3 && q.size() != 4)
    ctx.fail(fmt::format("input 0 is {}, it must have 3 or 4 dimensions", to_string(ctx.input(kQ))));
  for (const int i : {kK, kV}) require_rank(ctx, i, q.size());
  AttentionShape s;
  s.flat = q.size() == 3;
  s.batch = q[0];
  s.heads = s.flat ? Dim(heads_of(ctx, "q_num_heads", kQ)) : q[1];
  s.kv_heads = s.flat ? Dim(heads_of(ctx, "kv_num_heads", kK)) : k[1];
  if (s.flat) heads_of(ctx, "kv_num_heads", kV);
  const size_t sequence = s.flat ? 1 : 2;
  s.queries = q[sequence];
  s.keys = k[sequence];
  s.size = q.back() / (s.flat ? s.heads : Dim(1));
  s.v_size = v.back() / (s.flat ? s.kv_heads : Dim(1));
  const auto shape_of = [&](const Dim& length, const Dim& size) {
    return s.flat ? Dims{s.batch, length, s.kv_heads * size} : Dims{s.batch, s.kv_heads, length, size};
  };
  require_shape(ctx, kK, shape_of(s.keys, s.size));
  require_shape(ctx, kV, shape_of(s.keys, s.v_size));
  if (s.kv_heads < 1 || s.heads % s.kv_heads != 0)
    ctx.fail(fmt::format("{} heads of queries don't share {} heads of keys evenly", s.heads, s.kv_heads));
  if (ctx.has_input(kPastKey) != ctx.has_input(kPastValue)) ctx.fail("past_key and past_value go together");
  if (ctx.has_input(kPastKey)) {
    for (const int i : {kPastKey, kPastValue}) {
      require_same_type(ctx, kQ, i);
      require_rank(ctx, i, 4);
    }
    s.past = ctx.input(kPastKey).shape[2];
    require_shape(ctx, kPastKey, {s.batch, s.kv_heads, s.past, s.size});
    require_shape(ctx, kPastValue, {s.batch, s.kv_heads, s.past, s.v_size});
  }
  if (ctx.has_input(kMask)) check_mask(ctx, s);
  if (ctx.has_input(kLengths)) {
    if (s.past != 0) ctx.fail("nonpad_kv_seqlen doesn't go with past_key");
    require_type(ctx, kLengths, {DType::i64});
    require_shape(ctx, kLengths, {s.batch});
  }
  return s;
}

DType softmax_type(const OpContext& ctx) {
  if (ctx.get_int("softmax_precision", 0) == 0) return ctx.input(kQ).dtype;
  const DType t = type_attribute(ctx, "softmax_precision");
  if (t != DType::f32 && t != DType::f64)
    ctx.fail(fmt::format("`softmax_precision` is {}", name_of(t)), "FLOAT 1 or DOUBLE 11");
  return t;
}

RotaryShape rotary_shape(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  const Dims& x = ctx.input(0).shape;
  if (x.size() != 3 && x.size() != 4)
    ctx.fail(fmt::format("input 0 is {}, it must have 3 or 4 dimensions", to_string(ctx.input(0))));
  RotaryShape s;
  s.flat = x.size() == 3;
  s.batch = x[0];
  s.heads = s.flat ? Dim(heads_of(ctx, "num_heads", 0)) : x[1];
  s.sequence = x[s.flat ? 1 : 2];
  s.size = x.back() / (s.flat ? s.heads : Dim(1));
  s.rotated = ctx.get_int("rotary_embedding_dim", 0);
  if (s.rotated == 0) s.rotated = s.size;
  if (s.rotated < 2 || s.rotated % 2 != 0 || s.rotated > s.size)
    ctx.fail(fmt::format("{} of the {} elements of a head are to be rotated: an even number of them can be",
                         s.rotated, s.size));
  const bool positions = ctx.has_input(3);
  for (const int i : {1, 2}) {
    require_same_type(ctx, 0, i);
    require_rank(ctx, i, positions ? 2 : 3);
    const Dims& cache = ctx.input(i).shape;
    require_shape(ctx, i,
                  positions ? Dims{cache[0], s.rotated / 2} : Dims{s.batch, s.sequence, s.rotated / 2});
  }
  if (positions) {
    require_type(ctx, 3, {DType::i64});
    require_shape(ctx, 3, {s.batch, s.sequence});
  }
  return s;
}

void register_attention(Rows& rows) {
  rows.push_back({.name = "Attention",
                  .since = 23,
                  .min_inputs = 3,
                  .max_inputs = 7,
                  .infer = infer_attention,
                  .spelled_out = true,
                  .note = "spelled out as products and a softmax"});
  rows.push_back({.name = "RotaryEmbedding",
                  .since = 23,
                  .min_inputs = 3,
                  .max_inputs = 4,
                  .infer = infer_rotary,
                  .spelled_out = true,
                  .note = "spelled out element-wise"});
}

}  // namespace nestor::ops
