#include "models.h"

#include <cmath>

namespace nestor::testing {

namespace {

using Shape = std::vector<int64_t>;
using Strings = std::vector<std::string>;

class Builder {
 public:
  Builder(const std::string& name) {
    m.name = name;
    m.file = name;
    m.opsets[""] = 17;
  }
  std::string input(const std::string& name, const Shape& shape, DType dtype = DType::f32) {
    m.inputs.push_back(value(name, shape, dtype));
    return name;
  }
  // Values around 0, as large as keeps sums of `terms` of their products around 1.
  std::string weight(const Shape& shape, int64_t terms) {
    Tensor t = Tensor::random(DType::f32, shape, ++count_);
    const double scale = 1.7 / std::sqrt(static_cast<double>(terms));
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, t.get(i) * scale);
    return constant(std::move(t));
  }
  std::string constant(Tensor t) {
    const std::string name = "c" + std::to_string(++count_);
    m.initializers.emplace_back(name, std::move(t));
    return name;
  }
  std::string integers(const std::vector<int64_t>& values) {
    Tensor t(DType::i64, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) t.set_int(static_cast<int64_t>(i), values[i]);
    return constant(std::move(t));
  }
  std::string scalar(double v) {
    Tensor t(DType::f32, {});
    t.set(0, v);
    return constant(std::move(t));
  }
  std::string node(const std::string& op, const Strings& inputs, const Attrs& attrs = {}) {
    ModelNode n;
    n.op = op;
    n.inputs = inputs;
    n.outputs = {"v" + std::to_string(++count_)};
    n.attrs = attrs;
    m.nodes.push_back(n);
    return n.outputs[0];
  }
  Model finish(const Strings& outputs) {
    for (const std::string& o : outputs) {
      ModelValue v;
      v.name = o;
      v.typed = false;
      m.outputs.push_back(v);
    }
    return std::move(m);
  }
  std::string conv(const std::string& x, int64_t from, int64_t to, int64_t window, int64_t stride = 1,
                   int64_t groups = 1) {
    const int64_t pad = window / 2, terms = from / groups * window * window;
    return node("Conv", {x, weight({to, from / groups, window, window}, terms), weight({to}, 4)},
                {{"pads", Shape{pad, pad, pad, pad}}, {"strides", Shape{stride, stride}}, {"group", groups}});
  }
  Model m;

 private:
  static ModelValue value(const std::string& name, const Shape& shape, DType dtype) {
    ModelValue v;
    v.name = name;
    v.dtype = dtype;
    for (const int64_t s : shape) v.shape.push_back({s, ""});
    return v;
  }
  uint64_t count_ = 0;
};

}  // namespace

Model mobilenet_v2(int64_t size) {
  Builder b("mobilenet_v2");
  const auto clipped = [&](const std::string& x) { return b.node("Clip", {x, b.scalar(0), b.scalar(6)}); };
  std::string x = clipped(b.conv(b.input("image", {1, 3, size, size}), 3, 32, 3, 2));
  int64_t from = 32;
  struct Stage {
    int64_t expand, to, repeats, stride;
  };
  for (const Stage& s : {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
                         Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}})
    for (int64_t i = 0; i < s.repeats; ++i) {
      const int64_t stride = i == 0 ? s.stride : 1, wide = from * s.expand;
      std::string y = s.expand == 1 ? x : clipped(b.conv(x, from, wide, 1));
      y = b.conv(clipped(b.conv(y, wide, wide, 3, stride, wide)), wide, s.to, 1);
      x = stride == 1 && from == s.to ? b.node("Add", {y, x}) : y;
      from = s.to;
    }
  x = b.node("GlobalAveragePool", {clipped(b.conv(x, from, 1280, 1))});
  x = b.node("Flatten", {x});
  return b.finish({b.node("Gemm", {x, b.weight({1280, 1000}, 1280), b.weight({1000}, 4)})});
}

Model bert_block(int64_t tokens, int64_t hidden, int64_t heads) {
  Builder b("bert_block");
  const std::string x = b.input("hidden", {1, tokens, hidden}), mask = b.input("mask", {1, 1, 1, tokens});
  const auto linear = [&](const std::string& v, int64_t from, int64_t to) {
    return b.node("Add", {b.node("MatMul", {v, b.weight({from, to}, from)}), b.weight({to}, 4)});
  };
  const auto norm = [&](const std::string& v) {
    return b.node("LayerNormalization", {v, b.weight({hidden}, 1), b.weight({hidden}, 4)},
                  {{"axis", int64_t{-1}}});
  };
  const auto heads_of = [&](const std::string& v, const Shape& order) {
    const std::string split = b.node("Reshape", {v, b.integers({1, tokens, heads, hidden / heads})});
    return b.node("Transpose", {split}, {{"perm", order}});
  };
  const std::string q = heads_of(linear(x, hidden, hidden), {0, 2, 1, 3}),
                    k = heads_of(linear(x, hidden, hidden), {0, 2, 3, 1}),
                    v = heads_of(linear(x, hidden, hidden), {0, 2, 1, 3});
  const std::string scores = b.node(
      "Add", {b.node("Div", {b.node("MatMul", {q, k}),
                             b.scalar(std::sqrt(static_cast<double>(hidden) / static_cast<double>(heads)))}),
              mask});
  std::string context = b.node("MatMul", {b.node("Softmax", {scores}, {{"axis", int64_t{-1}}}), v});
  context = b.node("Transpose", {context}, {{"perm", Shape{0, 2, 1, 3}}});
  context = b.node("Reshape", {context, b.integers({1, tokens, hidden})});
  const std::string y = norm(b.node("Add", {linear(context, hidden, hidden), x}));
  const std::string up = linear(y, hidden, 4 * hidden);
  const std::string erf = b.node("Erf", {b.node("Div", {up, b.scalar(std::sqrt(2.0))})});
  const std::string gelu =
      b.node("Mul", {b.node("Mul", {up, b.node("Add", {erf, b.scalar(1)})}), b.scalar(0.5)});
  return b.finish({norm(b.node("Add", {linear(gelu, 4 * hidden, hidden), y}))});
}

Model lstm_step(int64_t inputs, int64_t hidden) {
  Builder b("lstm_step");
  const std::string x = b.input("x", {1, 2, inputs}), h = b.input("h", {1, 2, hidden}),
                    c = b.input("c", {1, 2, hidden});
  ModelNode n;
  n.op = "LSTM";
  n.inputs = {x,
              b.weight({1, 4 * hidden, inputs}, inputs),
              b.weight({1, 4 * hidden, hidden}, hidden),
              b.weight({1, 8 * hidden}, 4),
              "",
              h,
              c};
  n.outputs = {"y", "y_h", "y_c"};
  n.attrs = {{"hidden_size", hidden}};
  b.m.nodes.push_back(n);
  return b.finish(n.outputs);
}

Model unet_block(int64_t size) {
  Builder b("unet_block");
  std::string a = b.conv(b.input("image", {1, 4, size, size}), 4, 8, 3);
  a = b.node("Relu", {b.node("InstanceNormalization", {a, b.weight({8}, 1), b.weight({8}, 4)})});
  const std::string down = b.node("MaxPool", {a}, {{"kernel_shape", Shape{2, 2}}, {"strides", Shape{2, 2}}});
  const std::string deep = b.node("Relu", {b.conv(down, 8, 16, 3)});
  const std::string up =
      b.node("ConvTranspose", {deep, b.weight({16, 8, 2, 2}, 16)}, {{"strides", Shape{2, 2}}});
  const std::string wide =
      b.node("Resize", {deep, "", "", b.integers({1, 16, size, size})}, {{"mode", std::string("linear")}});
  const std::string all = b.node("Concat", {a, up, wide}, {{"axis", int64_t{1}}});
  return b.finish({b.node("Sigmoid", {b.conv(all, 32, 3, 3)})});
}

Model in_halves(Model model, DType half) {
  for (ModelValue& v : model.inputs)
    if (v.dtype == DType::f32) v.dtype = half;
  for (auto& [name, tensor] : model.initializers) {
    if (tensor.dtype() != DType::f32) continue;
    Tensor t(half, tensor.shape());
    for (int64_t i = 0; i < t.size(); ++i) t.set(i, tensor.get(i));
    tensor = std::move(t);
  }
  return model;
}

const std::vector<NamedModel>& small_models() {
  static const std::vector<NamedModel> all = [] {
    Model digits = read_model(NESTOR_SOURCE_DIR "/examples/digits/digits.json");
    for (ModelValue& v : digits.inputs)
      for (ModelDim& d : v.shape)
        if (!d.value) d.value = 2;
    return std::vector<NamedModel>{{"digits", digits},
                                   {"MobileNetV2", mobilenet_v2(32)},
                                   {"a BERT block", bert_block(12, 48, 3)},
                                   {"an LSTM step", lstm_step(12, 16)},
                                   {"a U-Net block", unet_block(16)}};
  }();
  return all;
}

Model gather_rows() {
  Builder b("gather_rows");
  const std::string rows = b.input("rows", {3}, DType::i64);
  return b.finish({b.node("Relu", {b.node("Gather", {b.weight({5, 4}, 1), rows})})});
}

}  // namespace nestor::testing
