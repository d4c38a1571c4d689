// Operators whose result's size depends on values. Where these are known when compiling, the result is a
// constant. Else a run finds the size (compose_found.cpp).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/graph/compose.h"
#include "src/graph/compose_found.h"

namespace nestor {

namespace {

const Tensor& known_tensor(Composer& c, size_t i) {
  const Tensor* t = c.ctx().constant(static_cast<int>(i));
  if (!t)
    c.ctx().fail_unknown(static_cast<int>(i),
                         fmt::format("input {}, which the result's size depends on,", i));
  return *t;
}

// ---- NonMaxSuppression

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

// [y, x, y, x] of two opposite corners, or the centre's x and y with width and height.
Box box_of(const Tensor& boxes, int64_t i, bool centred) {
  const double a = boxes.get(4 * i), b = boxes.get(4 * i + 1), c = boxes.get(4 * i + 2),
               d = boxes.get(4 * i + 3);
  if (centred) return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top),
               width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0) || !(width > 0) || !(a.area() > 0) || !(b.area() > 0)) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

// Of each image and class the boxes from the highest score down, but for those that overlap one before.
void non_max_suppression(Composer& c) {
  const OpContext& ctx = c.ctx();
  const Dims &of_boxes = c.shape(0), &of_scores = c.shape(1);
  if (of_boxes.size() != 3 || of_scores.size() != 3 || !must_equal(of_boxes[2], 4) ||
      !must_equal(of_boxes[0], of_scores[0], "boxes and scores are of the same images") ||
      !must_equal(of_boxes[1], of_scores[2], "each box has a score"))
    ctx.fail(fmt::format("boxes {} and scores {}", to_string(c.type(0)), to_string(c.type(1))),
             "[batch, boxes, 4] and [batch, classes, boxes]");
  for (const int i : {0, 1, 2, 3, 4})
    if (ctx.has_input(i) && !ctx.constant(i)) return find_kept_boxes(c);
  const Tensor &boxes = known_tensor(c, 0), &scores = known_tensor(c, 1);
  const int64_t most = c.has(2) ? c.known_number(2) : 0, count = boxes.shape()[1],
                classes = scores.shape()[1];
  const auto number = [&](size_t i, double missing) {
    if (!c.has(i)) return missing;
    c.known_number(i);
    return ctx.constant(static_cast<int>(i))->get(0);
  };
  const double most_overlap = number(3, 0), least_score = number(4, -INFINITY);
  const bool centred = ctx.get_int("center_point_box", 0) != 0;
  std::vector<int64_t> found;
  for (int64_t row = 0; row < boxes.shape()[0] * classes; ++row) {
    const int64_t image = row / classes;
    const auto score = [&](int64_t i) { return scores.get(row * count + i); };
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count; ++i)
      if (score(i) > least_score) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
    std::vector<Box> chosen;
    for (const int64_t i : order) {
      if (static_cast<int64_t>(chosen.size()) >= most) break;
      const Box b = box_of(boxes, image * count + i, centred);
      if (std::any_of(chosen.begin(), chosen.end(),
                      [&](const Box& o) { return overlap(b, o) > most_overlap; }))
        continue;
      chosen.push_back(b);
      found.insert(found.end(), {image, row % classes, i});
    }
  }
  c.give(0, c.reshaped(c.ints(found), {static_cast<int64_t>(found.size()) / 3, 3}));
}

// ---- Unique

// The different slices along an axis, or elements, and where they are.
void unique(Composer& c) {
  if (!c.ctx().constant(0)) return find_unique(c);
  const Tensor& x = known_tensor(c, 0);
  const bool flat = !c.ctx().has_attr("axis"), sorted = c.ctx().get_int("sorted", 1) != 0;
  const std::vector<int64_t> shape = flat ? std::vector<int64_t>{x.size()} : x.shape();
  const int64_t axis = flat ? 0 : c.axis(c.ctx().get_int("axis", 0), c.rank(0));
  const auto at = static_cast<size_t>(axis);
  const int64_t outer = product(std::span(shape).first(at)),
                inner = product(std::span(shape).subspan(at + 1)), slices = shape[at];
  // One element of slice s after the other; u64's words are compared as such.
  const auto compare = [&](int64_t s, int64_t t) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t p = (o * slices + s) * inner + i, q = (o * slices + t) * inner + i;
        if (is_float(x.dtype())) {
          if (x.get(p) != x.get(q)) return x.get(p) < x.get(q) ? -1 : 1;
        } else if (x.get_int(p) != x.get_int(q)) {
          const bool less = x.dtype() == DType::u64
                                ? static_cast<uint64_t>(x.get_int(p)) < static_cast<uint64_t>(x.get_int(q))
                                : x.get_int(p) < x.get_int(q);
          return less ? -1 : 1;
        }
      }
    return 0;
  };
  std::vector<int64_t> order(static_cast<size_t>(slices));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t s, int64_t t) { return compare(s, t) < 0; });
  struct Group {
    int64_t first, count;
  };
  std::vector<Group> groups;
  std::vector<int64_t> first_of(order.size());  // of the slices alike
  for (const int64_t s : order) {
    if (groups.empty() || compare(groups.back().first, s) != 0) groups.push_back({s, 0});
    ++groups.back().count;
    first_of[static_cast<size_t>(s)] = groups.back().first;
  }
  if (!sorted)
    std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.first < b.first; });
  std::vector<int64_t> firsts, counts, inverse, number(order.size());
  for (const Group& g : groups) {
    number[static_cast<size_t>(g.first)] = static_cast<int64_t>(firsts.size());
    firsts.push_back(g.first);
    counts.push_back(g.count);
  }
  for (const int64_t f : first_of) inverse.push_back(number[static_cast<size_t>(f)]);
  const std::string of = flat ? c.reshaped(c.input(0), {-1}) : c.input(0);
  c.give(0, c.op("Gather", {of, c.ints(firsts)}, {{"axis", axis}}));
  c.give(1, c.ints(firsts));
  c.give(2, c.ints(inverse));
  c.give(3, c.ints(counts));
}

// The places where a condition is true.
void compress(Composer& c) {
  if (!c.ctx().constant(1)) return find_compressed(c);
  const std::vector<int64_t> condition = c.known(1);
  const bool flat = !c.ctx().has_attr("axis");
  const int64_t axis = flat ? 0 : c.axis(c.ctx().get_int("axis", 0), c.rank(0));
  const int64_t extent = flat ? product(c.type(0).shape) : c.type(0).shape[static_cast<size_t>(axis)];
  std::vector<int64_t> places;
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i] != 0) places.push_back(static_cast<int64_t>(i));
  if (!places.empty() && places.back() >= extent)
    c.ctx().fail(fmt::format("the condition is true at {}, the axis has {} elements", places.back(), extent));
  const std::string x = flat ? c.reshaped(c.input(0), {-1}) : c.input(0);
  c.give(0, c.op("Gather", {x, c.ints(places)}, {{"axis", axis}}));
}

// Places of elements that aren't 0, in row-major order: [rank, count].
void non_zero(Composer& c) {
  const Tensor* x = c.ctx().constant(0);
  if (!x) return find_places(c);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x->size(); ++i)
    if (is_float(x->dtype()) ? x->get(i) != 0 : x->get_int(i) != 0) found.push_back(i);
  const auto rank = static_cast<int64_t>(x->shape().size()), count = static_cast<int64_t>(found.size());
  Tensor out(DType::i64, {rank, count});
  int64_t below = 1;  // elements in one step along the axis
  for (int64_t axis = rank; axis-- > 0;) {
    const int64_t extent = x->shape()[static_cast<size_t>(axis)];
    for (int64_t k = 0; k < count; ++k)
      out.set_int(axis * count + k, found[static_cast<size_t>(k)] / below % extent);
    below *= extent;
  }
  c.give(0, c.constant(std::move(out)));
}

}  // namespace

std::vector<Composition> chosen_compositions() {
  return {{"", "NonMaxSuppression", 10, non_max_suppression},
          {"", "Unique", 11, unique},
          {"", "Compress", 9, compress},
          {"", "NonZero", 9, non_zero}};
}

}  // namespace nestor
