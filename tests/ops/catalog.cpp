#include "tests/ops/catalog.h"

namespace nestor {

namespace {

using Ints = std::vector<int64_t>;

Tensor scalar(double value, DType type = DType::f32) {
  Tensor t(type, {});
  t.set(0, value);
  return t;
}

Tensor weights(std::vector<int64_t> shape) {
  return Tensor::random(DType::f32, std::move(shape), 7);
}

OpCase unary(const char* op) {
  return OpCase(op).input({2, 3, 5});
}

void anchors(std::vector<CatalogEntry>& all) {
  all.push_back({"MatMul", OpCase("MatMul").input({3, 5}).constant(weights({5, 4}))});
  all.push_back({"MatMul batched", OpCase("MatMul").input({2, 1, 3, 5}).input({4, 5, 2})});
  all.push_back({"MatMul vectors", OpCase("MatMul").input({5}).input({5})});
  all.push_back({"MatMul matrix vector", OpCase("MatMul").input({3, 5}).input({5})});
  all.push_back({"MatMul empty", OpCase("MatMul").input({3, 0}).input({0, 4})});
  all.push_back({"Gemm", OpCase("Gemm").input({3, 5}).constant(weights({5, 4}))});
  all.push_back({"Gemm full", OpCase("Gemm")
                                  .input({5, 3})
                                  .constant(weights({4, 5}))
                                  .constant(weights({4}))
                                  .attr("transA", int64_t{1})
                                  .attr("transB", int64_t{1})
                                  .attr("alpha", 0.5)
                                  .attr("beta", 2.0)});
  const auto conv = [](Ints x, Ints w) {
    return OpCase("Conv").input(std::move(x)).constant(weights(std::move(w)));
  };
  all.push_back(
      {"Conv", conv({1, 3, 6, 5}, {4, 3, 3, 3}).constant(weights({4})).attr("pads", Ints{1, 1, 1, 1})});
  all.push_back({"Conv 1-D", conv({2, 3, 7}, {4, 3, 3}).attr("strides", Ints{2}).attr("dilations", Ints{2})});
  all.push_back({"Conv 3-D", conv({1, 2, 3, 4, 3}, {2, 2, 2, 2, 2}).attr("auto_pad", "SAME_UPPER")});
  all.push_back({"Conv grouped",
                 conv({1, 4, 5, 5}, {6, 2, 3, 3}).attr("group", int64_t{2}).attr("pads", Ints{0, 1, 2, 0})});
  all.push_back({"Conv depthwise",
                 conv({1, 4, 5, 5}, {4, 1, 3, 3}).attr("group", int64_t{4}).attr("strides", Ints{2, 2})});
  const auto transposed = [](Ints x, Ints w) {
    return OpCase("ConvTranspose").input(std::move(x)).constant(weights(std::move(w)));
  };
  all.push_back({"ConvTranspose", transposed({1, 3, 4, 5}, {3, 4, 3, 3})
                                      .constant(weights({4}))
                                      .attr("strides", Ints{2, 2})
                                      .attr("pads", Ints{1, 1, 1, 1})
                                      .attr("output_padding", Ints{1, 0})});
  all.push_back({"nestor.ConvTranspose", OpCase("ConvTranspose", 1, "nestor")
                                             .input({1, 4, 3, 4})
                                             .constant(weights({18, 2, 5, 4}))
                                             .constant(weights({18}))
                                             .attr("group", int64_t{2})
                                             .attr("strides", Ints{3, 2})
                                             .attr("pads", Ints{1, 0, 1, 1})});
  all.push_back({"ConvTranspose 1-D",
                 transposed({2, 3, 4}, {3, 2, 2}).attr("strides", Ints{3}).attr("dilations", Ints{3})});
  all.push_back(
      {"ConvTranspose 3-D", transposed({1, 2, 2, 3, 2}, {2, 2, 2, 2, 2}).attr("strides", Ints{1, 2, 1})});
  all.push_back({"ConvTranspose grouped", transposed({1, 4, 3, 3}, {4, 3, 4, 4})
                                              .attr("group", int64_t{2})
                                              .attr("strides", Ints{2, 2})
                                              .attr("auto_pad", "SAME_LOWER")});
  const auto columns = [](OpCase c, std::vector<int64_t> x, const Ints& image, const Ints& block) {
    return c.input(std::move(x)).ints(image).ints(block);
  };
  all.push_back({"Col2Im", columns(OpCase("Col2Im"), {2, 12, 20}, {7, 9}, {2, 3})
                               .attr("strides", Ints{2, 2})
                               .attr("pads", Ints{0, 1, 1, 1})});
  all.push_back({"Col2Im of many taps", columns(OpCase("Col2Im"), {1, 81, 2}, {9, 10}, {9, 9})});
  all.push_back({"nestor.Col2Im", columns(OpCase("Col2Im", 1, "nestor"), {1, 72, 8}, {5, 4, 11}, {2, 3, 4})
                                      .constant(weights({3}))
                                      .attr("strides", Ints{2, 3, 4})
                                      .attr("dilations", Ints{3, 1, 2})
                                      .attr("pads", Ints{1, 1, 1, 1, 1, 1})});
  all.push_back({"Reorder", OpCase("Reorder", 1, "nestor").input({2, 3, 4, 5})});
  for (const int64_t tile : {2, 3, 4}) {
    all.push_back(
        {"WinogradWeights", OpCase("WinogradWeights", 1, "nestor").input({3, 2, 3, 3}).attr("tile", tile)});
    all.push_back({"WinogradConv", OpCase("WinogradConv", 1, "nestor")
                                       .input({2, 3, 6, 7})
                                       .constant(weights({4, tile + 2, tile + 2, 3}))
                                       .constant(weights({4}))
                                       .constant(weights({4, 3, 3, 3}))
                                       .attr("tile", tile)
                                       .attr("pads", Ints{1, 0, 1, 2})});
  }
}

// Bytes, and floats of 16 bits.
void small_types(std::vector<CatalogEntry>& all) {
  const auto bytes = [](DType t, Ints shape) {
    Tensor out(t, std::move(shape));
    for (int64_t i = 0; i < out.size(); ++i)
      out.set_int(i, t == DType::u8 ? i * 89 % 256 : i * 89 % 256 - 128);
    return out;
  };
  const auto halves = [](DType t, Ints shape) { return weights(std::move(shape)).cast(t); };
  for (const DType t : {DType::bf16, DType::f16}) {
    const std::string of = " of " + std::string(name_of(t));
    all.push_back({"MatMul" + of, OpCase("MatMul").input(t, {3, 5}).constant(halves(t, {5, 4}))});
    all.push_back({"Gemm" + of, OpCase("Gemm")
                                    .input(t, {3, 5})
                                    .constant(halves(t, {5, 4}))
                                    .constant(halves(t, {4}))
                                    .attr("beta", 2.0)});
    all.push_back({"Col2Im" + of, OpCase("Col2Im")
                                      .input(t, {1, 12, 20})
                                      .ints({7, 9})
                                      .ints({2, 3})
                                      .attr("strides", Ints{2, 2})
                                      .attr("pads", Ints{0, 1, 1, 1})});
    all.push_back(
        {"Col2Im of many taps" + of, OpCase("Col2Im").input(t, {1, 81, 2}).ints({9, 10}).ints({9, 9})});
    all.push_back({"Conv" + of, OpCase("Conv")
                                    .input(t, {1, 3, 6, 5})
                                    .constant(halves(t, {4, 3, 3, 3}))
                                    .constant(halves(t, {4}))
                                    .attr("pads", Ints{1, 1, 1, 1})});
  }
  const DType u8 = DType::u8, i8 = DType::i8;
  all.push_back({"MatMulInteger", OpCase("MatMulInteger").input(u8, {3, 5}).constant(bytes(i8, {5, 4}))});
  all.push_back({"MatMulInteger zero points", OpCase("MatMulInteger")
                                                  .input(i8, {2, 3, 5})
                                                  .constant(bytes(u8, {5, 4}))
                                                  .constant(bytes(i8, {2, 3, 1}))
                                                  .constant(bytes(u8, {4}))});
  all.push_back({"QLinearMatMul", OpCase("QLinearMatMul")
                                      .input(u8, {3, 5})
                                      .constant(scalar(0.02))
                                      .constant(scalar(113, u8))
                                      .constant(bytes(i8, {5, 4}))
                                      .constant(weights({4}))
                                      .constant(bytes(i8, {4}))
                                      .constant(scalar(0.03))
                                      .constant(scalar(118, u8))});
  const auto image = [&](OpCase c) { return c.input(u8, {1, 3, 6, 5}); };
  all.push_back({"ConvInteger", image(OpCase("ConvInteger"))
                                    .constant(bytes(i8, {4, 3, 3, 3}))
                                    .constant(scalar(7, u8))
                                    .attr("pads", Ints{1, 1, 1, 1})});
  all.push_back({"ConvInteger without zero points", image(OpCase("ConvInteger", 1, "nestor"))
                                                        .constant(bytes(i8, {4, 3, 3, 3}))
                                                        .constant(scalar(7, u8))
                                                        .attr("pads", Ints{1, 0, 0, 1})});
  all.push_back({"QLinearConv", image(OpCase("QLinearConv"))
                                    .constant(scalar(0.02))
                                    .constant(scalar(113, u8))
                                    .constant(bytes(i8, {4, 3, 3, 3}))
                                    .constant(weights({4}))
                                    .constant(bytes(i8, {4}))
                                    .constant(scalar(0.03))
                                    .constant(scalar(-5, i8))
                                    .constant(bytes(i8, {4}).cast(DType::i32))
                                    .attr("pads", Ints{1, 1, 1, 1})});
}

void quantizations(std::vector<CatalogEntry>& all) {
  const auto zeros = [](DType t, Ints shape) { return Tensor(t, std::move(shape)); };
  const Tensor three = weights({3}), point = scalar(7, DType::i8);
  all.push_back({"QuantizeLinear", OpCase("QuantizeLinear").input({2, 3, 4}).constant(scalar(0.1))});
  all.push_back({"QuantizeLinear of an axis",
                 OpCase("QuantizeLinear").input({2, 3, 4}).constant(three).constant(zeros(DType::i8, {3}))});
  all.push_back({"QuantizeLinear by blocks", OpCase("QuantizeLinear")
                                                 .input({2, 5})
                                                 .input({2, 2})
                                                 .input(DType::u8, {2, 2})
                                                 .attr("block_size", int64_t{3})});
  for (const DType t : {DType::u8, DType::i8, DType::i32})
    all.push_back({"DequantizeLinear of " + std::string(name_of(t)),
                   OpCase("DequantizeLinear").input(t, {2, 3}).constant(scalar(0.1))});
  all.push_back({"DequantizeLinear of an axis", OpCase("DequantizeLinear")
                                                    .input(DType::i8, {3, 4})
                                                    .constant(three)
                                                    .constant(zeros(DType::i8, {3}))
                                                    .attr("axis", int64_t{0})});
  all.push_back(
      {"DequantizeLinear by blocks",
       OpCase("DequantizeLinear").input(DType::i8, {2, 6}).input({2, 3}).attr("block_size", int64_t{2})});
  all.push_back({"DequantizeLinear by a point",
                 OpCase("DequantizeLinear").input(DType::i8, {5}).input({}).constant(point)});
  for (const DType t : {DType::u8, DType::i8})
    all.push_back({"DequantizedConv of " + std::string(name_of(t)), OpCase("DequantizedConv", 1, "nestor")
                                                                        .input(t, {1, 4, 5, 6})
                                                                        .constant(weights({4, 1, 3, 3}))
                                                                        .constant(scalar(5, t))
                                                                        .attr("group", int64_t{4})
                                                                        .attr("pads", Ints{1, 0, 1, 2})});
  all.push_back(
      {"DequantizedConv without a zero point",
       OpCase("DequantizedConv", 1, "nestor").input(DType::u8, {1, 2, 7}).constant(weights({3, 2, 3}))});
  all.push_back({"DynamicQuantizeLinear", OpCase("DynamicQuantizeLinear").input({3, 5}).outputs(3)});
}

void elementwise(std::vector<CatalogEntry>& all) {
  for (const char* op : {"Relu",     "LeakyRelu",   "ThresholdedRelu",
                         "Elu",      "Selu",        "Celu",
                         "Sigmoid",  "HardSigmoid", "HardSwish",
                         "Gelu",     "Mish",        "Softplus",
                         "Softsign", "Tanh",        "Erf",
                         "Exp",      "Log",         "Sqrt",
                         "Sin",      "Cos",         "Reciprocal",
                         "Floor",    "Ceil",        "Round",
                         "Neg",      "Abs",         "Sign",
                         "Identity", "Dropout",     "IsNaN",
                         "IsInf"})
    all.push_back({op, unary(op)});
  all.push_back({"Gelu tanh", unary("Gelu").attr("approximate", "tanh")});
  all.push_back({"IsInf above", unary("IsInf").attr("detect_negative", int64_t{0})});
  all.push_back({"Not", OpCase("Not").input(DType::boolean, {4})});
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Equal", "Less", "LessOrEqual",
                         "Greater", "GreaterOrEqual", "Max", "Min", "Sum", "Mean"})
    all.push_back({op, OpCase(op).input({2, 3, 4}).input({3, 1})});
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Equal", "Less"})
    all.push_back({std::string(op) + " of integers",
                   OpCase(op).input(DType::i64, {3}).constant(scalar(3, DType::i64))});
  for (const char* op : {"And", "Or", "Xor"})
    all.push_back({op, OpCase(op).input(DType::boolean, {2, 3}).input(DType::boolean, {3})});
  all.push_back(
      {"Add of old",
       OpCase("Add", 6).input({2, 3, 4}).input({3}).attr("broadcast", int64_t{1}).attr("axis", int64_t{1})});
  all.push_back({"Mod", OpCase("Mod").input(DType::i64, {2, 3}).constant(scalar(3, DType::i64))});
  all.push_back(
      {"Mod as in C",
       OpCase("Mod").input(DType::i32, {4}).constant(scalar(-3, DType::i32)).attr("fmod", int64_t{1})});
  all.push_back({"Swish", OpCase("Swish", 24).input({4}).attr("alpha", 1.5)});
  all.push_back({"Max of three", OpCase("Max").input({2, 3}).input({3}).input({1})});
  all.push_back({"Where", OpCase("Where").input(DType::boolean, {3}).input({2, 1}).input({1, 3})});
  all.push_back({"Clip", OpCase("Clip").input({5}).constant(scalar(0)).constant(scalar(6))});
  all.push_back({"Clip old", OpCase("Clip", 6).input({5}).attr("max", 0.25)});
  all.push_back({"Cast", OpCase("Cast").input({2, 3}).attr("to", int64_t{7})});
  all.push_back({"CastLike", OpCase("CastLike").input({2, 3}).input(DType::i32, {1})});
}

void windows_and_rows(std::vector<CatalogEntry>& all) {
  const auto pool = [](const char* op) {
    return OpCase(op).input({1, 2, 5, 6}).attr("kernel_shape", Ints{3, 2});
  };
  all.push_back({"MaxPool", pool("MaxPool")});
  all.push_back(
      {"MaxPool padded", pool("MaxPool").attr("pads", Ints{1, 1, 1, 0}).attr("strides", Ints{2, 2})});
  all.push_back({"AveragePool", pool("AveragePool")});
  all.push_back({"AveragePool padded",
                 pool("AveragePool").attr("pads", Ints{1, 1, 1, 0}).attr("ceil_mode", int64_t{1})});
  all.push_back({"GlobalAveragePool", OpCase("GlobalAveragePool").input({2, 3, 4, 5})});
  all.push_back({"GlobalMaxPool", OpCase("GlobalMaxPool").input({2, 3, 4})});
  all.push_back({"Softmax", OpCase("Softmax").input({2, 3, 5})});
  all.push_back({"Softmax old", OpCase("Softmax", 11).input({2, 3, 5})});
  all.push_back({"LogSoftmax", OpCase("LogSoftmax").input({3, 5}).attr("axis", int64_t{0})});
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                         "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
    all.push_back({op, OpCase(op).input({2, 3, 4}).ints({1})});
    all.push_back({std::string(op) + " of all", OpCase(op).input({2, 3}).attr("keepdims", int64_t{0})});
  }
  all.push_back({"ArgMax", OpCase("ArgMax").input({2, 3, 4}).attr("axis", int64_t{1})});
  all.push_back(
      {"ArgMin", OpCase("ArgMin").input({3, 5}).attr("axis", int64_t{-1}).attr("keepdims", int64_t{0})});
  const auto channels = [](const char* op, int count) {
    OpCase c(op);
    c.input({2, 3, 4, 5});
    for (int i = 0; i < count; ++i) c.constant(weights({3}));
    return c;
  };
  all.push_back({"BatchNormalization", channels("BatchNormalization", 4)});
  all.push_back({"InstanceNormalization", channels("InstanceNormalization", 2)});
  all.push_back({"LayerNormalization", OpCase("LayerNormalization").input({2, 3, 5}).constant(weights({5}))});
  all.push_back({"RMSNormalization", OpCase("RMSNormalization", 23).input({2, 3, 5}).constant(weights({5}))});
  all.push_back({"GroupNormalization", OpCase("GroupNormalization")
                                           .input({2, 4, 3, 2})
                                           .constant(weights({4}))
                                           .constant(weights({4}))
                                           .attr("num_groups", int64_t{2})});
  all.push_back({"GroupNormalization by group", OpCase("GroupNormalization", 18)
                                                    .input({2, 6, 5})
                                                    .constant(weights({3}))
                                                    .constant(weights({3}))
                                                    .attr("num_groups", int64_t{3})});
  all.push_back({"LRN", OpCase("LRN").input({1, 5, 2, 2}).attr("size", int64_t{3})});
  all.push_back({"LRN over all channels", OpCase("LRN").input({1, 5, 2, 2}).attr("size", INT64_MAX)});
}

void shapes(std::vector<CatalogEntry>& all) {
  all.push_back({"Reshape", OpCase("Reshape").input({2, 3, 4}).ints({0, -1, 2})});
  all.push_back({"Flatten", OpCase("Flatten").input({2, 3, 4})});
  all.push_back({"Squeeze", OpCase("Squeeze").input({2, 1, 4, 1}).ints({-1})});
  all.push_back({"Unsqueeze", OpCase("Unsqueeze").input({2, 4}).ints({0, -1})});
  all.push_back({"Transpose", OpCase("Transpose").input({2, 3, 4}).attr("perm", Ints{1, 2, 0})});
  all.push_back(
      {"Concat", OpCase("Concat").input({2, 3}).input({2, 0}).input({2, 4}).attr("axis", int64_t{-1})});
  all.push_back({"Split", OpCase("Split").input({2, 7}).ints({3, 4}).attr("axis", int64_t{1}).outputs(2)});
  all.push_back(
      {"Slice", OpCase("Slice").input({4, 6}).ints({-1, 1}).ints({-100, 6}).ints({0, 1}).ints({-1, 2})});
  all.push_back({"Expand", OpCase("Expand").input({3, 1}).ints({2, 1, 4})});
  all.push_back({"Tile", OpCase("Tile").input({2, 3}).ints({1, 2})});
  all.push_back({"Pad", OpCase("Pad").input({2, 3}).ints({0, 1, 2, -1})});
  all.push_back({"Pad reflect", OpCase("Pad").input({2, 3}).ints({1, 2, 0, 2}).attr("mode", "reflect")});
  all.push_back({"Pad edge", OpCase("Pad").input({2, 3}).ints({1, 2, 0, 5}).attr("mode", "edge")});
  all.push_back({"Pad wrap", OpCase("Pad").input({2, 3}).ints({3, 2, 0, 4}).attr("mode", "wrap")});
  all.push_back(
      {"Gather", OpCase("Gather").input({3, 4}).input(DType::i64, {2, 2}).attr("axis", int64_t{1})});
  all.push_back(
      {"GatherND",
       OpCase("GatherND").input({2, 3, 4}).input(DType::i64, {2, 2}).attr("batch_dims", int64_t{1})});
  all.push_back({"ScatterND", OpCase("ScatterND").input({3, 4}).input(DType::i64, {2, 1}).input({2, 4})});
  all.push_back({"Scatter", OpCase("Scatter", 9).input({3, 4}).input(DType::i64, {1, 4}).input({1, 4})});
  all.push_back({"ScatterElements", OpCase("ScatterElements")
                                        .input({3, 4})
                                        .input(DType::i32, {2, 3})
                                        .input({2, 3})
                                        .attr("axis", int64_t{1})
                                        .attr("reduction", "add")});
  all.push_back(
      {"Einsum", OpCase("Einsum").input({2, 3, 4}).input({4, 3, 5}).attr("equation", "bij,jik->bk")});
  for (const int64_t p : {1, 2})
    all.push_back({"LpNormalization " + std::to_string(p),
                   OpCase("LpNormalization").input({2, 3, 5}).attr("p", p).attr("axis", int64_t{1})});
  for (const char* mode : {"linear", "nearest", "cubic"})
    all.push_back({std::string("GridSample ") + mode, OpCase("GridSample")
                                                          .input({2, 3, 4, 5})
                                                          .input({2, 3, 2, 2})
                                                          .attr("mode", mode)
                                                          .attr("padding_mode", "reflection")});
  all.push_back({"GridSample of one known element",
                 OpCase("GridSample").constant(weights({1, 1, 1, 1})).input({1, 2, 2, 2})});
  all.push_back({"GridSample of planes", OpCase("GridSample").input({1, 2, 3, 4, 5}).input({1, 2, 2, 3, 3})});
  for (const int64_t size : {4, 10})  // in three chunks, the last not full, and in one
    all.push_back({"OrderKey in chunks of " + std::to_string(size),
                   OpCase("OrderKey", 1, "nestor").input({2, 10}).attr("size", size)});
  all.push_back({"OrderKey of integers",
                 OpCase("OrderKey", 1, "nestor").input(DType::i64, {2, 10}).attr("largest", int64_t{0})});
  all.push_back({"NextInOrder", OpCase("NextInOrder", 1, "nestor")
                                    .input(DType::i32, {2, 3, 4})
                                    .input(DType::i32, {2, 3})
                                    .input(DType::i32, {2, 1})
                                    .input(DType::i32, {2, 1})
                                    .outputs(3)});
  all.push_back({"NextInOrder of one chunk, the first",
                 OpCase("NextInOrder", 1, "nestor").input(DType::i64, {2, 1, 7}).input(DType::i64, {2, 1})});
  all.push_back({"OneHot", OpCase("OneHot").input(DType::i64, {2, 3}).ints({4}).input({2})});
  all.push_back({"GatherElements", OpCase("GatherElements").input({3, 4}).input(DType::i32, {2, 4})});
  const auto sizes = [](Ints shape, const Ints& to) {
    return OpCase("Resize").input(std::move(shape)).omitted().omitted().ints(to);
  };
  const auto scales = [](std::vector<double> values) {
    Tensor t(DType::f32, {static_cast<int64_t>(values.size())});
    for (size_t k = 0; k < values.size(); ++k) t.set(static_cast<int64_t>(k), values[k]);
    return t;
  };
  all.push_back({"Resize", sizes({1, 2, 3, 4}, {1, 2, 6, 8})});
  all.push_back({"Resize linear", sizes({1, 2, 3, 4}, {1, 2, 6, 7}).attr("mode", "linear")});
  all.push_back({"Resize smaller", sizes({1, 2, 7, 8}, {1, 2, 3, 4}).attr("mode", "linear")});
  all.push_back({"Resize cubic",
                 sizes({2, 4, 3}, {2, 9, 3}).attr("mode", "cubic").attr("exclude_outside", int64_t{1})});
  all.push_back(
      {"Resize by a scale", OpCase("Resize").input({1, 2, 7}).omitted().constant(scales({1, 1, 0.4}))});
  all.push_back({"Resize of old", OpCase("Resize", 10).input({1, 2, 4}).constant(scales({1, 1, 2}))});
  all.push_back({"DepthToSpace", OpCase("DepthToSpace").input({1, 8, 2, 3}).attr("blocksize", int64_t{2})});
  all.push_back({"SpaceToDepth", OpCase("SpaceToDepth").input({1, 2, 4, 6}).attr("blocksize", int64_t{2})});
  all.push_back({"Upsample", OpCase("Upsample", 9).input({1, 2, 3, 4}).constant(scales({1, 1, 2, 3}))});
  all.push_back({"Trilu", OpCase("Trilu").input({2, 3, 4})});
  all.push_back({"Trilu lower", OpCase("Trilu").input({4, 3}).ints({-1}).attr("upper", int64_t{0})});
  all.push_back({"CumSum", OpCase("CumSum").input({2, 5, 3}).constant(scalar(1, DType::i64))});
  all.push_back(
      {"CumSum reverse", OpCase("CumSum").input(DType::i64, {150}).ints({-1}).attr("reverse", int64_t{1})});
  all.push_back({"CumProd", OpCase("CumProd", 26).input({2, 70, 1}).constant(scalar(1, DType::i64))});
  all.push_back({"Constant", OpCase("Constant").attr("value_float", 1.5)});
  all.push_back(
      {"ConstantOfShape", OpCase("ConstantOfShape").ints({2, 3}).attr("value", scalar(4, DType::i64))});
  all.push_back({"Shape", OpCase("Shape").input({2, 3, 5}).attr("start", int64_t{1})});
  OpCase range("Range");
  for (const int64_t v : {10, 1, -3}) range.constant(scalar(static_cast<double>(v), DType::i64));
  all.push_back({"Range", range});
  all.push_back({"Ids", OpCase("CheckIndices", 1, "nestor").input(DType::i64, {4}).attr("extents", Ints{5})});
  all.push_back({"EyeLike", OpCase("EyeLike").input({3, 5}).attr("k", int64_t{1})});
  all.push_back({"AffineGrid", OpCase("AffineGrid").input({2, 2, 3}).ints({2, 3, 4, 5})});
}

}  // namespace

std::vector<CatalogEntry> catalog() {
  std::vector<CatalogEntry> all;
  anchors(all);
  small_types(all);
  quantizations(all);
  elementwise(all);
  windows_and_rows(all);
  shapes(all);
  catalog_more(all);
  return all;
}

}  // namespace nestor
