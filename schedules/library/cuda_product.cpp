// Which blocks are products of two operands: each iterator by which operands it moves.
#include "schedules/library/cuda_product.h"

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor::library {

bool is_plain(const Expr& e, const Var& v) {
  const auto* r = e.as<VarRef>();
  return r && r->var == v;
}
std::string loop_of(const IterVar& i) {
  const auto* r = i.binding.as<VarRef>();
  return r ? r->var->name : "";
}

namespace {

// What an index moves along: the iterator that it is, or the step of a reduction in `part*n + step`.
std::optional<Var> moves_along(const Block& block, const Expr& index) {
  if (as_int(index)) return nullptr;
  if (const auto* r = index.as<VarRef>()) return r->var;
  const std::optional<Affine> sum = as_affine(index);
  if (!sum || sum->constant != 0) return std::nullopt;
  std::optional<Var> step;
  for (const auto& [v, by] : sum->terms) {
    const auto is_it = [&](const IterVar& i) { return i.var == v && i.kind == IterKind::reduce; };
    if (std::none_of(block.iters.begin(), block.iters.end(), is_it)) continue;
    if (step || by != 1) return std::nullopt;
    step = v;
  }
  return step;
}

std::optional<Product::Operand> operand_of(const Block& block, const BlockAccess& a) {
  Product::Operand out{a.buffer, {}};
  for (const Expr& e : a.indices) {
    const std::optional<Var> v = moves_along(block, e);
    if (!v) return std::nullopt;
    out.dims.push_back(*v);
  }
  return out;
}

}  // namespace

std::optional<Product> product_of(const Block& block) {
  Product p;
  Block body = block;
  body.init = {};
  std::vector<Product::Operand> reads;
  for (const BlockAccess& a : accesses_of(body)) {
    const auto operand = operand_of(block, a);
    if (!operand) return std::nullopt;
    if (a.write) p.out = *operand;
    if (!a.write) reads.push_back(*operand);
  }
  if (!p.out.buffer || reads.size() != 2 || reads[0].buffer == reads[1].buffer) return std::nullopt;
  p.a = reads[0];
  p.b = reads[1];
  if (const Var last = p.out.contiguous(); last && p.a.uses(last) && !p.b.uses(last)) std::swap(p.a, p.b);
  std::vector<Product::Iter> others;
  for (const IterVar& v : block.iters) {
    if (!as_int(v.extent) || (loop_of(v).empty() && *as_int(v.extent) != 1)) return std::nullopt;
    const Product::Iter iter{v.var, *as_int(v.extent), loop_of(v)};
    const bool in_a = p.a.uses(v.var), in_b = p.b.uses(v.var), reduced = v.kind == IterKind::reduce;
    if (reduced && iter.extent > 1 && (p.k.var || !in_a || !in_b)) return std::nullopt;
    Product::Iter* place = reduced ? &p.k : in_a && !in_b ? &p.i : in_b && !in_a ? &p.j : nullptr;
    if (!place || (place->var && place->extent >= iter.extent)) {
      if (!iter.loop.empty()) others.push_back(iter);
      continue;
    }
    if (!place->loop.empty()) others.push_back(*place);
    *place = iter;
  }
  if (!p.k.var) return std::nullopt;
  p.batch = std::move(others);
  return p;
}

std::string loop_along(const PrimFunc& f, const std::string& product, const Var& v, const std::string& reader,
                       const Buffer& out) {
  const Block& r = *find_block(f, reader);
  for (const BlockAccess& w : accesses_of(*find_block(f, product))) {
    if (w.buffer != out || !w.write) continue;
    for (size_t d = 0; d < w.indices.size(); ++d) {
      if (!is_plain(w.indices[d], v)) continue;
      for (const BlockAccess& a : accesses_of(r))
        for (const IterVar& i : r.iters)
          if (a.buffer == out && is_plain(a.indices[d], i.var)) return loop_of(i);
    }
  }
  return "";
}

}  // namespace nestor::library
