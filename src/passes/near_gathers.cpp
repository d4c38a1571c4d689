// A gather whose lanes lie near each other, at distances known now, is a load or two of all that lies there
// and a shuffle:
//
//   X[base + (0 0 0 0 4 4 4 4 ...)]   ->   shuffle(X[base ..], (0 0 0 0 4 4 4 4 ...))
//
// So come the channels of a group to the lanes of its outputs, every second pixel of a row, or a row
// backwards. A machine gathers one element at a time; a shuffle moves all at once. Two elements, one for each
// half of the lanes, are broadcast as they are loaded, and blended.
#include <algorithm>

#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/passes/lane_of.h"
#include "src/passes/passes.h"

namespace nestor::passes {

namespace {

// The lanes as distances from the first; nullopt where these aren't constants.
std::optional<std::vector<int64_t>> distances(const Expr& index, const Expr& first) {
  std::vector<int64_t> out;
  for (int i = 0; i < index.type().lanes; ++i) {
    const auto d = as_int(simplify(lane_of(index, i) - first));
    if (!d) return std::nullopt;
    out.push_back(*d);
  }
  return out;
}

// Two elements, each to half of the lanes, go there as they are loaded; null where it isn't so.
Expr of_two(const Load& load, const Expr& first, const std::vector<int64_t>& lanes) {
  const auto n = static_cast<int>(lanes.size()), half = n / 2;
  for (int i = 0; i < n; ++i)
    if (lanes[static_cast<size_t>(i)] != lanes[i < half ? 0 : static_cast<size_t>(half)]) return {};
  const auto element = [&](int lane) {
    const Expr at = simplify(first + lanes[static_cast<size_t>(lane)]);
    return make::broadcast(make::load(load.buffer, {at}), n);
  };
  const Expr lower = make::binary(BinaryOp::lt, make::ramp(0, 1, n), make::broadcast(half, n));
  return make::select(lower, element(0), element(half));
}

class Shuffler : public Rewriter {
 public:
  Expr expr(const Expr& e) override {
    const Expr out = children(e);
    const auto* load = out.as<Load>();
    if (!load || load->mask || !out.type().is_vector() || load->buffer->type.is_vector() ||
        load->indices.size() != 1)
      return out;
    const Expr& index = load->indices[0];
    if (const auto* r = index.as<Ramp>(); r && is_const_int(r->stride, 1)) return out;
    const Expr zero = lane_of(index, 0);
    if (!zero) return out;
    const Expr first = simplify(zero);
    auto lanes = distances(index, first);
    if (!lanes) return out;
    const int64_t n = out.type().lanes, low = *std::min_element(lanes->begin(), lanes->end()),
                  high = *std::max_element(lanes->begin(), lanes->end());
    if (high - low >= 2 * n) return out;
    if (Expr halves = of_two(*load, first, *lanes)) return halves;
    for (int64_t& d : *lanes) d -= low;
    const auto part =
        [&](int64_t begin) {  // lanes behind the last one that is wanted may lie outside of the buffer
          const int64_t wanted = high - low + 1 - begin;
          const int count = static_cast<int>(n);
          const Expr mask =
              wanted < n ? make::binary(BinaryOp::lt, make::ramp(0, 1, count), make::broadcast(wanted, count))
                         : Expr();
          return make::load(load->buffer, {make::ramp(simplify(first + (low + begin)), 1, count)}, mask);
        };
    const Expr a = part(0);
    return make::shuffle(a, high - low < n ? a : part(n), *lanes);
  }
};

}  // namespace

PrimFunc near_gathers(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Shuffler().stmt(f.body);
  return out;
}

}  // namespace nestor::passes
