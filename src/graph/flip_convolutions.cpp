// The weights of a ConvTranspose in the order of a Conv's, where they are constant:
//
//  - Without strides it is a Conv with its filters turned around:
//      Y[o, y] = sum X[c, i] W[c, o, r] over i + d r - pad = y   ->   with r' = k - 1 - r,
//      i = y + d r' - (d (k - 1) - pad)
//    and all that is known about convolutions (Winograd's algorithm) is of use.
//  - Else it is nestor.ConvTranspose, whose filters can lie in blocks, and which knows the target's lanes.
#include <algorithm>
#include <cstring>
#include <optional>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "src/ops/transposed.h"

namespace nestor {

namespace {

// [group * c, o, spatial...] to [group * o, c, spatial...], the spatial dimensions backwards where `flip`.
Tensor filters_first(const Tensor& w, int64_t group, bool flip) {
  const Dims& from = w.shape();
  const int64_t channels = from[0] / group, filters = from[1],
                taps = product(Dims(from.begin() + 2, from.end()));
  Dims shape = from;
  shape[0] = group * filters;
  shape[1] = channels;
  Tensor out(w.dtype(), shape);
  const int64_t bytes = bytes_of(w.dtype());
  const auto* source = static_cast<const char*>(w.data());
  auto* target = static_cast<char*>(out.data());
  for (int64_t g = 0; g < group; ++g)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t o = 0; o < filters; ++o)
        for (int64_t t = 0; t < taps; ++t) {
          const int64_t at = ((g * channels + c) * filters + o) * taps + t;
          const int64_t to = ((g * filters + o) * channels + c) * taps + (flip ? taps - 1 - t : t);
          std::memcpy(target + to * bytes, source + at * bytes, static_cast<size_t>(bytes));
        }
  return out;
}

// The paddings of the Conv; nothing where there is none, where it would have to leave out a part of its
// input, or where no window fits.
std::optional<Dims> paddings(const ops::TransposedShape& s) {
  const size_t rank = s.input.size();
  if (s.strided()) return std::nullopt;
  Dims out(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t span = s.dilation[d] * (s.kernel[d] - 1);
    out[d] = span - s.pad[d];
    out[d + rank] = s.output[d] - s.input[d] + span - out[d];
    if (!out[d + rank].known()) return std::nullopt;
    if (s.output[d] == 0 || out[d] < 0 || out[d + rank] < 0) return std::nullopt;
  }
  return out;
}

}  // namespace

void flip_convolutions(Graph& g, const OptimizeOptions& options) {
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    if (n.op != "ConvTranspose" || !n.domain.empty() || !is_constant(g, n.inputs[1])) continue;
    const ops::TransposedShape shape = ops::transposed_shape(OpContext(g, n));
    const auto pads = paddings(shape);
    const ValueId w = n.inputs[1];
    n.inputs[1] = add_constant(g, value_of(g, w).name + ".filters_first",
                               filters_first(constant_of(g, w), shape.group, pads.has_value()));
    if (!pads) {
      n.domain = "nestor";
      n.opset = 1;
      if (options.lanes != kWidestVector) n.attrs["lanes"] = options.lanes;
      continue;
    }
    n.op = "Conv";
    n.attrs = {{"group", shape.group}, {"dilations", shape.dilation}, {"pads", *pads}};
  }
}

}  // namespace nestor
