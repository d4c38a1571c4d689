// Rows are loaded or stored as whole vectors; a network of shuffles (transpose_network.h) converts between
// rows and columns. Rows of a square that are narrower than a vector share one. If the stride of the columns
// equals their number, and is small, the tile has no gaps: then whole vectors are loaded, and each column
// takes its elements from all of them.
#include "src/passes/transpose_tile.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/passes/linear.h"

namespace nestor::passes {

namespace {

constexpr size_t kFewest = 3;        // columns: below, as many loads as lanes cost more than the gathers
constexpr int64_t kInterleaved = 4;  // up to this stride tiles without gaps are told apart from whole vectors

// The leading lanes that a mask leaves, where it is of that kind.
std::optional<int> wanted(const Expr& mask, int lanes) {
  if (!mask) return lanes;
  const auto* b = mask.as<Binary>();
  const auto* r = b && b->op == BinaryOp::lt ? b->a.as<Ramp>() : nullptr;
  const auto n = r ? as_int(b->b) : std::nullopt;
  if (!n || !is_const_int(r->base, 0) || !is_const_int(r->stride, 1) || *n < 1 || *n > lanes)
    return std::nullopt;
  return static_cast<int>(*n);
}

// One vector of all the parts.
Expr joined(std::vector<Expr> parts) {
  while (parts.size() > 1) {
    std::vector<Expr> halves;
    for (size_t i = 0; i < parts.size(); i += 2) {
      std::vector<int64_t> lanes;
      for (int64_t l = 0; l < 2 * parts[i].type().lanes; ++l) lanes.push_back(l);
      halves.push_back(make::shuffle(parts[i], parts[i + 1], std::move(lanes)));
    }
    parts = std::move(halves);
  }
  return parts[0];
}

}  // namespace

std::optional<Column> column_of(const Buffer& buffer, const Expr& index, const Expr& mask) {
  const auto* r = index.as<Ramp>();
  const int lanes = index.type().lanes;
  if (!r || lanes < 4 || !std::has_single_bit(static_cast<unsigned>(lanes))) return std::nullopt;
  const auto stride = as_int(r->stride);
  if (stride && std::abs(*stride) < 2) return std::nullopt;
  const auto count = wanted(mask, lanes);
  if (!count) return std::nullopt;
  Linear base = linear(r->base);
  const int64_t offset = std::exchange(base.constant, 0);
  return Column{buffer, to_expr(base), offset, stride.value_or(0), stride ? Expr() : r->stride,
                lanes,  *count};
}

std::vector<Group> groups_of(std::vector<Item> items, bool loads) {
  std::vector<Group> families, out;
  for (Item& item : items) {
    const auto family = std::find_if(families.begin(), families.end(),
                                     [&](const Group& g) { return g[0].column.joins(item.column); });
    if (family == families.end())
      families.push_back({std::move(item)});
    else
      family->push_back(std::move(item));
  }
  for (Group& f : families) {
    std::stable_sort(f.begin(), f.end(),
                     [](const Item& a, const Item& b) { return a.column.offset < b.column.offset; });
    const Column c = f[0].column;
    const bool window = loads && c.stride > 0 && c.stride <= kInterleaved;
    const auto most = static_cast<size_t>(
        window || c.open_stride ? c.lanes : std::min<int64_t>(c.lanes, std::abs(c.stride)));
    Group current;
    const auto close = [&] {
      const auto size = static_cast<int64_t>(current.size());
      const bool whole =
          !c.open_stride && (window ? size >= c.stride : size == c.stride && c.stride <= kInterleaved);
      const bool apart = c.open_stride || std::abs(c.stride) > kInterleaved;
      if (whole || (current.size() >= kFewest && apart)) out.push_back(current);
      current.clear();
    };
    for (Item& item : f) {
      if (!current.empty() &&
          (item.column.offset != current.back().column.offset + 1 || current.size() == most))
        close();
      current.push_back(std::move(item));
    }
    close();
  }
  return out;
}

Tile::Tile(const Group& group, std::vector<Stmt>& out)
    : group_(group), c_(group[0].column), out_(out), vector_(c_.buffer->type.with_lanes(c_.lanes)) {
  interleaved_ = !c_.open_stride && std::abs(c_.stride) <= kInterleaved;
  width_ = interleaved_ ? static_cast<int>(c_.stride) : static_cast<int>(std::bit_ceil(group.size()));
  registers_ = make_buffer(c_.buffer->name + "_tile", vector_);
  next_ = interleaved_ ? std::max(width_, parts()) : width_;
  place_.assign(static_cast<size_t>(next_), -1);
}

// Each variable is set once.
void Tile::set(int vector, Expr value) {
  int& place = place_[static_cast<size_t>(vector)];
  place = place < 0 ? vector : next_++;
  out_.push_back(make::store(registers_, {place}, std::move(value)));
}

void Tile::run(const TransposeNetwork& network) {
  for (const Exchange& e : network.exchanges) {
    const Expr a = get(e.a), b = get(e.b);
    set(e.a, make::shuffle(a, b, e.first));
    set(e.b, make::shuffle(a, b, e.second));
  }
}

Expr Tile::row_mask() const {
  const auto n = static_cast<int64_t>(group_.size());
  return n == width_ ? Expr() : lt(make::ramp(0, 1, width_), make::broadcast(n, width_));
}

Expr Tile::load_row(int row) const {
  if (row >= c_.count) return make::imm(0, vector_.with_lanes(width_));
  return make::load(c_.buffer, {row_index(row)}, row_mask());
}

void Tile::load(LoadReplacer& replacer) {
  if (interleaved_) return load_interleaved(replacer);
  const TransposeNetwork network = transpose_network(c_.lanes, width_, bytes_of(vector_.dtype));
  for (int i = 0; i < width_; ++i) {
    std::vector<Expr> squares;
    for (int row = i; row < c_.lanes; row += width_) squares.push_back(load_row(row));
    set(i, joined(std::move(squares)));
  }
  run(network);
  for (int v = 0; v < width_; ++v) {
    const auto column = static_cast<size_t>(network.column[static_cast<size_t>(v)]);
    if (column < group_.size()) replacer.values.emplace(group_[column].load, get(v));
  }
}

void Tile::store(bool streaming) {
  if (interleaved_) return store_interleaved(streaming);
  for (auto i = static_cast<int>(group_.size()); i < width_; ++i) set(i, make::imm(0, vector_));
  const TransposeNetwork network = transpose_network(c_.lanes, width_, bytes_of(vector_.dtype));
  run(network);
  for (int row = 0; row < c_.count; ++row) {
    const int column = row % width_, square = row / width_ * width_;
    const auto v = std::find(network.column.begin(), network.column.end(), column) - network.column.begin();
    Expr value = get(static_cast<int>(v));
    if (width_ < c_.lanes) {
      std::vector<int64_t> lanes;
      for (int l = 0; l < width_; ++l) lanes.push_back(square + l);
      value = make::shuffle(value, value, std::move(lanes));
    }
    out_.push_back(make::store(c_.buffer, {row_index(row)}, std::move(value), row_mask(), streaming));
  }
}

// Of the wanted elements those from `part` vectors on.
Expr Tile::dense_mask(int part) const {
  const int64_t n = elements() - int64_t{part} * c_.lanes;
  return n >= c_.lanes ? Expr() : lt(make::ramp(0, 1, c_.lanes), make::broadcast(n, c_.lanes));
}

// Lane l of column c is element l*stride + c of the tile's vectors; lanes that a mask takes are zero.
void Tile::load_interleaved(LoadReplacer& replacer) {
  const int last = std::max(parts(), 2) - 1;
  for (int part = 0; part < parts(); ++part)
    set(part, make::load(c_.buffer, {dense(part)}, dense_mask(part)));
  const Expr zero = make::imm(0, vector_);
  const bool ends_with_zero = parts() == 1 || dense_mask(last);
  for (int column = 0; column < static_cast<int>(group_.size()); ++column) {
    Expr value = get(0);
    for (int part = 1; part <= last; ++part) {
      bool takes = part == 1;
      std::vector<int64_t> lanes;
      for (int l = 0; l < c_.lanes; ++l) {
        const int from = l * width_ + column, before = part == 1 ? from % c_.lanes : l;
        const bool none = l >= c_.count && part == last && ends_with_zero;
        takes = takes || none || (l < c_.count && from / c_.lanes == part);
        lanes.push_back(none                      ? 2 * c_.lanes - 1
                        : from / c_.lanes == part ? c_.lanes + from % c_.lanes
                                                  : before);
      }
      if (takes) value = make::shuffle(value, part < parts() ? get(part) : zero, std::move(lanes));
    }
    if (c_.count < c_.lanes && !ends_with_zero) {
      std::vector<int64_t> lanes;
      for (int l = 0; l < c_.lanes; ++l) lanes.push_back(l < c_.count ? l : c_.lanes + l);
      value = make::shuffle(value, zero, std::move(lanes));
    }
    replacer.values.emplace(group_[static_cast<size_t>(column)].load, value);
  }
}

void Tile::store_interleaved(bool streaming) {
  for (int part = 0; part < parts(); ++part) {
    Expr value = get(0);
    for (int column = 1; column < width_; ++column) {
      std::vector<int64_t> lanes;
      for (int l = 0; l < c_.lanes; ++l) {
        const int element = part * c_.lanes + l, before = column == 1 ? element / width_ : l;
        lanes.push_back(element % width_ == column ? c_.lanes + element / width_ : before);
      }
      value = make::shuffle(value, get(column), std::move(lanes));
    }
    out_.push_back(make::store(c_.buffer, {dense(part)}, std::move(value), dense_mask(part), streaming));
  }
}

}  // namespace nestor::passes
