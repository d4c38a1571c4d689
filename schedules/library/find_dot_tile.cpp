// What tile_dots.cpp takes: a product of two operands, few of whose columns share rows, or windows over an
// image in blocks of channels with few filters.
#include <algorithm>
#include <utility>

#include "nestor/walk.h"
#include "schedules/library/dot_tile.h"
#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

// The iterators, if the block is a product of this form; row is null where it isn't.
DotTile find_product(const BlockInfo& b, int64_t lanes) {
  if (b.reduced().size() != 1) return {};
  DotTile d;
  d.k = b.reduced().front();
  const auto is_batch = [&](const Iter& i) {
    return std::all_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) { return a.uses(i); });
  };
  for (const Iter* i : b.spatial()) {
    if (i->extent == 1 || is_batch(*i)) {
      d.outside.push_back(i);
      continue;
    }
    if (d.row && d.column) return {};
    (d.row ? d.column : d.row) = i;
  }
  if (!d.column) return {};
  if (d.column->extent > d.row->extent) std::swap(d.row, d.column);
  if (d.column->extent > kMostDotColumns || d.k->extent < 2 * lanes) return {};
  bool by_row = false, by_column = false;  // an operand of its own each
  for (const Access& a : b.accesses) {
    if (a.buffer->type != b.output->type) return {};
    if (a.write) continue;
    const bool movable = a.has_plain_indices() && a.uses(*d.k) && (a.constant || !a.uses(*d.row));
    if (a.stride(*d.k) != 1 && !movable) return {};
    if (a.uses(*d.row) == a.uses(*d.column)) return {};
    bool& own = a.uses(*d.row) ? by_row : by_column;
    if (std::exchange(own, true)) return {};
  }
  if (!by_row || !by_column) return {};
  return d;
}

// Whether the operand has blocks of so many of the iterator's values, next to each other.
bool lies_in_blocks(const BlockInfo& b, const Access& a, const Iter& i, int64_t lanes) {
  if (a.indices.empty()) return false;
  if (i.extent == lanes) return a.stride(i) == 1;
  const auto blocks = reduced_in_blocks(b);
  const auto it = blocks.find(i.loop);
  const auto* rest = a.indices.back().as<Binary>();
  return it != blocks.end() && it->second == lanes && rest && rest->op == BinaryOp::mod &&
         uses_var(rest->a, i.var);
}

// Of windows over an image whose channels lie in blocks of a vector, with few constant filters.
DotTile find_windows(const BlockInfo& b, int64_t lanes) {
  const Access *image = nullptr, *filters = nullptr;
  for (const Access& a : b.accesses) {
    if (a.buffer->type != b.output->type) return {};
    if (a.write) continue;
    const Access*& operand = a.constant ? filters : image;
    if (std::exchange(operand, &a)) return {};
  }
  if (!image || !filters || !filters->has_plain_indices()) return {};
  DotTile d;
  d.windows = true;
  for (const Iter* i : b.reduced()) {
    if (!image->uses(*i) || !filters->uses(*i)) return {};
    const bool dense = !d.k && lies_in_blocks(b, *image, *i, lanes);
    if (dense)
      d.k = i;
    else
      d.steps.push_back(i);
  }
  if (!d.k || d.k->loop.empty() || (d.steps.empty() && d.k->extent == lanes)) return {};
  std::vector<const Iter*> along;  // the image
  for (const Iter* i : b.spatial()) {
    if (i->loop.empty() || (image->uses(*i) && filters->uses(*i))) return {};
    if (filters->uses(*i)) {
      if (std::exchange(d.column, i)) return {};
    } else {
      along.push_back(i);
    }
  }
  if (!d.column || d.column->extent > kMostDotColumns || along.empty()) return {};
  // The last one's results lie next to each other; where they are few, some other's.
  const auto longest = std::max_element(along.begin(), along.end(),
                                        [](const Iter* x, const Iter* y) { return x->extent < y->extent; });
  d.row = along.back()->extent * d.column->extent >= kToHideLatency ? along.back() : *longest;
  for (const Iter* i : along)
    if (i != d.row) d.outside.push_back(i);
  return d;
}

}  // namespace

DotTile find_dot_tile(const BlockInfo& b, int64_t lanes) {
  if (!is_float(b.output->type.dtype) || !b.reduction || b.reduced().empty() || !b.affine_loops) return {};
  DotTile d = find_product(b, lanes);
  if (!d.row) d = find_windows(b, lanes);
  if (!d.row) return {};
  d.cut = d.k->extent != lanes;
  d.lanes = d.k->loop + (d.cut ? "1" : "");
  return d;
}

const Access& image_of(const BlockInfo& b) {
  return *std::find_if(b.accesses.begin(), b.accesses.end(),
                       [](const Access& a) { return !a.write && !a.constant; });
}

int64_t bytes_of_image(const BlockInfo& b) {
  const Access& a = image_of(b);
  int64_t elements = 1;
  for (size_t d = 0; d < a.indices.size(); ++d) {
    int64_t taken = 1;
    for (const Iter& i : b.iters)
      if (uses_var(a.indices[d], i.var)) taken *= i.extent;
    elements *= std::min(taken, (d ? a.strides[d - 1] : a.elements) / a.strides[d]);
  }
  return elements * bytes_of(a.buffer->type.dtype);
}

}  // namespace nestor::library
