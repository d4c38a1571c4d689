// Y[o,y,x] += P[c, y*sy+r, x*sx+s] * W[o,c,r,s]: of the two operands the image is the one that moves along
// the output's rows, by sums of an output's place and one in the window. Depthwise, no channels are summed.
#include "schedules/library/find_windows.h"

#include <algorithm>

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor::library::windows {

namespace {

bool is_plain(const Expr& e, const Var& v) {
  const auto* r = e.as<VarRef>();
  return r && r->var == v;
}

bool uses(const BlockAccess& a, const Var& v) {
  return std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& e) { return uses_var(e, v); });
}

std::optional<size_t> plain_dim(const BlockAccess& a, const Var& v) {
  for (size_t d = 0; d < a.indices.size(); ++d)
    if (is_plain(a.indices[d], v)) return d;
  return std::nullopt;
}

// The two operands: the image is the one that moves along the output's rows, by windows.
bool tell_operands(const Block& block, BlockAccess& write, BlockAccess& image, BlockAccess& weights) {
  Block body = block;
  body.init = {};
  std::vector<BlockAccess> reads;
  for (const BlockAccess& a : accesses_of(body)) (a.write ? write : reads.emplace_back()) = a;
  if (!write.buffer || reads.size() != 2 || reads[0].buffer == reads[1].buffer) return false;
  const auto* x = write.indices.empty() ? nullptr : write.indices.back().as<VarRef>();
  if (!x || uses(reads[0], x->var) == uses(reads[1], x->var)) return false;
  image = reads[uses(reads[0], x->var) ? 0 : 1];
  weights = reads[uses(reads[0], x->var) ? 1 : 0];
  const auto is_affine = [](const Expr& e) { return as_affine(e).has_value(); };
  return !plain_dim(image, x->var) && std::all_of(image.indices.begin(), image.indices.end(), is_affine);
}

// Along one dimension of the image: the output's iterator and the window's.
bool take_side(const Expr& index, const Iter& out, const Iter& tap, WindowSizes::Side& side) {
  const auto sum = as_affine(index);
  side.extent = out.extent;
  side.taps = tap.extent;
  side.stride = out.var ? coefficient(*sum, out.var) : 1;
  side.dilation = tap.var ? coefficient(*sum, tap.var) : 1;
  const size_t terms = (out.var != nullptr) + (tap.var != nullptr);
  return side.stride > 0 && side.dilation > 0 && sum->terms.size() <= terms;
}

}  // namespace

std::optional<Windows> windows_of(const Block& block) {
  Windows w;
  BlockAccess write, image, weights;
  if (!tell_operands(block, write, image, weights)) return std::nullopt;
  const size_t dims = write.indices.size();
  w.out = write.buffer;
  w.image = image.buffer;
  w.weights = weights.buffer;
  w.image_dims = image.indices.size();
  w.weights_dims = weights.indices.size();
  if (dims < 2 || w.image_dims < 2) return std::nullopt;
  const auto move_together = [&](const Expr& e, const Var& a) { return a && uses_var(e, a); };
  std::vector<Iter> reduced;
  std::vector<Iter> channels;  // of images and weights both: depthwise, groups
  for (const IterVar& v : block.iters) {
    const auto* loop = v.binding.as<VarRef>();
    if (as_int(v.binding)) continue;  // one iteration
    if (!loop || !as_int(v.extent)) return std::nullopt;
    const Iter iter{v.var, *as_int(v.extent), loop->var->name};
    if (v.kind == IterKind::reduce) {
      if (!uses(image, v.var) || !uses(weights, v.var)) return std::nullopt;
      reduced.push_back(iter);
      continue;
    }
    const auto at = plain_dim(write, v.var);
    if (!at) return std::nullopt;
    const bool seen = uses(image, v.var), weighs = uses(weights, v.var);
    if (*at + 1 == dims && seen && !weighs) {
      w.x = iter;
      w.out_x = *at;
    } else if (*at + 2 == dims && seen && !weighs && uses_var(image.indices[w.image_dims - 2], v.var)) {
      w.y = iter;
      w.out_y = *at;
    } else if (weighs && !seen && !w.o.var) {
      w.o = iter;
      w.out_o = *at;
    } else {
      (weighs && seen ? channels : w.outer).push_back(iter);
    }
  }
  const Expr &last = image.indices.back(), &before = image.indices[w.image_dims - 2];
  if (!w.x.var || !move_together(last, w.x.var)) return std::nullopt;
  for (const Iter& i : reduced) {
    const bool along = std::any_of(w.outer.begin(), w.outer.end(), [&](const Iter& z) {
      return std::any_of(image.indices.begin(), image.indices.end(),
                         [&](const Expr& e) { return uses_var(e, i.var) && uses_var(e, z.var); });
    });
    Iter* place = uses_var(last, i.var) ? &w.s : w.y.var && uses_var(before, i.var) ? &w.r : &w.c;
    if (along && place == &w.c) {
      w.taps.push_back(i);
      continue;
    }
    if (place->var) return std::nullopt;
    *place = i;
  }
  if (!w.o.var && channels.size() == 1 && !w.c.var) {
    w.o = channels[0];  // depthwise
    w.out_o = *plain_dim(write, w.o.var);
    w.sizes.channels = 0;
    if (const auto at = plain_dim(image, w.o.var); at && *at + (w.y.var ? 2 : 1) < w.image_dims)
      w.image_o = *at;
    else
      return std::nullopt;
  } else if (w.o.var && w.c.var) {
    w.outer.insert(w.outer.end(), channels.begin(), channels.end());
    w.sizes.channels = w.c.extent;
  } else {
    return std::nullopt;
  }
  const auto in_weights = plain_dim(weights, w.o.var);
  if (!in_weights || !take_side(last, w.x, w.s, w.sizes.x) ||
      (w.y.var && !take_side(before, w.y, w.r, w.sizes.y)))
    return std::nullopt;
  w.weights_o = *in_weights;
  w.sizes.outputs = w.o.extent;
  for (const Iter& i : w.outer) w.sizes.outer *= i.extent;
  for (const Iter& i : w.taps) w.sizes.taps_beside *= i.extent;
  w.sizes.element_bytes = bytes_of(w.image->type.dtype);
  return w;
}

}  // namespace nestor::library::windows
