// ONNX Runtime's operators of bytes (domain com.microsoft) that aren't an operator of ONNX between two
// conversions (those are spell_out_bytes.cpp's), and its convolutions and poolings with the channels last.
#include <fmt/format.h>

#include "src/graph/compose.h"

namespace nestor {

namespace {

constexpr const char* kMicrosoft = "com.microsoft";

std::string maybe(Composer& c, size_t i) {
  return c.has(i) ? c.input(i) : "";
}

// The same operator of ONNX.
void as_onnx(Composer& c, const char* op, size_t inputs, Attrs attrs) {
  std::vector<std::string> given;
  for (size_t i = 0; i < inputs; ++i) given.push_back(maybe(c, i));
  c.give(0, c.op(op, given, std::move(attrs)));
}

// ---- Channels last

void nhwc(Composer& c, const char* op) {
  const int64_t rank = c.rank(0);
  if (rank < 3) c.ctx().fail("the input is " + to_string(c.type(0)) + ", it must be an image [N, H, W, C]");
  Attrs attrs = c.ctx().node().attrs;
  std::string y = c.op(op, {channels_second(c, c.input(0), rank), maybe(c, 1), maybe(c, 2)}, attrs);
  c.give(0, channels_last(c, y, rank));
}

// QLinearConv, whose data may have its channels last; the weights have them as ever.
void qlinear_conv(Composer& c) {
  Attrs attrs = c.ctx().node().attrs;
  const bool last = c.ctx().get_int("channels_last", 0) != 0;
  attrs.erase("channels_last");
  const int64_t rank = c.rank(0);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < 9; ++i) inputs.push_back(maybe(c, i));
  if (last) inputs[0] = channels_second(c, inputs[0], rank);
  const std::string y = c.op("QLinearConv", inputs, attrs);
  c.give(0, last ? channels_last(c, y, rank) : y);
}

// ---- Products

// A and B in bytes; a result in f32. A row of scales and zero points has one for each column.
void matmul_integer_to_float(Composer& c) {
  const std::string sum = c.op("MatMulInteger", {c.input(0), c.input(1), maybe(c, 4), maybe(c, 5)});
  const std::string step = c.op("Mul", {c.input(2), c.input(3)});
  std::string y = c.op("Mul", {c.cast(sum, c.type(2).dtype), step});
  if (c.has(6)) y = c.op("Add", {y, c.input(6)});
  c.give(0, y);
}

// ---- Bytes between conversions, where those aren't of all inputs

std::string dequantized(Composer& c, size_t i) {
  return c.op("DequantizeLinear", {c.input(i), c.input(i + 1), maybe(c, i + 2)});
}

void qlinear_where(Composer& c) {
  const std::string v = c.op("Where", {c.input(0), dequantized(c, 1), dequantized(c, 4)});
  c.give(0, c.op("QuantizeLinear", {v, c.input(7), maybe(c, 8)}));
}

}  // namespace

std::vector<Composition> quantized_compositions() {
  const auto images = [](const char* op) { return [op](Composer& c) { nhwc(c, op); }; };
  // Until opset 21 of ONNX, 16-bit models have these.
  const auto conversion = [](const char* op) {
    return [op](Composer& c) { as_onnx(c, op, 3, {{"axis", c.ctx().get_int("axis", 1)}}); };
  };
  return {{kMicrosoft, "NhwcConv", 1, images("Conv")},
          {kMicrosoft, "NhwcMaxPool", 1, images("MaxPool")},
          {kMicrosoft, "QLinearConv", 1, qlinear_conv},
          {kMicrosoft, "MatMulIntegerToFloat", 1, matmul_integer_to_float},
          {kMicrosoft, "QLinearWhere", 1, qlinear_where},
          {kMicrosoft, "QuantizeLinear", 1, conversion("QuantizeLinear")},
          {kMicrosoft, "DequantizeLinear", 1, conversion("DequantizeLinear")}};
}

}  // namespace nestor
