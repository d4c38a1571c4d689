// Nodes that aren't well made are refused with the node, the reason and, where there is one, the way out.
#include <cmath>

#include "catch.h"
#include "tests/ops/op_case.h"

using namespace nestor;

namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kHuge = INT64_MAX, kLarge = int64_t{1} << 40;

struct Refusal {
  OpCase node;
  std::vector<std::string> parts;  // of the message
};

OpCase pool(const char* op) {
  return OpCase(op).input({1, 2, 5, 5});
}

std::vector<Refusal> windows_and_rows() {
  Tensor axes(DType::f32, {1});
  OpCase batch("BatchNormalization");
  batch.input({1, 3, 2});
  OpCase trained = batch, old = OpCase("BatchNormalization", 6).input({1, 3, 2});
  for (int i = 0; i < 4; ++i) batch.input({i == 2 ? 4 : 3}), trained.input({3}), old.input({3});
  return {
      {pool("MaxPool"), {"`kernel_shape` is missing"}},
      {pool("MaxPool").attr("kernel_shape", Ints{3}),
       {"the kernel has 1 spatial dimensions, the input has 2"}},
      {pool("MaxPool").attr("kernel_shape", Ints{3, 3}).attr("strides", Ints{1, 0}),
       {"`strides` contains 0"}},
      {pool("MaxPool").attr("kernel_shape", Ints{3, 3}).attr("strides", Ints{kHuge, 1}),
       {"`strides` contains 9223372036854775807, which is too large"}},
      {pool("MaxPool").attr("kernel_shape", Ints{kHuge, 3}),
       {"a size of 9223372036854775807, which is too large"}},
      {pool("MaxPool").attr("kernel_shape", Ints{kLarge, 1}).attr("dilations", Ints{kLarge, 1}),
       {"a window of 1099511627776 elements that are 1099511627776 apart is too large (spatial dimension "
        "0)"}},
      {pool("AveragePool")
           .attr("kernel_shape", Ints{2, 2})
           .attr("strides", Ints{kLarge, kLarge})
           .attr("pads", Ints(4, kLarge)),
       {"with its padding the input is too large: f32[1,2,2199023255554,2199023255554]"}},
      {OpCase("Conv")
           .input({1, 2, 5})
           .input({3, 2, 2})
           .attr("dilations", Ints{kLarge})
           .attr("auto_pad", "SAME_UPPER"),
       {"with its padding the input is too large: f32[1,2,1099511627781]"}},
      {pool("MaxPool").attr("kernel_shape", Ints{3, 3}).attr("auto_pad", "SAME"), {"\"SAME\"", "SAME_UPPER"}},
      {pool("AveragePool").attr("kernel_shape", Ints{3, 7}), {"doesn't fit"}},
      {OpCase("GlobalAveragePool").input({3}), {"f32[3]"}},
      {OpCase("Softmax").input({2, 3}).attr("axis", int64_t{2}), {"axis 2 is outside [-2, 1]"}},
      {OpCase("ReduceSum").input({2, 3}).input(DType::i64, {1}), {"at run time", "initializer"}},
      {OpCase("ReduceSum").input({2, 3}).constant(axes), {"i64 or i32"}},
      {OpCase("ReduceSum", 13).input({2, 3}).attr("axes", Ints{0}), {"second input"}},
      {OpCase("ReduceMax", 13).input({2, 3}).ints({0}), {"attribute"}},
      {OpCase("ReduceMax", 13).input({2, 3}).attr("axes", Ints{0, -2}), {"axis -2 is given twice"}},
      {batch, {"input 3 is f32[4], it must be f32[3]"}},
      {trained.attr("training_mode", int64_t{1}).outputs(2), {"training isn't supported"}},
      {old, {"is_test"}},
      {OpCase("LayerNormalization").input({2, 3}).input({3}).attr("epsilon", "small"),
       {"`epsilon` is a string"}},
      {OpCase("Gemm").input({2, 3}).input({3, 2}).attr("alpha", Ints{1}), {"`alpha` is a list of integers"}},
      {OpCase("Clip", 6).input({2}).attr("max", "6"), {"`max` is a string"}},
      {OpCase("LayerNormalization").input({2, 3}).input({4}), {"don't broadcast"}},
      {OpCase("RMSNormalization", 23).input({2, 3}).input({4}), {"don't broadcast"}},
  };
}

OpCase transposed(Ints w) {
  return OpCase("ConvTranspose").input({1, 4, 5}).input(std::move(w));
}

std::vector<Refusal> columns() {
  const auto columns = [](Ints x, const Ints& image, const Ints& block) {
    return OpCase("Col2Im").input(std::move(x)).ints(image).ints(block);
  };
  return {
      {columns({4, 9}, {4, 4}, {2, 2}), {"it must have 3 dimensions"}},
      {columns({1, 16, 1}, {4, 4, 4, 4}, {2, 2, 2, 2}), {"one to three are supported"}},
      {columns({1, 4, 9}, {4, 4}, {2}), {"the kernel has 1 spatial dimensions, the input has 2"}},
      {columns({1, 4, 9}, {4, 1}, {2, 2}), {"blocks of 2 elements don't fit into the 1 of the padded image"}},
      {columns({1, 4, 8}, {4, 4}, {2, 2}), {"the image is of 9 blocks"}},
      {columns({1, 6, 9}, {4, 4}, {2, 2}), {"blocks have 4 elements"}},
      {columns({1, 4, 9}, {kHuge, 4}, {2, 2}).attr("pads", Ints(4, kLarge)),
       {"`image_shape` contains 9223372036854775807, which is too large"}},
      {columns({1, 4, 9}, {4, 4}, {kLarge, 2}).attr("dilations", Ints{kLarge, 1}),
       {"a window of 1099511627776 elements that are 1099511627776 apart is too large"}},
      {columns({1, 4, 9}, {4, 4}, {kLarge, kLarge}).attr("pads", Ints(4, kLarge)), {"too many elements"}},
      {columns({1, 4, 9}, {4, 4}, {2, 2}).attr("pads", Ints(4, kLarge)), {"there are too many blocks"}},
      {columns({1, 4, 9}, {4, 4}, {2, 2}).attr("pads", Ints{0, 0}), {"`pads` has 2 entries"}},
  };
}

std::vector<Refusal> transposed_convolutions() {
  return {
      {OpCase("ConvTranspose").input({4, 5}).input({4, 5}), {"one to three spatial dimensions"}},
      {transposed({4, 2}), {"f32[4,2]"}},
      {transposed({3, 2, 3}), {"first dimension must be the 4 input channels"}},
      {transposed({4, 2, 3}).attr("group", int64_t{3}), {"3 whole groups"}},
      {transposed({4, 2, 3}).attr("group", int64_t{0}), {"`group` is 0"}},
      {transposed({4, 2, 3}).attr("kernel_shape", Ints{2}), {"`kernel_shape` differs"}},
      {transposed({4, 2, 0}), {"the kernel has a size of 0"}},
      {transposed({4, 2, 3}).attr("strides", Ints{0}), {"`strides` contains 0"}},
      {transposed({4, 2, 3}).attr("output_padding", Ints{1}), {"less than the stride"}},
      {transposed({4, 2, 3}).attr("output_shape", Ints{1, 1}), {"`output_shape` has 2 entries"}},
      {transposed({4, 2, 3}).attr("output_shape", Ints{8}), {"`output_shape` is 8", "no further than 7"}},
      {transposed({4, 2, 3}).attr("pads", Ints{4, 4}), {"paddings of 4 and 4 take more than the 7"}},
      {transposed({4, 2, 3}).attr("auto_pad", "SAME"), {"\"SAME\"", "SAME_UPPER"}},
      {transposed({4, 2, 3}).input({3}), {"the bias is f32[3], it must be f32[2]"}},
  };
}

std::vector<Refusal> quantizations() {
  const auto to_bytes = [](const Ints& scale) { return OpCase("QuantizeLinear").input({2, 3}).input(scale); };
  const auto from_bytes = [](const Ints& scale) {
    return OpCase("DequantizeLinear").input(DType::i8, {2, 3}).input(scale);
  };
  return {
      {to_bytes({2}), {"the scale is f32[2] beside f32[2,3]", "axis 1", "ask for f32[3]"}},
      {to_bytes({3}).attr("axis", int64_t{2}), {"axis 2", "[-2, 1]"}},
      {to_bytes({2, 3}).attr("block_size", int64_t{2}), {"blocks of 2 ask for f32[2,2]"}},
      {to_bytes({}).attr("block_size", int64_t{-1}), {"`block_size` is -1"}},
      {to_bytes({3}).input(DType::u8, {2}), {"the zero point is u8[2] beside the scale f32[3]"}},
      {to_bytes({}).input(DType::i32, {}), {"input 2 is i32[]", "u8, i8, u16, i16"}},
      {to_bytes({}).input(DType::u8, {}).attr("output_dtype", int64_t{3}), {"i8 beside a zero point of u8"}},
      {to_bytes({}).attr("output_dtype", int64_t{6}), {"`output_dtype` is i32", "u8, i8, u16 or i16"}},
      {from_bytes({}).input(DType::u8, {}), {"i8[2,3]", "u8[]"}},
      {OpCase("DequantizeLinear", 23).input(DType::i8, {2}).input({}).attr("output_dtype", int64_t{10}),
       {"`output_dtype` isn't f32"}},
      {OpCase("DynamicQuantizeLinear").input(DType::f64, {2}), {"f64[2]", "f32"}},
  };
}

std::vector<Refusal> squares() {
  const auto norm = [](int64_t groups) {
    return OpCase("GroupNormalization").input({1, 6, 4}).input({6}).input({6}).attr("num_groups", groups);
  };
  return {
      {OpCase("DepthToSpace").input({1, 6, 4, 4}).attr("blocksize", int64_t{2}),
       {"channels don't divide by 4"}},
      {OpCase("DepthToSpace").input({1, 4, 4}).attr("blocksize", int64_t{2}), {"f32[1,4,4]"}},
      {OpCase("DepthToSpace").input({1, 4, 4, 4}), {"`blocksize` is missing"}},
      {OpCase("DepthToSpace").input({1, 4, 4, 4}).attr("blocksize", int64_t{2}).attr("mode", "RCD"),
       {"\"RCD\"", "DCR or CRD"}},
      {OpCase("SpaceToDepth").input({1, 4, 4, 3}).attr("blocksize", int64_t{2}),
       {"columns don't divide by 2"}},
      {OpCase("Mod").input({4}).input(DType::f64, {4}), {"element types must be the same"}},
      {OpCase("BitShift").input(DType::u8, {4}).input(DType::u8, {4}),
       {"`direction` is \"\"", "LEFT or RIGHT"}},
      {OpCase("BitwiseAnd").input({4}).input({4}), {"f32[4]", "i64"}},
      {OpCase("BitCast", 26).input({4}).attr("to", int64_t{7}), {"f32 and i64 differ in size"}},
      {norm(4), {"`num_groups` is 4", "the 6 channels"}},
      {OpCase("GroupNormalization", 18).input({1, 6, 4}).input({6}).input({6}).attr("num_groups", int64_t{2}),
       {"input 1 is f32[6], it must be f32[2]"}},
  };
}

std::vector<Refusal> resizes() {
  const auto to = [](const Ints& sizes) {
    return OpCase("Resize").input({1, 1, 4, 4}).omitted().omitted().ints(sizes);
  };
  const auto crop = [](const std::vector<double>& region) {
    Tensor roi(DType::f32, {static_cast<int64_t>(region.size())});
    for (size_t i = 0; i < region.size(); ++i) roi.set(static_cast<int64_t>(i), region[i]);
    return OpCase("Resize").input({4}).constant(roi).omitted().ints({3}).attr(
        "coordinate_transformation_mode", "tf_crop_and_resize");
  };
  const auto by = [](double scale) {
    Tensor t(DType::f32, {1});
    t.set(0, scale);
    return OpCase("Resize").input({4}).omitted().constant(t);
  };
  return {
      {to({4, 4}), {"`sizes` has 2 elements for 4 axes"}},
      {to({1, 1, -1, 4}), {"axis 2 would have -1 elements"}},
      {to({1, 1, 8, 8}).attr("axes", Ints{2, 3}), {"`sizes` has 4 elements for 2 axes"}},
      {to({1, 1, 8, int64_t{1} << 40}), {"axis 3 would have 1099511627776 elements"}},
      {to({1, 1, 8, 8}).attr("mode", "area"), {"`mode` is \"area\"", "nearest, linear or cubic"}},
      {to({1, 1, 8, 8}).attr("nearest_mode", "up"), {"`nearest_mode` is \"up\"", "round_prefer_floor"}},
      {to({1, 1, 8, 8}).attr("coordinate_transformation_mode", "tf_crop_and_resize"),
       {"tf_crop_and_resize needs `roi`"}},
      {crop({0, 0, 1}), {"`roi` is f32[3] for 1 axes", "a start for each axis, then an end for each"}},
      {crop({0, 1e-9}), {"`roi` has the element 0.000000", "from 1e-6 to 1e6"}},
      {crop({0, 1}).attr("antialias", int64_t{1}), {"`antialias` with tf_crop_and_resize isn't supported"}},
      {to({1, 1, 8, 8}).attr("keep_aspect_ratio_policy", "loose"), {"\"loose\"", "not_larger"}},
      {by(0), {"the scale 0.000000 of axis 0 isn't above 0"}},
      {by(1e12), {"of axis 0", "more than 1048576 elements"}},
      {by(std::nan("")), {"the scale nan"}},
      {by(INFINITY), {"the scale inf"}},
      {by(1).attr("coordinate_transformation_mode", "halfpixel"), {"\"halfpixel\" isn't supported"}},
      {OpCase("Resize").input({4}), {"neither `scales` nor `sizes`"}},
      {OpCase("Resize").input({4}).omitted().input({1}), {"`scales` is computed at run time"}},
      {OpCase("Resize").input({4}).omitted().ints({2}), {"i64[1]", "f32"}},
      {OpCase("Upsample", 9).input({4}).ints({2}).attr("mode", "cubic"), {"nearest or linear"}},
      {OpCase("Resize").input({0}).omitted().omitted().ints({3}), {"axis 0 has no elements"}},
      {OpCase("Resize").input(DType::u8, {4}).omitted().omitted().ints({8}).attr("mode", "linear"),
       {"u8[4]", "f32, f64"}},
  };
}

std::vector<Refusal> shapes() {
  const auto reshape = [](const Ints& to) { return OpCase("Reshape").input({2, 3}).ints(to); };
  return {
      {reshape({4, 2}), {"f32[2,3] to f32[4,2]", "6 elements against 8"}},
      {reshape({4, -1}), {"6 elements don't divide"}},
      {reshape({-1, -1}), {"two dimensions are -1"}},
      {reshape({-2, 3}), {"negative"}},
      {reshape({2, 3, 0}), {"has no such one"}},
      {reshape({int64_t{1} << 62, 8}), {"overflows"}},
      {OpCase("Squeeze").input({2, 3}).ints({0}), {"isn't 1"}},
      {OpCase("Transpose").input({2, 3}).attr("perm", Ints{0, 0}), {"isn't a permutation"}},
      {OpCase("Concat").input({2, 3}).input({3, 3}).attr("axis", int64_t{1}), {"differs", "dimension 0"}},
      {OpCase("Concat").input({2, 3}), {"`axis` is missing"}},
      {OpCase("Split", 13).input({5}).outputs(2), {"isn't split evenly into 2"}},
      {OpCase("Split", 13).input({5}).ints({1, 3}).outputs(2), {"don't add up"}},
      {OpCase("Slice").input({5}).ints({0}).ints({5}).ints({0}).ints({0}), {"a step is 0"}},
      {OpCase("Slice").input({5}).ints({0, 1}).ints({5}), {"differ in length"}},
      {OpCase("Expand").input({2, 3}).ints({2, 4}), {"don't broadcast"}},
      {OpCase("Pad").input({2}).ints({1}), {"2 are needed"}},
      {OpCase("Pad").input({2}).ints({2, 0}).attr("mode", "reflect"), {"reflection"}},
      {OpCase("Pad").input({2}).ints({-3, 0}), {"negative"}},
      {OpCase("Gather").input({3}).ints({3}), {"index 3 is outside [-3, 3)"}},
      {OpCase("Gather").input({3}).input({1}), {"input 1 is f32[1]", "i64, i32"}},
      {OpCase("GatherND").input({3, 4}).input(DType::i64, {2, 3}), {"i64[2,3]", "1 to 2"}},
      {OpCase("GatherND").input({3, 4}).ints({0, 4}), {"index 4 is outside [-4, 4)"}},
      {OpCase("GatherND").input({3, 4}).input(DType::i64, {2, 1}).attr("batch_dims", int64_t{1}),
       {"first 1 dimensions"}},
      {OpCase("GatherND").input({3, 4}).input(DType::i64, {2, 1}).attr("batch_dims", int64_t{2}),
       {"`batch_dims` is 2", "0 to 1"}},
      {OpCase("ScatterND").input({3, 4}).ints({3}).input({4}), {"index 3 is outside [-3, 3)"}},
      {OpCase("ScatterND").input({3, 4}).input(DType::i64, {2, 1}).input({2, 3}), {"f32[2,4] was expected"}},
      {OpCase("ScatterND").input({3, 4}).ints({0}).input({4}).attr("reduction", "mean"),
       {"\"mean\"", "none, add, mul, max or min"}},
      {OpCase("ScatterElements").input({3}).ints({0, 1}).input({3}), {"f32[2] was expected"}},
      {OpCase("LpNormalization").input({2, 3}).attr("p", int64_t{3}), {"`p` is 3", "1 or 2"}},
      {OpCase("GridSample").input({2, 3, 4}).input({2, 3, 4}), {"two or three spatial dimensions"}},
      {OpCase("GridSample").input({2, 3, 4, 5}).input({1, 3, 4, 2}), {"begin with 2 and end with 2"}},
      {OpCase("GridSample").input({2, 3, 0, 5}).input({2, 3, 4, 2}), {"no place in it"}},
      {OpCase("GridSample").input({2, 3, 4, 5}).input({2, 3, 4, 2}).attr("mode", "bilinea"),
       {"\"bilinea\"", "linear, nearest or cubic"}},
      {OpCase("GridSample").input({2, 3, 4, 5}).input({2, 3, 4, 2}).attr("padding_mode", "wrap"),
       {"\"wrap\"", "zeros, border or reflection"}},
      {OpCase("OneHot").input(DType::i64, {2}).input(DType::i64, {1}).input({2}), {"depth", "compile time"}},
      {OpCase("OneHot").input(DType::i64, {2}).ints({0}).input({2}), {"at least 1"}},
      {OpCase("OneHot").input(DType::i64, {2}).ints({3}).input({3}), {"off and on"}},
      {OpCase("Einsum").input({2, 3}).attr("equation", "ij,jk->ik"), {"2 terms for 1 inputs"}},
      {OpCase("Einsum").input({2, 3}), {"`equation` is missing"}},
      {OpCase("GatherND").input({}).input(DType::i64, {1}), {"scalar"}},
      {OpCase("ScatterElements").input({}).input(DType::i64, {}).input({}), {"scalar"}},
      {OpCase("ScatterND").input({}).input(DType::i64, {1}).input({}), {"scalar"}},
      {OpCase("Einsum").input({2, 3}).attr("equation", "ijk"), {"\"ijk\"", "f32[2,3]"}},
      {OpCase("Einsum").input({2, 3}).attr("equation", "i...j...->i"), {"at most one"}},
      {OpCase("Einsum").input({2, 3}).attr("equation", "i1->i"), {"not of letters"}},
      {OpCase("Einsum").input({2, 3}).attr("equation", "ij->ik"), {"`k`", "no input has"}},
      {OpCase("Einsum").input({2, 3}).attr("equation", "ij->ii"), {"`i` twice"}},
      {OpCase("Einsum").input({2, 3}).input({4, 2}).attr("equation", "ij,jk"), {"`j`", "is 3", "input 1, 4"}},
      {OpCase("Constant"), {"`value` is missing"}},
      {OpCase("Constant").attr("value_string", "x"), {"`value_string` isn't supported"}},
      {OpCase("ConstantOfShape").ints({2, -1}), {"negative"}},
      {OpCase("Cast").input({2}).attr("to", int64_t{8}), {"element type 8", "FLOAT 1"}},
      {OpCase("Cast").input({2}), {"`to` is missing"}},
      {OpCase("Gelu").input({2}).attr("approximate", "fast"), {"\"fast\"", "none or tanh"}},
      {OpCase("Relu").input(DType::boolean, {2}), {"bool[2]", "Cast it to"}},
      {OpCase("PRelu").input({2, 1}).input({3}), {"slope", "doesn't broadcast"}},
      {OpCase("Dropout", 6).input({2}), {"is_test", "training"}},
      {OpCase("Clip").input({2}).input({3}), {"must be a scalar"}},
      {OpCase("LeakyRelu").input({2}).attr("alpha", "much"), {"`alpha` is a string, it must be a float"}},
      {OpCase("Transpose").input({2}).attr("perm", 1.5),
       {"`perm` is a float, it must be a list of integers"}},
  };
}

}  // namespace

TEST_CASE("Every malformed node has its message") {
  std::vector<Refusal> all = windows_and_rows();
  for (Refusal& r : transposed_convolutions()) all.push_back(std::move(r));
  for (Refusal& r : columns()) all.push_back(std::move(r));
  for (Refusal& r : shapes()) all.push_back(std::move(r));
  for (Refusal& r : squares()) all.push_back(std::move(r));
  for (Refusal& r : resizes()) all.push_back(std::move(r));
  for (Refusal& r : quantizations()) all.push_back(std::move(r));
  for (const Refusal& r : all) {
    std::string message;
    try {
      r.node.infer();
      FAIL("accepted: " << r.node.node().op << ", wanted: " << r.parts[0]);
    } catch (const UserError& e) {
      message = e.what();
    }
    INFO(message);
    CHECK(message.find(r.node.node().op + " node `node`") != std::string::npos);
    for (const std::string& part : r.parts) {
      INFO("wanted: " << part);
      CHECK(message.find(part) != std::string::npos);
    }
  }
}
