// ONNX Runtime's operators of transformers (domain com.microsoft), which its optimizer and its exporters
// write, but for attention. Those on bytes are spell_out_bytes.cpp's and compose_quantized.cpp's.
#include <fmt/format.h>

#include <algorithm>

#include "src/graph/compose.h"

namespace nestor {

namespace {

constexpr const char* kMicrosoft = "com.microsoft";

void gelu(Composer& c, const char* approximate) {
  const std::string x = c.has(1) ? c.op("Add", {c.input(0), c.input(1)}) : c.input(0);
  c.give(0, c.op("Gelu", {x}, {{"approximate", std::string(approximate)}}));
}

void quick_gelu(Composer& c) {
  const std::string scaled =
      c.op("Mul", {c.input(0), c.scalar(c.ctx().get_float("alpha", 1.702), c.type(0).dtype)});
  c.give(0, c.op("Mul", {c.input(0), c.op("Sigmoid", {scaled})}));
}

void fused_matmul(Composer& c) {
  const OpContext& ctx = c.ctx();
  for (const char* name : {"transBatchA", "transBatchB"})
    if (ctx.get_int(name, 0) != 0)
      ctx.fail(fmt::format("`{}` isn't supported", name), "a Transpose before it");
  const auto operand = [&](size_t i, const char* attribute) {
    if (ctx.get_int(attribute, 0) == 0 || c.rank(i) < 2) return c.input(i);
    std::vector<int64_t> perm;
    for (int64_t d = 0; d < c.rank(i); ++d) perm.push_back(d);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return c.op("Transpose", {c.input(i)}, {{"perm", perm}});
  };
  std::string y = c.op("MatMul", {operand(0, "transA"), operand(1, "transB")});
  if (const double alpha = ctx.get_float("alpha", 1); alpha != 1)
    y = c.op("Mul", {y, c.scalar(alpha, c.type(0).dtype)});
  c.give(0, y);
}

// ---- Norms

std::string rms_norm(Composer& c, const std::string& x, const std::string& scale, int64_t axis) {
  return c.op("RMSNormalization", {x, scale},
              {{"axis", axis}, {"epsilon", c.ctx().get_float("epsilon", 1e-5)}});
}

// 1 / sqrt(mean(x^2) + epsilon)
std::string inverse_rms(Composer& c, const std::string& x, DType type) {
  const std::string mean = c.reduced("ReduceMean", c.op("Mul", {x, x}), {-1}, true);
  const std::string sum = c.op("Add", {mean, c.scalar(c.ctx().get_float("epsilon", 1e-5), type)});
  return c.op("Reciprocal", {c.op("Sqrt", {sum})});
}

void simplified_norm(Composer& c) {
  const int64_t axis = c.ctx().get_int("axis", -1);
  c.give(0, rms_norm(c, c.input(0), c.input(1), axis));
  if (!c.wants(1)) return;
  if (axis != -1 && axis != c.rank(0) - 1) c.ctx().fail("statistics are supported along the last axis only");
  c.give(1, inverse_rms(c, c.cast(c.input(0), DType::f32), DType::f32));
}

std::string sum_with_skip(Composer& c, size_t bias) {
  const std::string sum = c.op("Add", {c.input(0), c.input(1)});
  return c.has(bias) ? c.op("Add", {sum, c.input(bias)}) : sum;
}

void skip_norm(Composer& c) {
  const std::string sum = sum_with_skip(c, 4);
  const std::string y = c.op("LayerNormalization", {sum, c.input(2), c.has(3) ? c.input(3) : ""},
                             {{"axis", int64_t{-1}}, {"epsilon", c.ctx().get_float("epsilon", 1e-5)}}, 3);
  c.give(0, y);
  c.give(1, c.output(y, 1));
  c.give(2, c.output(y, 2));
  c.give(3, sum);
}

void skip_simplified_norm(Composer& c) {
  const std::string sum = sum_with_skip(c, 3);
  c.give(0, rms_norm(c, sum, c.input(2), -1));
  if (c.wants(1)) c.ctx().fail("the mean, output 1, isn't supported");
  if (c.wants(2)) c.give(2, inverse_rms(c, c.cast(sum, DType::f32), DType::f32));
  c.give(3, sum);
}

// Words, places and segments, each looked up, added and normalized.
void embed_norm(Composer& c) {
  const Dims& ids = c.shape(0);
  if (ids.size() != 2)
    c.ctx().fail("the words are " + to_string(c.type(0)) + ", they must be [batch, length]");
  std::string sum = c.op("Gather", {c.input(2), c.input(0)});
  const std::string places = c.has(8) ? c.input(8) : c.counted(ids[1], 2, 1);
  sum = c.op("Add", {sum, c.op("Gather", {c.input(3), places})});
  if (c.has(1) && c.has(4)) sum = c.op("Add", {sum, c.op("Gather", {c.input(4), c.input(1)})});
  c.give(0, c.op("LayerNormalization", {sum, c.input(5), c.input(6)},
                 {{"axis", int64_t{-1}}, {"epsilon", c.ctx().get_float("epsilon", 1e-12)}}));
  if (c.wants(1)) {  // how many words there are
    const std::string words = c.has(7) ? c.cast(c.input(7), DType::i32) : "";
    c.give(1, words.empty() ? c.op("Expand", {c.scalar(0, DType::i32), c.ints({ids[0]})})
                            : c.reduced("ReduceSum", words, {1}, false));
  }
  c.give(2, sum);
}

// Of groups of channels, which come last by default. With a bias and what is skipped added before.
void group_norm(Composer& c, bool skips) {
  const OpContext& ctx = c.ctx();
  const bool last = ctx.get_int("channels_last", 1) != 0;
  const int64_t rank = c.rank(0), groups = ctx.get_int("groups", 0),
                activation = ctx.get_int("activation", 0);
  if (rank < 3 || groups < 1 || activation < 0 || activation > 1)
    ctx.fail("the input is " + to_string(c.type(0)) + " with `groups` " + std::to_string(groups),
             "an image, some groups, and the activation 0 (none) or 1 (SiLU)");
  std::string x = c.input(0);
  if (skips) {
    std::string skip = c.input(3);
    const int64_t channels = c.size(1, 0);
    if (c.rank(3) == 2) {  // of a whole image
      Dims shape(static_cast<size_t>(rank), 1);
      shape[0] = c.size(3, 0);
      shape[last ? static_cast<size_t>(rank) - 1 : 1] = channels;
      skip = c.reshaped(skip, shape);
    }
    x = c.op("Add", {x, skip});
    std::vector<int64_t> spread(static_cast<size_t>(rank), 1);
    spread[last ? static_cast<size_t>(rank) - 1 : 1] = channels;
    if (c.has(4)) x = c.op("Add", {x, c.reshaped(c.input(4), spread)});
    c.give(1, x);
  }
  if (last) x = channels_second(c, x, rank);
  std::string y = c.op("GroupNormalization", {x, c.input(1), c.input(2)},
                       {{"num_groups", groups}, {"epsilon", ctx.get_float("epsilon", 1e-5)}});
  if (last) y = channels_last(c, y, rank);
  c.give(0, activation == 1 ? c.op("Mul", {y, c.op("Sigmoid", {y})}) : y);
}

// Softmax(x + bias), where the bias repeats along the first dimensions (inner) or those before `axis`.
void bias_softmax(Composer& c) {
  const int64_t axis = c.axis(c.ctx().get_int("axis", 1), c.rank(0));
  const Dims& x = c.shape(0);
  const std::string y = c.op("Flatten", {c.op("Add", {c.input(0), c.input(1)})}, {{"axis", axis}});
  c.give(0, c.reshaped(c.op("Softmax", {y}, {{"axis", int64_t{1}}}), x));
}

// ---- Convolutions

void fused_conv(Composer& c, bool last) {
  const OpContext& ctx = c.ctx();
  Attrs attrs = ctx.node().attrs;
  for (const char* own : {"activation", "activation_params"}) attrs.erase(own);
  const int64_t rank = c.rank(0);
  const std::string x = last ? channels_second(c, c.input(0), rank) : c.input(0);
  std::string y = c.op("Conv", {x, c.input(1), c.has(2) ? c.input(2) : ""}, attrs);
  if (last) y = channels_last(c, y, rank);
  if (c.has(3)) y = c.op("Add", {y, c.input(3)});
  const std::string activation = ctx.get_string("activation", "");
  const std::vector<double> p = ctx.get_floats("activation_params", {});
  const auto with = [&](const std::vector<const char*>& names) {
    Attrs out;
    for (size_t i = 0; i < names.size() && i < p.size(); ++i) out[names[i]] = p[i];
    return out;
  };
  if (activation == "Clip" && p.size() == 2)
    y = c.op("Clip", {y, c.scalar(p[0], c.type(0).dtype), c.scalar(p[1], c.type(0).dtype)});
  else if (activation == "Relu" || activation == "Sigmoid" || activation == "Tanh")
    y = c.op(activation, {y});
  else if (activation == "LeakyRelu")
    y = c.op(activation, {y}, with({"alpha"}));
  else if (activation == "HardSigmoid")
    y = c.op(activation, {y}, with({"alpha", "beta"}));
  else if (!activation.empty())
    ctx.fail("`activation` is \"" + activation + "\"", "Relu, Sigmoid, Tanh, LeakyRelu, HardSigmoid or Clip");
  c.give(0, y);
}

// ---- Products of bytes and less

void dynamic_quantize_matmul(Composer& c) {
  const std::string bytes = c.op("DynamicQuantizeLinear", {c.input(0)}, {}, 3);
  const std::string sum =
      c.op("MatMulInteger", {bytes, c.input(1), c.output(bytes, 2), c.has(3) ? c.input(3) : ""});
  const std::string step = c.op("Mul", {c.output(bytes, 1), c.input(2)});
  std::string y = c.op("Mul", {c.cast(sum, DType::f32), step});
  if (c.has(4)) y = c.op("Add", {y, c.input(4)});
  c.give(0, y);
}

// Numbers of 4 bits, the two of a byte one behind the other, as a tensor of that shape.
std::string unpacked_fours(Composer& c, const std::string& v, const Dims& shape) {
  Dims bytes = shape;
  bytes.back() = shape.back() / 2;
  bytes.push_back(1);
  const std::string sixteen = c.scalar(16, DType::u8), both = c.reshaped(v, bytes);
  return c.reshaped(
      c.op("Concat", {c.op("Mod", {both, sixteen}), c.op("Div", {both, sixteen})}, {{"axis", int64_t{-1}}}),
      shape);
}

// Columns of 4 bits, two to a byte, in blocks with a scale each.
void matmul_bits(Composer& c) {
  const OpContext& ctx = c.ctx();
  const int64_t bits = ctx.get_int("bits", 4), size = ctx.get_int("block_size", 0), k = ctx.get_int("K", 0),
                n = ctx.get_int("N", 0);
  if ((bits != 4 && bits != 8) || size < 16 || k < 1 || n < 1)
    ctx.fail("`bits` must be 4 or 8, `block_size` 16 or more, and K and N given");
  if (c.has(4)) ctx.fail("`g_idx` isn't supported", "weights in the order of their blocks");
  // Sizes first, so that nothing below overflows.
  const int64_t packed = product(c.type(1).shape), most = 2 * std::max<int64_t>(packed, 16);
  const int64_t blocks = k > most || size > most ? 0 : (k + size - 1) / size;
  if (blocks == 0 || packed % n != 0 || packed / n != blocks * size / 8 * bits)
    ctx.fail(
        "the weights are " + to_string(c.type(1)) + ", which isn't what K, N, `bits` and `block_size` make",
        "[N, blocks, bytes of a block]");
  const auto unpacked = [&](const std::string& v, int64_t columns, int64_t padded) {
    const std::string flat = bits == 8 ? c.reshaped(v, {n, padded}) : unpacked_fours(c, v, {n, padded});
    return padded == columns ? flat : c.sliced(flat, 1, 0, columns);
  };
  const std::string weights = unpacked(c.input(1), k, blocks * size);
  std::string zero;
  if (!c.has(3)) {
    Tensor middle(DType::u8, {n, blocks});
    for (int64_t i = 0; i < middle.size(); ++i) middle.set_int(i, int64_t{1} << (bits - 1));
    zero = c.constant(middle);
  } else if (c.type(3).dtype == DType::u8) {
    zero = unpacked(c.input(3), blocks, bits == 8 ? blocks : (blocks + 1) / 2 * 2);
  } else {
    ctx.fail("zero points of " + std::string(name_of(c.type(3).dtype)) + " aren't supported", "u8");
  }
  const std::string w = c.op("DequantizeLinear", {weights, c.reshaped(c.input(2), {n, blocks}), zero},
                             {{"axis", int64_t{1}}, {"block_size", size}});
  std::string y =
      c.op("MatMul", {c.input(0), c.op("Transpose", {w}, {{"perm", std::vector<int64_t>{1, 0}}})});
  if (c.has(5)) y = c.op("Add", {y, c.input(5)});
  c.give(0, y);
}

// Whether numbers of 4 bits are two to a byte; of uint4 each has a byte here.
bool has_pairs(const Tensor& t) {
  const auto bytes = t.as<uint8_t>();
  return std::any_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b > 15; });
}

// Places of a table of 4 or 8 bits, in blocks with a scale each. Bytes have the zero point in their middle.
void gather_blocks(Composer& c) {
  const OpContext& ctx = c.ctx();
  const int64_t bits = ctx.get_int("bits", 4), size = ctx.get_int("block_size", 128);
  if ((bits != 4 && bits != 8) || size < 1) ctx.fail("`bits` must be 4 or 8, and `block_size` positive");
  const Tensor* table = ctx.constant(0);
  if (!table) ctx.fail_unknown(0);
  if (bytes_of(table->dtype()) != 1 || table->shape().empty())
    ctx.fail("the table is " + to_string(c.type(0)), "one of 4 or 8 bits");
  const int64_t rank = c.rank(0), axis = c.axis(ctx.get_int("quantize_axis", 1), rank);
  const bool pairs = bits == 4 && table->dtype() == DType::u8 && has_pairs(*table);
  std::string q = c.input(0), zero = c.has(3) ? c.input(3) : "";
  if (pairs) {
    if (axis != rank - 1) ctx.fail("`quantize_axis` of a packed table must be the last");
    Dims shape = c.shape(0);
    shape.back() = shape.back() * 2;
    q = unpacked_fours(c, q, shape);
    shape = c.shape(2);
    shape.back() = (shape.back() + 1) / 2 * 2;
    if (!zero.empty()) zero = c.sliced(unpacked_fours(c, zero, shape), axis, 0, c.shape(2).back());
  }
  if (zero.empty() && table->dtype() == DType::u8 && (pairs || bits == 8)) {
    Tensor middle(DType::u8, c.shape(2).numbers());
    for (int64_t i = 0; i < middle.size(); ++i) middle.set_int(i, int64_t{1} << (bits - 1));
    zero = c.constant(middle);
  }
  const std::string w =
      c.op("DequantizeLinear", {q, c.input(2), zero}, {{"axis", axis}, {"block_size", size}});
  c.give(0, c.op("Gather", {w, c.input(1)}, {{"axis", ctx.get_int("gather_axis", 0)}}));
}

}  // namespace

std::vector<Composition> contrib_compositions() {
  return {{kMicrosoft, "Gelu", 1, [](Composer& c) { gelu(c, "none"); }},
          {kMicrosoft, "BiasGelu", 1, [](Composer& c) { gelu(c, "none"); }},
          {kMicrosoft, "FastGelu", 1, [](Composer& c) { gelu(c, "tanh"); }},
          {kMicrosoft, "QuickGelu", 1, quick_gelu},
          {kMicrosoft, "FusedMatMul", 1, fused_matmul},
          {kMicrosoft, "TransposeMatMul", 1, fused_matmul},
          {"", "SimplifiedLayerNormalization", 1, simplified_norm},
          {kMicrosoft, "SimplifiedLayerNormalization", 1, simplified_norm},
          {kMicrosoft, "SkipLayerNormalization", 1, skip_norm},
          {kMicrosoft, "SkipSimplifiedLayerNormalization", 1, skip_simplified_norm},
          {kMicrosoft, "EmbedLayerNormalization", 1, embed_norm},
          {kMicrosoft, "GroupNorm", 1, [](Composer& c) { group_norm(c, false); }},
          {kMicrosoft, "SkipGroupNorm", 1, [](Composer& c) { group_norm(c, true); }},
          {kMicrosoft, "BiasSoftmax", 1, bias_softmax},
          {kMicrosoft, "FusedConv", 1, [](Composer& c) { fused_conv(c, false); }},
          {kMicrosoft, "NhwcFusedConv", 1, [](Composer& c) { fused_conv(c, true); }},
          {kMicrosoft, "DynamicQuantizeMatMul", 1, dynamic_quantize_matmul},
          {kMicrosoft, "MatMulNBits", 1, matmul_bits},
          {kMicrosoft, "GatherBlockQuantized", 1, gather_blocks}};
}

}  // namespace nestor
