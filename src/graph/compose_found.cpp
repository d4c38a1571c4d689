// Operators whose result's size depends on values of run time. The places of what is chosen are written one
// behind the other, into a list that has room for all; those in front are the result, and how many these are
// is a size that the run finds (found_sizes.h).
#include "src/graph/compose_found.h"

#include <fmt/format.h>

#include <limits>

namespace nestor {

namespace {

// Where a list of `count` truth values is true: indices, in i64.
std::string places_of(Composer& c, const std::string& chosen, const Dim& count) {
  const std::string ones = c.cast(chosen, DType::i64), total = c.reduced("ReduceSum", ones, {0}, false);
  // The k-th that is chosen goes to place k, all others to one behind the last.
  const std::string rank = c.op("Sub", {c.op("CumSum", {ones, c.number(0)}), c.number(1)});
  const std::string place = c.op("Where", {chosen, rank, c.number(count)});
  const std::string room = c.op("Expand", {c.number(0), c.ints({count + 1})});
  const std::string all =
      c.op("ScatterElements", {room, place, c.counted(count, 1, 0)}, {{"axis", int64_t{0}}});
  const std::string found = c.reshaped(c.found(total, count), {1});
  return c.op("Slice", {all, c.ints({0}), found, c.ints({0})});
}

std::string flat(Composer& c, const std::string& v, const Dims& shape) {
  return shape.size() == 1 ? v : c.reshaped(v, {product(shape)});
}

// Coordinates along each axis, of places in row-major order.
std::vector<std::string> coordinates(Composer& c, const std::string& places, const Dims& shape) {
  std::vector<std::string> out(shape.size());
  Dim below = 1;  // elements in one step along the axis
  for (size_t axis = shape.size(); axis-- > 0; below *= shape[axis]) {
    const std::string whole = below == 1 ? places : c.op("Div", {places, c.number(max(below, Dim(1)))});
    out[axis] = axis == 0 ? whole : c.op("Mod", {whole, c.number(max(shape[axis], Dim(1)))});
  }
  return out;
}

}  // namespace

void find_places(Composer& c) {
  const Dims& shape = c.shape(0);
  const std::string chosen = c.cast(c.input(0), DType::boolean);
  if (shape.empty()) {  // one place if it isn't 0, of no coordinates
    const std::string count = c.found(c.cast(chosen, DType::i64), 1);
    const std::string size = c.op("Concat", {c.ints({0}), c.reshaped(count, {1})}, {{"axis", int64_t{0}}});
    return c.give(0, c.op("Expand", {c.op("Constant", {}, {{"value", Tensor(DType::i64, {0, 1})}}), size}));
  }
  const std::string places = places_of(c, flat(c, chosen, shape), product(shape));
  std::vector<std::string> rows;
  for (const std::string& along : coordinates(c, places, shape))
    rows.push_back(c.op("Unsqueeze", {along, c.ints({0})}));
  c.give(0, rows.size() == 1 ? rows[0] : c.op("Concat", rows, {{"axis", int64_t{0}}}));
}

void find_compressed(Composer& c) {
  const bool whole = !c.ctx().has_attr("axis");
  const int64_t axis = whole ? 0 : c.axis(c.ctx().get_int("axis", 0), c.rank(0));
  const Dim extent = whole ? product(c.shape(0)) : c.shape(0)[static_cast<size_t>(axis)];
  const Dim count = c.size(1, 0);
  if (c.rank(1) != 1 || c.type(1).dtype != DType::boolean)
    c.ctx().fail(fmt::format("the condition is {}, it must be a list of truth values", to_string(c.type(1))));
  if (count > extent)
    c.ctx().fail(fmt::format("the condition is {}, the axis has {} elements", to_string(c.type(1)),
                             to_string(extent)));
  const std::string x = whole ? flat(c, c.input(0), c.shape(0)) : c.input(0);
  c.give(0, c.op("Gather", {x, places_of(c, c.input(1), count)}, {{"axis", axis}}));
}

namespace {

// The list's indices in the order of its elements, the largest first or the smallest; equal ones as they
// stand.
std::string order_of(Composer& c, const std::string& list, bool largest) {
  const std::string keys = c.own("OrderKey", {list}, {{"largest", int64_t{largest}}, {"size", int64_t{1}}});
  const std::string row = c.cast(c.op("Transpose", {keys}), DType::i64);
  return c.op("Squeeze", {c.own("Order", {row}), c.ints({0})});
}

std::string gathered(Composer& c, const std::string& list, const std::string& at) {
  return c.op("Gather", {list, at}, {{"axis", int64_t{0}}});
}

// At each place at[i] of a list as long as `at` stands v[i]; at has all places.
std::string scattered(Composer& c, const std::string& at, const std::string& v) {
  return c.op("ScatterElements", {at, at, v}, {{"axis", int64_t{0}}});
}

}  // namespace

// Equal elements stand side by side once all are in order; the first of each are chosen.
void find_unique(Composer& c) {
  if (c.ctx().has_attr("axis") && c.rank(0) != 1)
    c.ctx().fail("slices along an axis are compared only where they are known at compile time",
                 "Unique of all elements, or of a list");
  const Dim count = product(c.shape(0));
  const std::string x = flat(c, c.input(0), c.shape(0)), order = order_of(c, x, false);
  const std::string keys =
      c.reshaped(c.own("OrderKey", {gathered(c, x, order)}, {{"size", int64_t{1}}}), {count});
  const std::string place = c.counted(count, 1, 0);
  const std::string before = gathered(c, keys, c.op("Max", {c.op("Sub", {place, c.number(1)}), c.number(0)}));
  const std::string is_first =
      c.op("Or", {c.op("Equal", {place, c.number(0)}), c.op("Not", {c.op("Equal", {keys, before})})});
  const std::string starts = places_of(c, is_first, count), groups = c.op("Size", {starts});
  std::string firsts = gathered(c, order, starts);
  const std::string ends = c.op("Concat", {starts, c.ints({count})}, {{"axis", int64_t{0}}});
  const std::string next = c.op("Slice", {ends, c.ints({1}), c.ints({std::numeric_limits<int64_t>::max()})});
  std::string counts = c.op("Sub", {next, starts});
  const std::string ones = c.cast(is_first, DType::i64);
  const std::string group = c.op("Sub", {c.op("CumSum", {ones, c.number(0)}), c.number(1)});
  std::string inverse = scattered(c, order, group);
  if (c.ctx().get_int("sorted", 1) == 0) {  // as they come in the input
    const std::string turns = order_of(c, firsts, false);
    firsts = gathered(c, firsts, turns);
    counts = gathered(c, counts, turns);
    const std::string all = c.op("Range", {c.number(0), groups, c.number(1)});
    inverse = gathered(c, scattered(c, turns, all), inverse);
  }
  c.give(0, gathered(c, x, firsts));
  c.give(1, firsts);
  c.give(2, inverse);
  c.give(3, counts);
}

namespace {

// [top, left, bottom, right], of two opposite corners [y, x, y, x], or of the centre's x and y with width and
// height.
std::string corners(Composer& c, const std::string& boxes, bool centred) {
  const auto part = [&](int64_t from) { return c.sliced(boxes, 2, from, from + 1); };
  std::vector<std::string> sides;
  if (centred) {
    const std::string half = c.scalar(2, DType::f32);
    for (const char* op : {"Sub", "Add"})
      for (const int64_t along : {1, 0})
        sides.push_back(c.op(op, {part(along), c.op("Div", {part(2 + along), half})}));
  } else {
    for (const char* op : {"Min", "Max"})
      for (const int64_t along : {0, 1}) sides.push_back(c.op(op, {part(along), part(2 + along)}));
  }
  return c.op("Concat", sides, {{"axis", int64_t{2}}});
}

}  // namespace

void find_kept_boxes(Composer& c) {
  const OpContext& ctx = c.ctx();
  const Dims& scores = c.shape(1);
  const auto number = [&](size_t i, double missing, DType type) {
    return c.has(i) ? c.reshaped(c.cast(c.input(i), type), {}) : c.scalar(missing, type);
  };
  Attrs attrs;
  const bool known = !c.has(2) || ctx.constant(2);
  const int64_t most = !c.has(2) ? 0 : known ? c.known_number(2) : std::numeric_limits<int64_t>::max();
  if (known) attrs["most"] = std::max<int64_t>(most, 0);
  const std::string kept =
      c.own("KeptBoxes",
            {corners(c, c.cast(c.input(0), DType::f32), ctx.get_int("center_point_box", 0) != 0),
             c.cast(c.input(1), DType::f32), number(2, 0, DType::i64), number(3, 0, DType::f32),
             number(4, -INFINITY, DType::f32)},
            attrs, 2);
  const std::string count = c.output(kept, 1);
  // Rows are images and classes, each with room for as many boxes as there may be.
  const Dims room = {scores[0], scores[1], min(Dim(std::max<int64_t>(most, 0)), scores[2])};
  const std::string taken = c.op("Less", {c.counted(room[2], 3, 2), c.op("Unsqueeze", {count, c.ints({2})})});
  const Dim all = product(room);
  const std::string wide = c.op("Expand", {taken, c.ints(room)});
  const std::string places = places_of(c, c.reshaped(wide, {all}), all);
  std::vector<std::string> columns = coordinates(c, places, room);
  columns[2] = c.op("Gather", {c.reshaped(kept, {all}), places}, {{"axis", int64_t{0}}});
  for (std::string& column : columns) column = c.op("Unsqueeze", {column, c.ints({1})});
  c.give(0, c.op("Concat", columns, {{"axis", int64_t{1}}}));
}

}  // namespace nestor
