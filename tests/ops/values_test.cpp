// Values of operators where their rules are easily got wrong: opsets that differ, borders, NaN, nothing at
// all.
#include "catch.h"
#include "tests/ops/run_op.h"

using namespace nestor;

namespace {

Tensor scalar(double value, DType type = DType::f32) {
  Tensor t(type, {});
  t.set(0, value);
  return t;
}

}  // namespace

TEST_CASE("Arithmetic before opset 7 places the second operand by `axis`") {
  const auto add = [] { return OpCase("Add", 6).input({2, 3}).attr("broadcast", int64_t{1}); };
  CHECK(run(add().input({2}).attr("axis", int64_t{0}), {iota(6), {10, 20}}) ==
        Values{10, 11, 12, 23, 24, 25});
  CHECK(run(add().input({3}), {iota(6), {10, 20, 30}}) == Values{10, 21, 32, 13, 24, 35});
}

TEST_CASE("PRelu before opset 7 has a slope per channel") {
  const Values x = {-1, -2, -3, -4};
  CHECK(run(OpCase("PRelu", 6).input({1, 2, 2}).input({2}), {x, {10, 100}}) == Values{-10, -20, -300, -400});
  CHECK(run(OpCase("PRelu", 7).input({1, 2, 2}).input({2}), {x, {10, 100}}) == Values{-10, -200, -30, -400});
}

TEST_CASE("Integers: division truncates, powers are exact") {
  const auto node = [](const char* op) { return OpCase(op).input(DType::i64, {4}).input(DType::i64, {4}); };
  CHECK(run(node("Div"), {{7, -7, 7, -7}, {2, 2, -2, -2}}) == Values{3, -3, -3, 3});
  CHECK(run(node("Pow"), {{2, -3, 5, 10}, {10, 3, 0, 9}}) == Values{1024, -27, 1, 1e9});
}

TEST_CASE("rows of softmax that go by pieces treat infinities and NaN as others do") {
  constexpr int64_t kLong = (1 << 18) + 5;
  const auto softmax = [](const Values& row) {
    return run(OpCase("Softmax").input({1, static_cast<int64_t>(row.size())}), {row});
  };
  Values row(kLong, -kInf);  // most pieces hold nothing else
  row[7] = 1;
  row[kLong - 1] = 1;
  Values y = softmax(row);
  CHECK(y[7] == 0.5);
  CHECK(y[kLong - 1] == 0.5);
  CHECK(y[8] == 0);
  row[7] = -3e38;  // far below the last element, by less than overflows
  y = softmax(row);
  CHECK(y[7] == 0);
  CHECK(y[kLong - 1] == 1);
  row[100000] = kNaN;
  y = softmax(row);
  for (const size_t i : {size_t{0}, size_t{7}, size_t{100000}, row.size() - 1}) CHECK(std::isnan(y[i]));
  row[100000] = kInf;
  CHECK(std::isnan(softmax(row)[7]));  // inf - inf
  CHECK(std::isnan(softmax(Values(kLong, -kInf))[0]));
}

TEST_CASE("NaN: what passes it on, and what doesn't") {
  const auto node = [](const char* op) { return OpCase(op).input({2}); };
  CHECK(same(run(node("Relu"), {{kNaN, -1}}), {kNaN, 0}));
  CHECK(same(run(node("Clip").constant(scalar(0)).constant(scalar(6)), {{kNaN, 7}}), {kNaN, 6}));
  CHECK(same(run(node("Max").input({2}), {{kNaN, 1}, {1, kNaN}}), {kNaN, kNaN}));
  CHECK(same(run(node("Min").input({2}), {{kNaN, 1}, {1, kNaN}}), {kNaN, kNaN}));
  CHECK(same(run(node("ThresholdedRelu"), {{kNaN, 2}}), {0, 2}));  // x where x > alpha, else 0
  for (const char* op : {"ReduceMax", "ReduceMin"})
    CHECK(same(run(OpCase(op).input({4, 2}).ints({1}), {{kNaN, 1, 2, kNaN, kNaN, kNaN, 3, 3}}),
               {kNaN, kNaN, kNaN, 3}));
  CHECK(same(run(OpCase("MaxPool").input({1, 1, 6}).attr("kernel_shape", Ints{2}).attr("strides", Ints{2}),
                 {{kNaN, 1, 2, kNaN, 3, 4}}),
             {kNaN, kNaN, 4}));
  CHECK(same(run(OpCase("GlobalMaxPool").input({1, 2, 3}), {{kNaN, 1, 2, 3, 4, 5}}), {kNaN, 5}));
  CHECK(run(OpCase("Equal").input({1}).input({1}), {{kNaN}, {kNaN}}) == Values{0});
  CHECK(same(run(OpCase("Softmax").input({2}), {{kNaN, 1}}), {kNaN, kNaN}));
}

TEST_CASE("IsNaN and IsInf tell NaN and the two infinities from numbers") {
  const Values hard = {kNaN, kInf, -kInf, 3e38, -0.0};
  CHECK(run(OpCase("IsNaN").input({5}), {hard}) == Values{1, 0, 0, 0, 0});
  const auto is_inf = [&](int64_t below, int64_t above) {
    return run(OpCase("IsInf").input({5}).attr("detect_negative", below).attr("detect_positive", above),
               {hard});
  };
  CHECK(run(OpCase("IsInf").input({5}), {hard}) == Values{0, 1, 1, 0, 0});
  CHECK(is_inf(1, 0) == Values{0, 0, 1, 0, 0});
  CHECK(is_inf(0, 1) == Values{0, 1, 0, 0, 0});
  CHECK(is_inf(0, 0) == Values{0, 0, 0, 0, 0});
}

TEST_CASE("A running sum leaves out what isn't in its triangle, NaN and infinities too") {
  const auto sum = [](int64_t exclusive, int64_t reverse) {
    return run(OpCase("CumSum")
                   .input({4})
                   .constant(scalar(0, DType::i64))
                   .attr("exclusive", exclusive)
                   .attr("reverse", reverse),
               {{1, 2, kInf, kNaN}});
  };
  CHECK(same(sum(0, 0), {1, 3, kInf, kNaN}));
  CHECK(same(sum(1, 0), {0, 1, 3, kInf}));
  CHECK(same(sum(1, 1), {kNaN, kNaN, kNaN, 0}));
  CHECK(same(run(OpCase("Trilu").input({2, 2}), {{1, 2, kNaN, 4}}), {1, 2, 0, 4}));
}

// What ONNX says of CumSum and CumProd, term by term, of [outer, n, inner].
Values scanned(const Values& x, bool product, size_t n, size_t inner, bool exclusive, bool reverse) {
  Values y(x.size());
  for (size_t o = 0; o < x.size() / (n * inner); ++o)
    for (size_t j = 0; j < inner; ++j) {
      double so_far = product ? 1 : 0;
      for (size_t k = 0; k < n; ++k) {
        const size_t at = (o * n + (reverse ? n - 1 - k : k)) * inner + j;
        const double next = product ? so_far * x[at] : so_far + x[at];
        y[at] = exclusive ? so_far : next;
        so_far = next;
      }
    }
  return y;
}

TEST_CASE("Running sums and products: chunks and their rests, either way, along any axis") {
  for (const int64_t n : {1, 15, 16, 17, 33, 64, 127, 128, 129, 200, 300})
    for (const int64_t inner : {1, 3})
      for (const int64_t way : {0, 1, 2, 3})
        for (const bool product : {false, true}) {
          INFO(n << " by " << inner << ", way " << way);
          Values x = iota(static_cast<size_t>(2 * n * inner));
          for (size_t i = 0; i < x.size(); ++i)
            x[i] = product ? (i % 5 == 0 ? -2 : i % 5 == 1 ? -0.5 : 1) : std::fmod(x[i], 17) - 8;
          OpCase node(product ? "CumProd" : "CumSum", product ? 26 : 14);
          node.input({2, n, inner})
              .constant(scalar(-2, DType::i64))
              .attr("exclusive", way & 1)
              .attr("reverse", way >> 1);
          CHECK(run(node, {x}) ==
                scanned(x, product, static_cast<size_t>(n), static_cast<size_t>(inner), way & 1, way & 2));
        }
}

TEST_CASE("A bound of Clip left out is the largest finite number") {
  const double largest = std::numeric_limits<float>::max();
  CHECK(run(OpCase("Clip", 6).input({2}).attr("min", 0.0), {{-1, kInf}}) == Values{0, largest});
  CHECK(run(OpCase("Clip", 13).input({2}).omitted().constant(scalar(2)), {{-kInf, 5}}) ==
        Values{-largest, 2});
}

TEST_CASE("Softmax until opset 12 takes all axes from `axis` on together") {
  const Values x = {0, std::log(3.0), 0, 0, 0, 0, 0, 0};
  const Values old = run(OpCase("Softmax", 11).input({2, 2, 2}), {x});
  CHECK(same(old, {1 / 6., 3 / 6., 1 / 6., 1 / 6., 0.25, 0.25, 0.25, 0.25}));
  const Values now = run(OpCase("Softmax", 13).input({2, 2, 2}), {x});
  CHECK(same(now, {0.25, 0.75, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}));
  CHECK(same(run(OpCase("Softmax").input({2}), {{1000, 1000}}), {0.5, 0.5}));  // no overflow
}

TEST_CASE("A fold over nothing gives its start") {
  CHECK(run(OpCase("ReduceSum").input({2, 0}).ints({1}), {{}}) == Values{0, 0});
  CHECK(run(OpCase("ReduceProd").input({2, 0}).ints({1}), {{}}) == Values{1, 1});
  CHECK(run(OpCase("ReduceMax").input({1, 0}).ints({1}), {{}}) == Values{-kInf});
  CHECK(run(OpCase("MatMul").input({2, 0}).input({0, 1}), {{}, {}}) == Values{0, 0});
  CHECK(run(OpCase("Conv").input({1, 0, 3}).input({1, 0, 2}), {{}, {}}) == Values{0, 0});
}

TEST_CASE("Tensors without elements pass through") {
  CHECK(run(OpCase("Relu").input({0, 3}), {{}}).empty());
  CHECK(run(OpCase("MatMul").input({0, 3}).input({3, 2}), {{}, iota(6)}).empty());
  CHECK(run(OpCase("Reshape").input({0, 3}).ints({3, 0}).attr("allowzero", int64_t{1}), {{}}).empty());
  CHECK(run(OpCase("Concat").input({0}).input({2}).attr("axis", int64_t{0}), {{}, {1, 2}}) == Values{1, 2});
  CHECK(run(OpCase("Softmax").input({2, 0}), {{}}).empty());
}

TEST_CASE("Reductions: axes as attribute or input, empty axes") {
  CHECK(run(OpCase("ReduceSum", 11).input({2, 2}).attr("axes", Ints{0}), {{1, 2, 3, 4}}) == Values{4, 6});
  CHECK(run(OpCase("ReduceSum", 13).input({2, 2}).ints({-1}), {{1, 2, 3, 4}}) == Values{3, 7});
  OpCase none("ReduceSum", 13);
  none.input({2, 2}).ints({});
  CHECK(run(none, {{1, 2, 3, 4}}) == Values{10});
  CHECK(run(none.attr("noop_with_empty_axes", int64_t{1}), {{1, 2, 3, 4}}) == Values{1, 2, 3, 4});
  CHECK(run(OpCase("ReduceMean").input(DType::i64, {3}), {{-1, -1, -3}}) == Values{-1});  // -5/3 truncates
  CHECK(same(run(OpCase("ReduceLogSumExp").input({2}), {{1000, 1000}}), {1000.693147}));
}

TEST_CASE("AveragePool divides by the elements its windows cover") {
  const auto pool = [] {
    return OpCase("AveragePool", 19).input({1, 1, 4}).attr("kernel_shape", Ints{3}).attr("pads", Ints{1, 1});
  };
  const Values x = {3, 6, 9, 12};
  CHECK(run(pool(), {x}) == Values{4.5, 6, 9, 10.5});
  CHECK(run(pool().attr("count_include_pad", int64_t{1}), {x}) == Values{3, 6, 9, 7});
  // In ceil mode the last window reaches beyond the padding, which doesn't count.
  const auto ceil = OpCase("AveragePool", 19)
                        .input({1, 1, 4})
                        .attr("kernel_shape", Ints{3})
                        .attr("strides", Ints{2})
                        .attr("ceil_mode", int64_t{1})
                        .attr("count_include_pad", int64_t{1});
  CHECK(run(ceil, {x}) == Values{6, 10.5});
}

TEST_CASE("MaxPool pads with less than anything") {
  OpCase c("MaxPool");
  c.input({1, 1, 3}).attr("kernel_shape", Ints{2}).attr("pads", Ints{1, 0});
  CHECK(run(c, {{-5, -7, -6}}) == Values{-5, -5, -6});
}

TEST_CASE("Convolution against its definition") {
  // group 2, stride 2, dilation 2, uneven padding; channels 4 -> 6
  OpCase c("Conv");
  c.input({2, 4, 7, 6}).input({6, 2, 3, 2}).input({6}).attr("group", int64_t{2}).attr("strides", Ints{2, 1});
  c.attr("dilations", Ints{2, 3}).attr("pads", Ints{1, 2, 2, 0});
  REQUIRE(c.infer()[0].shape == Ints{2, 6, 3, 5});
  const Tensor x = Tensor::random(DType::f32, {2, 4, 7, 6}, 1),
               w = Tensor::random(DType::f32, {6, 2, 3, 2}, 2);
  const auto list = [](const Tensor& t) {
    Values v;
    for (int64_t i = 0; i < t.size(); ++i) v.push_back(t.get(i));
    return v;
  };
  Values wanted;
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 6; ++o)
      for (int y = 0; y < 3; ++y)
        for (int u = 0; u < 5; ++u) {
          double sum = 0.25 * o;
          for (int ch = 0; ch < 2; ++ch)
            for (int r = 0; r < 3; ++r)
              for (int s = 0; s < 2; ++s) {
                const int row = y * 2 + r * 2 - 1, column = u + s * 3 - 2;
                if (row < 0 || row >= 7 || column < 0 || column >= 6) continue;
                sum += x.get(((n * 4 + o / 3 * 2 + ch) * 7 + row) * 6 + column) *
                       w.get(((o * 2 + ch) * 3 + r) * 2 + s);
              }
          wanted.push_back(sum);
        }
  Values bias;
  for (int o = 0; o < 6; ++o) bias.push_back(0.25 * o);
  CHECK(same(run(c, {list(x), list(w), bias}), wanted));
}

TEST_CASE("ConvTranspose against its definition") {
  // group 2, strides 3 and 2, dilations 2 and 4 (which leaves every other column without a tap), uneven
  // paddings
  OpCase c("ConvTranspose");
  c.input({2, 4, 3, 4}).input({4, 3, 3, 2}).input({6}).attr("group", int64_t{2}).attr("strides", Ints{3, 2});
  c.attr("dilations", Ints{2, 4}).attr("pads", Ints{1, 2, 0, 1}).attr("output_padding", Ints{1, 0});
  REQUIRE(c.infer()[0].shape == Ints{2, 6, 11, 8});
  const Tensor x = Tensor::random(DType::f32, {2, 4, 3, 4}, 1),
               w = Tensor::random(DType::f32, {4, 3, 3, 2}, 2);
  const auto list = [](const Tensor& t) {
    Values v;
    for (int64_t i = 0; i < t.size(); ++i) v.push_back(t.get(i));
    return v;
  };
  Values wanted(size_t{2} * 6 * 11 * 8), bias;
  for (int o = 0; o < 6; ++o) bias.push_back(0.25 * o);
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = bias[i / 88 % 6];
  for (int n = 0; n < 2; ++n)
    for (int ch = 0; ch < 4; ++ch)
      for (int o = 0; o < 3; ++o)
        for (int y = 0; y < 3; ++y)
          for (int u = 0; u < 4; ++u)
            for (int r = 0; r < 3; ++r)
              for (int s = 0; s < 2; ++s) {
                const int row = y * 3 + r * 2 - 1, column = u * 2 + s * 4 - 2, filter = ch / 2 * 3 + o;
                if (row < 0 || row >= 11 || column < 0 || column >= 8) continue;
                wanted[static_cast<size_t>(((n * 6 + filter) * 11 + row) * 8 + column)] +=
                    x.get(((n * 4 + ch) * 3 + y) * 4 + u) * w.get(((ch * 3 + o) * 3 + r) * 2 + s);
              }
  CHECK(same(run(c, {list(x), list(w), bias}), wanted));
}

TEST_CASE("Gemm scales, transposes and broadcasts") {
  OpCase c("Gemm");
  c.input({2, 1}).input({2, 2}).input({2}).attr("transA", int64_t{1}).attr("transB", int64_t{1});
  c.attr("alpha", 2.0).attr("beta", -1.0);
  CHECK(run(c, {{1, 10}, {1, 2, 3, 4}, {5, 6}}) == Values{37, 80});  // 2*[21,43] - [5,6]
}

TEST_CASE("Slices: backward, beyond the ends, before opset 10") {
  const auto slice = [](int64_t start, int64_t end, int64_t step) {
    return OpCase("Slice").input({5}).ints({start}).ints({end}).ints({0}).ints({step});
  };
  CHECK(run(slice(-1, -100, -2), {iota(5)}) == Values{4, 2, 0});
  CHECK(run(slice(-100, -100, -1), {iota(5)}) == Values{0});  // ONNX cuts a backward start to 0
  CHECK(run(slice(1, std::numeric_limits<int64_t>::max(), 3), {iota(5)}) == Values{1, 4});
  CHECK(run(slice(4, 0, std::numeric_limits<int64_t>::min()), {iota(5)}) == Values{4});
  CHECK(run(slice(3, 1, 1), {iota(5)}).empty());
  CHECK(run(OpCase("Slice", 9).input({5}).attr("starts", Ints{-3}).attr("ends", Ints{-1}), {iota(5)}) ==
        Values{2, 3});
}

TEST_CASE("Reshape finds the source of every element") {
  const Values x = iota(24);
  const auto reshape = [](Ints from, const Ints& to) {
    return OpCase("Reshape").input(std::move(from)).ints(to);
  };
  for (const Ints& to :
       {Ints{24}, Ints{4, 6}, Ints{2, 1, 12}, Ints{6, 2, 2}, Ints{1, 3, 8, 1}, Ints{0, 0, -1}})
    CHECK(run(reshape({2, 3, 4}, to), {x}) == x);
  CHECK(run(OpCase("Flatten").input({2, 3, 4}).attr("axis", int64_t{-1}), {x}) == x);
  CHECK(OpCase("Flatten").input({2, 3, 4}).attr("axis", int64_t{-1}).infer()[0].shape == Ints{6, 4});
}

TEST_CASE("Gather counts negative indices from the end and clamps what is beyond") {
  const auto gather = [] { return OpCase("Gather").input({3, 2}).input(DType::i64, {2}); };
  CHECK(run(gather(), {iota(6), {-1, 0}}) == Values{4, 5, 0, 1});
  CHECK(run(gather().attr("axis", int64_t{1}), {iota(6), {-2, 1}}) == iota(6));
  CHECK(run(gather(), {iota(6), {99, -99}}) == Values{4, 5, 0, 1});
}

TEST_CASE("Scattered updates follow each other, and places beyond the data are clamped") {
  const auto scatter = [](const char* reduction) {
    return OpCase("ScatterND").input({4}).input(DType::i64, {3, 1}).input({3}).attr("reduction", reduction);
  };
  CHECK(run(scatter("none"), {iota(4), {1, -3, 3}, {7, 8, 9}}) == Values{0, 8, 2, 9});
  CHECK(run(scatter("add"), {iota(4), {1, -3, 3}, {7, 8, 9}}) == Values{0, 16, 2, 12});
  CHECK(run(scatter("none"), {iota(4), {99, -99, 1}, {7, 8, 9}}) == Values{8, 9, 2, 7});
}

TEST_CASE("OneHot leaves out what is out of range") {
  const OpCase c = OpCase("OneHot").input(DType::i64, {4}).ints({3}).input({2});
  CHECK(run(c, {{0, -1, 3, -4}, {5, 6}}) == Values{6, 5, 5, 5, 5, 6, 5, 5, 5, 5, 5, 5});
  const OpCase floats = OpCase("OneHot").input({3}).ints({2}).input({2});
  CHECK(run(floats, {{kNaN, 1, kInf}, {5, 6}}) == Values{5, 5, 5, 6, 5, 5});
}

TEST_CASE("Casts truncate, and to bool ask for not zero") {
  const auto cast = [](int64_t to) { return OpCase("Cast").input({4}).attr("to", to); };
  CHECK(run(cast(7), {{1.9, -1.9, 0, 5}}) == Values{1, -1, 0, 5});
  CHECK(run(cast(9), {{0.5, 0, -0.0, kNaN}}) == Values{1, 0, 0, 1});
  CHECK(run(OpCase("Cast", 5).input({1}).attr("to", "INT32"), {{3.5}}) == Values{3});
}

TEST_CASE("ArgMax and ArgMin: ties go to the first or the last, NaN is the extremum") {
  const auto place = [](const char* op, const Values& row, bool last, DType type = DType::f32) {
    OpCase c(op, 13);
    c.input(type, {1, static_cast<int64_t>(row.size())}).attr("axis", int64_t{1});
    if (last) c.attr("select_last_index", int64_t{1});
    return run(c, {row}).at(0);
  };
  for (const DType type : {DType::f32, DType::i64}) {
    CHECK(place("ArgMax", {1, 3, 2, 3, 0}, false, type) == 1);
    CHECK(place("ArgMax", {1, 3, 2, 3, 0}, true, type) == 3);
    CHECK(place("ArgMin", {5, -1, -1, 2}, false, type) == 1);
    CHECK(place("ArgMin", {5, -1, -1, 2}, true, type) == 2);
  }
  CHECK(place("ArgMax", {-kInf, -kInf}, false) == 0);
  CHECK(place("ArgMax", {-kInf, -kInf}, true) == 1);
  CHECK(place("ArgMin", {kInf, kInf, kInf}, false) == 0);
  CHECK(place("ArgMax", {0.0, -0.0, 0.0}, false) == 0);
  CHECK(place("ArgMax", {-0.0, 0.0}, false) == 0);  // zeros are equal
  for (const char* op : {"ArgMax", "ArgMin"}) {
    CHECK(place(op, {1, kInf, kNaN, -kInf, kNaN, 7}, false) == 2);
    CHECK(place(op, {1, kInf, kNaN, -kInf, kNaN, 7}, true) == 4);
    CHECK(place(op, {kNaN}, false) == 0);
    CHECK(place(op, {kNaN, kNaN, kNaN}, true) == 2);
  }
  CHECK(OpCase("ArgMax").input({2, 0}).attr("axis", int64_t{1}).error().find("no elements") !=
        std::string::npos);
}

TEST_CASE("Constants say their value at import") {
  const auto fold = [](const OpCase& c) {
    const OpDef* op = find_op("", c.node().op, c.node().opset);
    return op->fold(OpContext(c.graph(), c.node()));
  };
  const Tensor t = fold(OpCase("Constant").attr("value_ints", Ints{3, 4}));
  CHECK(t.dtype() == DType::i64);
  CHECK(t.get_int(1) == 4);
  const Tensor shape = fold(OpCase("Shape").input({2, 3, 5}).attr("start", int64_t{-2}));
  CHECK(shape.shape() == Ints{2});
  CHECK(shape.get_int(0) == 3);
  CHECK(fold(OpCase("Size").input({2, 3})).get_int(0) == 6);
}
