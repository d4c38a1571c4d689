// Taps of a convolution that meet nothing but padding, at all of its outputs, are cut off from both ends of
// its weights, where these are constant, and the padding with them: dilated windows on small images have
// such. What is left is the same sum. (DeepLab's 3x3 with a dilation of 36 is 1x1 on an image of 33. Zen 4,
// 3x7 with a dilation of 4 and 24 columns of padding on 16: three taps less, 2.1 to 1.2 ms.)
#include <cstring>
#include <optional>

#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "src/ops/products.h"

namespace nestor {

namespace {

// What is left of one dimension.
struct Taps {
  int64_t first, last, pad_begin, pad_end;
};

// The padding behind the image with which these taps make as many outputs; nothing where none does.
std::optional<int64_t> pad_end(const ops::Window& w, size_t d, const Taps& t) {
  const int64_t extent = (t.last - t.first) * w.dilation[d] + 1, begin = t.pad_begin + w.input[d];
  const int64_t end = std::max<int64_t>(0, (w.output[d] - 1) * w.stride[d] + extent - begin);
  if ((begin + end - extent) / w.stride[d] + 1 != w.output[d]) return std::nullopt;
  return end;
}

Taps crop(const ops::Window& w, size_t d) {
  Taps t{0, w.kernel[d] - 1, w.pad_begin[d], w.pad_end[d]};
  const auto meets_image = [&](int64_t tap) {
    const int64_t from = tap * w.dilation[d] - w.pad_begin[d], to = from + (w.output[d] - 1) * w.stride[d];
    return to >= 0 && from < w.input[d];
  };
  for (; t.first < t.last && !meets_image(t.first) && t.pad_begin >= w.dilation[d]; ++t.first)
    t.pad_begin -= w.dilation[d];
  while (t.first < t.last && !meets_image(t.last)) {
    Taps fewer = t;
    --fewer.last;
    const auto end = pad_end(w, d, fewer);
    if (!end) break;
    t = fewer;
    t.pad_end = *end;
  }
  return t;
}

// The weights [filters, channels, spatial...] of these taps.
Tensor cropped(const Tensor& w, const std::vector<Taps>& taps) {
  Dims shape(w.shape().begin(), w.shape().begin() + 2);
  for (const Taps& t : taps) shape.push_back(t.last - t.first + 1);
  Tensor out(w.dtype(), shape);
  const auto bytes = static_cast<size_t>(bytes_of(w.dtype()));
  const auto* source = static_cast<const char*>(w.data());
  auto* target = static_cast<char*>(out.data());
  for (int64_t i = 0; i < out.size(); ++i, target += bytes) {
    int64_t at = 0, stride = 1, rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d], stride *= w.shape()[d])
      at += (rest % shape[d] + (d < 2 ? 0 : taps[d - 2].first)) * stride;
    std::memcpy(target, source + static_cast<size_t>(at) * bytes, bytes);
  }
  return out;
}

}  // namespace

void crop_windows(Graph& g, const EvaluateFn&) {
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (g.nodes[i].op != "Conv" || !g.nodes[i].domain.empty() || !is_constant(g, g.nodes[i].inputs[1]))
      continue;
    const ops::Window w = ops::conv_shape(OpContext(g, g.nodes[i]), 1).window;
    if (!w.input.known() || !w.output.known() || product(w.input) == 0 || product(w.output) == 0) continue;
    std::vector<Taps> taps;
    Dims begin, end;
    bool fewer = false;
    for (size_t d = 0; d < w.rank(); ++d) {
      taps.push_back(crop(w, d));
      begin.push_back(taps[d].pad_begin);
      end.push_back(taps[d].pad_end);
      fewer |= taps[d].last - taps[d].first + 1 < w.kernel[d];
    }
    if (!fewer) continue;
    begin.insert(begin.end(), end.begin(), end.end());
    const ValueId from = g.nodes[i].inputs[1];
    const ValueId to =
        add_constant(g, value_of(g, from).name + ".inside", cropped(constant_of(g, from), taps));
    Node& n = g.nodes[i];
    n.inputs[1] = to;
    n.attrs["pads"] = begin;
    for (const char* stale : {"auto_pad", "kernel_shape"}) n.attrs.erase(stale);
  }
}

}  // namespace nestor
