// Attention of ONNX Runtime (domain com.microsoft), as ONNX's Attention.
#include <fmt/format.h>

#include <cmath>

#include "src/graph/compose.h"

namespace nestor {

namespace {

constexpr const char* kMicrosoft = "com.microsoft";

// 0 where a key counts, else the filter's value: [batch, 1, 1, keys].
std::string padding_mask(Composer& c, size_t i, const Dim& batch, const Dim& keys, DType type) {
  const Dims& shape = c.shape(i);
  const auto is = [&](size_t d, const Dim& size) {
    return must_equal(shape[d], size, "a mask has a number for each sample, or one for each of its keys");
  };
  std::string there;
  if (shape.size() == 2 && is(0, batch) && is(1, keys))
    there = c.op("Not", {c.op("Equal", {c.cast(c.input(i), DType::i64), c.scalar(0, DType::i64)})});
  else if (shape.size() == 1 && is(0, batch))  // how many
    there = c.op("Less", {c.counted(keys, 2, 1), c.reshaped(c.cast(c.input(i), DType::i64), {batch, 1})});
  else
    c.ctx().fail("the mask is " + to_string(c.type(i)),
                 fmt::format("[{0}] of lengths, or [{0},{1}] of 0 and 1", to_string(batch), to_string(keys)));
  const double filter = c.ctx().get_float("mask_filter_value", -10000);
  const std::string added = c.op("Where", {there, c.scalar(0, type), c.scalar(filter, type)});
  return c.reshaped(added, {batch, 1, 1, keys});
}

struct AttentionInputs {
  std::string q, k, v, mask, past_key, past_value;
};

void attend(Composer& c, const AttentionInputs& in, int64_t heads) {
  Attrs attrs = {
      {"q_num_heads", heads}, {"kv_num_heads", heads}, {"is_causal", c.ctx().get_int("unidirectional", 0)}};
  if (const double scale = c.ctx().get_float("scale", 0); scale != 0) attrs["scale"] = scale;
  const bool past = !in.past_key.empty() || c.wants(1) || c.wants(2);
  const std::string y =
      c.op("Attention", {in.q, in.k, in.v, in.mask, in.past_key, in.past_value}, attrs, past ? 3 : 1);
  c.give(0, y);
  if (c.wants(1)) c.give(1, c.output(y, 1));
  if (c.wants(2)) c.give(2, c.output(y, 2));
}

int64_t heads_of(Composer& c) {
  const int64_t heads = c.ctx().get_int("num_heads", 0);
  if (heads < 1) c.ctx().fail("the attribute `num_heads` is missing");
  return heads;
}

void multi_head_attention(Composer& c) {
  const OpContext& ctx = c.ctx();
  if (c.rank(0) != 3 || !c.has(1) || !c.has(2) || c.rank(1) != 3 || c.rank(2) != 3)
    ctx.fail("query, key and value must be [batch, length, channels] each",
             "packed ones split, and keys with heads apart transposed, before it");
  const int64_t heads = heads_of(c);
  AttentionInputs in{
      c.input(0), c.input(1), c.input(2), "", c.has(6) ? c.input(6) : "", c.has(7) ? c.input(7) : ""};
  if (c.has(3)) {
    int64_t from = 0;
    size_t i = 0;
    for (std::string* x : {&in.q, &in.k, &in.v}) {
      const int64_t size = c.type(i++).shape[2];
      *x = c.op("Add", {*x, c.sliced(c.input(3), 0, from, from + size)});
      from += size;
    }
  }
  const Dim keys = (c.has(6) ? c.size(6, 2) : Dim(0)) + c.shape(1)[1];
  if (c.has(5)) in.mask = c.input(5);
  if (c.has(4)) {
    const std::string padding = padding_mask(c, 4, c.shape(0)[0], keys, c.type(0).dtype);
    in.mask = in.mask.empty() ? padding : c.op("Add", {in.mask, padding});
  }
  attend(c, in, heads);
}

// One product makes queries, keys and values. Then there are a mask, past keys and values, and a bias.
void attend_to_product(Composer& c, const std::string& product, size_t mask, size_t past, size_t bias) {
  const OpContext& ctx = c.ctx();
  if (c.rank(0) != 3)
    ctx.fail("the input is " + to_string(c.type(0)) + ", it must be [batch, length, channels]");
  if (c.has(past) || c.wants(1)) ctx.fail("past keys and values in one tensor aren't supported");
  if (ctx.get_int("do_rotary", 0) != 0) ctx.fail("`do_rotary` isn't supported", "RotaryEmbedding before it");
  const int64_t heads = heads_of(c), all = c.size(1, 1);
  std::vector<int64_t> sizes = ctx.get_ints("qkv_hidden_sizes", {all / 3, all / 3, all / 3});
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != all)
    ctx.fail("`qkv_hidden_sizes` aren't the three parts of the weight's columns");
  AttentionInputs in;
  int64_t from = 0;
  size_t i = 0;
  for (std::string* x : {&in.q, &in.k, &in.v}) {
    *x = c.sliced(product, 2, from, from + sizes[i]);
    from += sizes[i++];
  }
  const DType type = is_float(c.type(0).dtype) ? c.type(0).dtype : c.type(3).dtype;
  if (c.has(mask)) in.mask = padding_mask(c, mask, c.type(0).shape[0], c.type(0).shape[1], type);
  if (c.has(bias)) in.mask = in.mask.empty() ? c.input(bias) : c.op("Add", {in.mask, c.input(bias)});
  attend(c, in, heads);
}

void packed_attention(Composer& c) {
  const std::string product = c.op("MatMul", {c.input(0), c.input(1)});
  attend_to_product(c, c.has(2) ? c.op("Add", {product, c.input(2)}) : product, 3, 4, 5);
}

// The same of bytes: scales are inputs 3 and 4, zero points 6 and 7.
void quantized_attention(Composer& c) {
  const auto maybe = [&](size_t i) { return c.has(i) ? c.input(i) : ""; };
  const std::string sum = c.op("MatMulInteger", {c.input(0), c.input(1), maybe(6), maybe(7)});
  const std::string real = c.op("Mul", {c.cast(sum, c.type(3).dtype), c.op("Mul", {c.input(3), c.input(4)})});
  attend_to_product(c, c.op("Add", {real, c.input(2)}), 5, 8, 9);
}

void rotary_embedding(Composer& c) {
  const OpContext& ctx = c.ctx();
  if ((c.rank(0) != 3 && c.rank(0) != 4) || c.size(2, 1) == 0)
    ctx.fail("the input is " + to_string(c.type(0)) + ", the cosines are " + to_string(c.type(2)),
             "[batch, length, channels] or [batch, heads, length, channels], and [places, channels / 2]");
  const int64_t width = ctx.get_int("rotary_embedding_dim", 0);
  int64_t heads = ctx.get_int("num_heads", 0);
  if (c.rank(0) == 3 && heads == 0) heads = c.type(0).shape[2] / (2 * c.size(2, 1));
  std::string at = c.input(1);
  const Dim batch = c.shape(0)[0], length = c.shape(0)[c.rank(0) == 3 ? 1 : 2];
  if (c.rank(1) < 2)  // the first word's place
    at = c.op("Expand",
              {c.op("Add", {c.reshaped(at, {1, 1}), c.counted(length, 2, 1)}), c.ints({batch, length})});
  Attrs attrs = {{"interleaved", ctx.get_int("interleaved", 0)}, {"rotary_embedding_dim", width}};
  if (heads > 0) attrs["num_heads"] = heads;
  c.give(0, c.op("RotaryEmbedding", {c.input(0), c.input(2), c.input(3), at}, attrs));
}

// Keys and values so far, and the new ones behind them: [batch, heads, capacity, width].
std::string extended(Composer& c, size_t past, const std::string& fresh, const std::string& from,
                     const Dims& shape) {
  const DType type = c.type(0).dtype;
  std::string cache;
  if (!c.has(past)) {
    cache = c.op("Expand", {c.scalar(0, type), c.ints(shape)});
  } else {
    cache = c.input(past);
    if (const Dim more = shape[2] - c.size(past, 2); more != 0)
      cache = c.op("Pad", {cache, c.ints({0, 0, 0, 0, 0, 0, more, 0})});
  }
  return c.op("TensorScatter", {cache, fresh, from}, {{"axis", int64_t{2}}});
}

struct GroupedQueries {
  std::string q, k, v;  // [batch, heads, length, width]
  std::string mask;
  Dim batch, length, capacity;
  int64_t heads, groups, width;
};

// softmax(cap(q k) + mask) v, with a column of sinks that takes a part of each row and has no value.
std::string grouped_attention(Composer& c, const GroupedQueries& in, double scale) {
  const OpContext& ctx = c.ctx();
  const double cap = ctx.get_float("softcap", 0);
  const bool sinks = c.has(11) || ctx.get_int("smooth_softmax", 0) == 1;
  if (cap == 0 && !sinks) return c.op("Attention", {in.q, in.k, in.v, in.mask}, {{"scale", scale}});
  const DType type = c.type(0).dtype;
  const int64_t group = in.heads / in.groups;
  const Dims apart = {in.batch, in.groups, group * in.length, in.width};
  const std::string q = c.op("Mul", {c.reshaped(in.q, apart), c.scalar(scale, type)});
  const std::string turned = c.op("Transpose", {in.k}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  std::string s = c.reshaped(c.op("MatMul", {q, turned}), {in.batch, in.heads, in.length, in.capacity});
  if (cap != 0) s = c.op("Mul", {c.op("Tanh", {c.op("Div", {s, c.scalar(cap, type)})}), c.scalar(cap, type)});
  s = c.op("Add", {s, in.mask});
  if (sinks) {
    const std::string sink = c.has(11) ? c.reshaped(c.input(11), {1, in.heads, 1, 1}) : c.scalar(0, type);
    const std::string column = c.op("Expand", {sink, c.ints({in.batch, in.heads, in.length, 1})});
    s = c.op("Concat", {s, column}, {{"axis", int64_t{3}}});
  }
  s = c.op("Softmax", {s}, {{"axis", int64_t{3}}});
  if (sinks) s = c.sliced(s, 3, 0, in.capacity);
  const std::string p = c.reshaped(s, {in.batch, in.groups, group * in.length, in.capacity});
  return c.reshaped(c.op("MatMul", {p, in.v}), {in.batch, in.heads, in.length, in.width});
}

// Several heads of queries share one of keys and values, which are kept from call to call. Sequence b has
// `seqlens_k[b]` + 1 words, the new ones among them.
void group_query_attention(Composer& c) {
  const OpContext& ctx = c.ctx();
  for (size_t i = 12; i < 17; ++i)
    if (c.has(i))
      ctx.fail(fmt::format("input {} isn't supported", i), "no quantized cache, and norms before it");
  if (c.wants(3)) ctx.fail("output 3, the products of queries and keys, isn't supported");
  GroupedQueries in{};
  in.heads = heads_of(c);
  in.groups = ctx.get_int("kv_num_heads", 0);
  if (c.rank(0) != 3 || in.groups < 1 || in.heads % in.groups != 0)
    ctx.fail("the query must be [batch, length, channels], `num_heads` a multiple of `kv_num_heads`");
  in.batch = c.size(0, 0), in.length = c.size(0, 1);
  const bool packed = !c.has(1);
  in.width = c.size(0, 2) / (packed ? in.heads + 2 * in.groups : in.heads);
  const int64_t columns = in.heads * in.width, shared = in.groups * in.width;
  const Dim total = c.number_from(6);
  if (total < in.length)
    ctx.fail(fmt::format("`total_sequence_length` is {}, below the {} new words", to_string(total),
                         to_string(in.length)));
  in.capacity = c.has(3) ? max(total, c.size(3, 2)) : total;
  std::string q = c.input(0), k, v;
  if (packed) {
    k = c.sliced(q, 2, columns, columns + shared);
    v = c.sliced(q, 2, columns + shared, columns + 2 * shared);
    q = c.sliced(q, 2, 0, columns);
  } else {
    k = c.input(1), v = c.input(2);
  }
  // None where all words are new, whatever `seqlens_k` says.
  std::string before = c.op("Expand", {c.number(0), c.ints({in.batch})});
  if (const Dim older = total - in.length; older != 0) {
    before = c.op("Sub", {c.reshaped(c.cast(c.input(5), DType::i64), {in.batch}), c.number(in.length - 1)});
    if (!older.known()) before = c.op("Mul", {before, c.number(min(older, 1))});
  }
  const std::string places = c.op("Add", {c.reshaped(before, {in.batch, 1}), c.counted(in.length, 2, 1)});
  if (ctx.get_int("do_rotary", 0) != 0) {
    const std::string at = c.has(9) ? c.cast(c.input(9), DType::i64) : places;
    const int64_t rotated = 2 * c.size(7, 1);
    const auto turned = [&](const std::string& x, int64_t heads) {
      return c.op("RotaryEmbedding", {x, c.input(7), c.input(8), at},
                  {{"num_heads", heads},
                   {"interleaved", ctx.get_int("rotary_interleaved", 0)},
                   {"rotary_embedding_dim", rotated == in.width ? 0 : rotated}});
    };
    q = turned(q, in.heads);
    k = turned(k, in.groups);
  }
  const auto by_heads = [&](const std::string& x, int64_t heads) {
    const std::string apart = c.reshaped(x, {in.batch, in.length, heads, in.width});
    return c.op("Transpose", {apart}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  };
  in.q = by_heads(q, in.heads);
  const Dims cache = {in.batch, in.groups, in.capacity, in.width};
  in.k = extended(c, 3, by_heads(k, in.groups), before, cache);
  in.v = extended(c, 4, by_heads(v, in.groups), before, cache);

  const DType type = c.type(0).dtype;
  const std::string key = c.counted(in.capacity, 4, 3),
                    place = c.reshaped(places, {in.batch, 1, in.length, 1});
  std::string allowed = c.op("LessOrEqual", {key, place});
  if (const int64_t window = ctx.get_int("local_window_size", -1); window > 0) {
    const std::string first = c.op("Sub", {place, c.scalar(static_cast<double>(window), DType::i64)});
    allowed = c.op("And", {allowed, c.op("Greater", {key, first})});
  }
  std::string bias = c.scalar(0, type);
  if (c.has(10)) {
    bias = c.input(10);
    if (const Dim more = in.capacity - c.size(10, 3); more != 0)
      bias = c.op("Pad", {bias, c.ints({0, 0, 0, 0, 0, 0, 0, more})});
  }
  in.mask = c.op("Where", {allowed, bias, c.scalar(-std::numeric_limits<double>::infinity(), type)});
  double scale = ctx.get_float("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(in.width));
  const std::string y =
      c.op("Transpose", {grouped_attention(c, in, scale)}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  c.give(0, c.reshaped(y, {in.batch, in.length, columns}));
  c.give(1, in.k);
  c.give(2, in.v);
}

}  // namespace

std::vector<Composition> attention_compositions() {
  return {{kMicrosoft, "MultiHeadAttention", 1, multi_head_attention},
          {kMicrosoft, "Attention", 1, packed_attention},
          {kMicrosoft, "QAttention", 1, quantized_attention},
          {kMicrosoft, "GroupQueryAttention", 1, group_query_attention},
          {kMicrosoft, "RotaryEmbedding", 1, rotary_embedding}};
}

}  // namespace nestor
