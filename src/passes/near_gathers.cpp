// Replaces a gather whose lanes are close to each other, at known distances, by one or two loads and a
// shuffle:
//
//   X[base + (0 0 0 0 4 4 4 4 ...)]   ->   shuffle(X[base ..], (0 0 0 0 4 4 4 4 ...))
//
// This occurs where the channels of a group go to the lanes of its outputs, for every second pixel of a row,
// or for a row backwards. A processor gathers one element at a time; a shuffle moves all at once. If there
// are only two different elements, they are broadcast as they are loaded, and blended. The same is done for
// up to four elements in sixteen lanes that are too far apart for a shuffle, as when the groups of a block
// have their channels in different blocks.
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

// A few elements, each to a run of lanes, go there as they are loaded; null where there are more than `most`.
Expr of_runs(const Load& load, const Expr& first, const std::vector<int64_t>& lanes, int64_t most) {
  const auto n = static_cast<int>(lanes.size());
  Expr out;
  for (int end = n, begin; end > 0; end = begin) {  // from the last run, the first lanes in front
    begin = end - 1;
    while (begin > 0 && lanes[static_cast<size_t>(begin - 1)] == lanes[static_cast<size_t>(begin)]) --begin;
    if (most-- == 0) return {};
    const Expr at = simplify(first + lanes[static_cast<size_t>(begin)]);
    const Expr element = make::broadcast(make::load(load.buffer, {at}), n);
    const Expr before = make::binary(BinaryOp::lt, make::ramp(0, 1, n), make::broadcast(end, n));
    out = out ? make::select(before, element, out) : element;
  }
  return out;
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
    const bool far = high - low >= 2 * n;
    if (Expr runs = of_runs(*load, first, *lanes, far ? std::max<int64_t>(n / 4, 2) : 2)) return runs;
    if (far) return out;
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
