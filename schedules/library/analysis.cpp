#include "schedules/library/analysis.h"

#include <algorithm>

#include "nestor/library.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "schedules/nest.h"

namespace nestor::library {

bool Access::has_plain_indices() const {
  return std::all_of(indices.begin(), indices.end(),
                     [](const Expr& e) { return e.as<VarRef>() || as_int(e); });
}

bool Access::uses(const Iter& i) const {
  for (const Expr& e : indices)
    if (uses_var(e, i.var)) return true;
  return false;
}

bool Access::slides_along(const Iter& tap, const Iter& i) const {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& e) { return uses_var(e, tap.var) && uses_var(e, i.var); });
}

int64_t Access::panel_along(const Iter& i) const {
  for (size_t d = 0; d < indices.size(); ++d)
    if (const auto* v = indices[d].as<VarRef>(); v && v->var == i.var) return panels[d];
  return 1;
}

namespace {

// By how much e moves with v, whatever else is in it; nothing where that isn't always the same.
std::optional<int64_t> slope(const Expr& e, const Var& v) {
  if (!uses_var(e, v)) return 0;
  if (const auto affine = as_affine(e)) return coefficient(*affine, v);
  const auto* b = e.as<Binary>();
  if (!b || (b->op != BinaryOp::add && b->op != BinaryOp::sub)) return std::nullopt;
  const auto left = slope(b->a, v), right = slope(b->b, v);
  if (!left || !right) return std::nullopt;
  return b->op == BinaryOp::add ? *left + *right : *left - *right;
}

}  // namespace

std::optional<int64_t> Access::stride(const Iter& i) const {
  int64_t total = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    const auto by = slope(indices[d], i.var);
    if (!by) return std::nullopt;
    total += *by * strides[d];
  }
  return total;
}

const Iter* BlockInfo::iter(const std::string& loop) const {
  for (const Iter& i : iters)
    if (i.loop == loop) return &i;
  return nullptr;
}

std::vector<const Iter*> BlockInfo::spatial() const {
  std::vector<const Iter*> out;
  for (const Iter& i : iters)
    if (!i.reduce) out.push_back(&i);
  return out;
}

std::vector<const Iter*> BlockInfo::reduced() const {
  std::vector<const Iter*> out;
  for (const Iter& i : iters)
    if (i.reduce) out.push_back(&i);
  return out;
}

int64_t BlockInfo::reduction_size() const {
  int64_t n = 1;
  for (const Iter& i : iters)
    if (i.reduce) n *= i.extent;
  return n;
}

int64_t BlockInfo::instances() const {
  int64_t n = 1;
  for (const Iter& i : iters) n *= i.extent;
  return n;
}

namespace {

// Shapes of what a block touches: mostly parameters and what is allocated for the whole function.
class Shapes {
 public:
  explicit Shapes(const PrimFunc& f) : f_(f) {}
  const std::vector<Expr>& of(const Buffer& b) {
    for (const Param& p : f_.params)
      if (p.decl.buffer == b) return p.decl.shape;
    for (const BufferDecl& d : f_.allocs)
      if (d.buffer == b) return d.shape;
    if (inside_.empty()) inside_ = declarations(f_);
    return inside_.at(b).shape;
  }

 private:
  const PrimFunc& f_;
  std::unordered_map<Buffer, BufferDecl> inside_;
};

std::vector<int64_t> panels_of(const Param* p, size_t dims) {
  std::vector<int64_t> out(dims, 1);
  if (!p || !p->decl.layout) return out;
  const IndexMap& layout = *p->decl.layout;
  for (const Expr& e : layout.exprs)
    if (const auto* part = e.as<Binary>(); part && part->op == BinaryOp::mod)
      for (size_t d = 0; d < layout.vars.size(); ++d)
        if (uses_var(part->a, layout.vars[d])) out[d] = as_int(part->b).value_or(1);
  return out;
}

// Of the buffer's indices those that its padding leaves, by dimension; empty where nothing pads it with
// zeros.
std::vector<Interval> filled_of(const PrimFunc& f, const Buffer& buffer) {
  const Block* padding = padding_of(f, buffer);
  if (!padding) return {};
  const auto* store = padding->body.as<Store>();
  const auto* choice = store->value.as<Select>();
  if (choice->b.as<FloatImm>()->value != 0) return {};
  Facts facts;
  for (const IterVar& i : padding->iters)
    facts.set(i.var, {0, as_int(i.extent).value_or(Interval::kMax) - 1});
  facts.assume(choice->cond);
  std::vector<Interval> out;
  for (const Expr& e : store->indices) out.push_back(range_of(e, facts));
  return out;
}

}  // namespace

bool slides_along_any(const BlockInfo& b, const Iter& tap) {
  const std::vector<const Iter*> spatial = b.spatial();
  return std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    return std::any_of(spatial.begin(), spatial.end(),
                       [&](const Iter* i) { return i->extent > 1 && a.slides_along(tap, *i); });
  });
}

bool has_taps(const BlockInfo& b, const Access& a) {
  const std::vector<const Iter*> reduced = b.reduced(), spatial = b.spatial();
  return std::any_of(reduced.begin(), reduced.end(), [&](const Iter* r) {
    return r->extent > 1 && std::any_of(spatial.begin(), spatial.end(), [&](const Iter* i) {
             return i->extent > 1 && a.slides_along(*r, *i);
           });
  });
}

BlockInfo analyze(const PrimFunc& f, const std::string& block) {
  BlockInfo info;
  info.name = block;
  const Block* b = find_block(f, block);
  Shapes shapes(f);
  for (const IterVar& v : b->iters) {
    Iter i;
    i.var = v.var;
    i.extent = as_int(v.extent).value_or(0);
    i.reduce = v.kind == IterKind::reduce;
    info.reduction |= i.reduce;
    if (const auto* r = v.binding.as<VarRef>()) i.loop = r->var->name;
    info.affine_loops &= !i.loop.empty();
    info.iters.push_back(i);
  }
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (!loop || !loop->annotations.count(kOpenLoop)) return;
    for (size_t i = 0; i < info.iters.size(); ++i) {
      const auto* walked = b->iters[i].binding.as<VarRef>();
      info.iters[i].open = info.iters[i].open || (walked && walked->var == loop->var);
    }
  });
  Block body_only = *b;
  body_only.init = {};
  for (const BlockAccess& a : accesses_of(body_only)) {
    Access out;
    out.buffer = a.buffer;
    out.write = a.write;
    out.read = a.read;
    out.indices = a.indices;
    const Param* p = find_param(f, a.buffer);
    out.constant = p && p->role == Role::constant;
    out.panels = panels_of(p, a.indices.size());
    const std::vector<Expr>& shape = shapes.of(a.buffer);
    out.strides.assign(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 1;)
      out.strides[d - 1] = out.strides[d] * as_int(shape[d]).value_or(1);
    out.elements = 1;
    for (const Expr& e : shape) out.elements *= as_int(e).value_or(1);
    const auto* update = b->body.as<Update>();
    if (update && update->op == ReduceOp::add && !a.write) out.filled = filled_of(f, a.buffer);
    if (a.write) {
      info.output = a.buffer;
      info.output_is_param = p != nullptr;
    }
    info.accesses.push_back(std::move(out));
  }
  const auto* store = b->body.as<Store>();
  info.copies = store && store->value.as<Load>();
  for_each_expr(b->body, [&](const Expr& e) {
    info.has_select |= e.as<Select>() != nullptr;
    if (const auto* shift = e.as<Binary>(); shift && shift->op == BinaryOp::shr)
      info.has_shift |= shift->b.as<Cast>() != nullptr;
    if (const auto* shift = e.as<Binary>(); shift && shift->op == BinaryOp::shr)
      info.has_shift |= shift->b.as<Cast>() != nullptr;
    if (const auto* c = e.as<Call>()) info.has_math |= c->fn <= Intrinsic::pow && c->fn != Intrinsic::sqrt;
  });
  return info;
}

const Iter* walked_by(const BlockInfo& b, const std::string& loop) {
  for (const char* of_tiles : {"", "0", "b", "t"})  // a loop's own name first
    for (const Iter& i : b.iters)
      if (loop == i.loop + of_tiles) return &i;
  return nullptr;
}

int64_t bytes_read(const Access& a, const std::map<const Iter*, int64_t>& extents, const BlockInfo& b) {
  Facts facts;
  for (const Iter& i : b.iters) {
    const auto it = extents.find(&i);
    facts.set(i.var, {0, it == extents.end() ? 0 : it->second - 1});
  }
  int64_t n = 1;
  for (size_t d = 0; d < a.indices.size(); ++d) {
    const Interval reached = range_of(a.indices[d], facts);
    const int64_t whole = reached.hi - reached.lo + 1;
    int64_t different = 1;  // steps and dilations leave out whole lines only
    for (const auto& [i, extent] : extents)
      if (uses_var(a.indices[d], i->var)) different *= std::min(extent, whole);
    const int64_t pitch = std::max<int64_t>(1, a.strides[d] * bytes_of(a.buffer->type.dtype));
    n *= std::min(whole, different * ceil_div(kLine, pitch));
  }
  return std::min(n, a.elements) * bytes_of(a.buffer->type.dtype);
}

namespace {

// Of the values that e takes as its iterators go, the part that lies in `filled`.
double share_inside(const Expr& e, Interval filled, const BlockInfo& b) {
  constexpr int64_t kMostCounted = 1 << 14;
  const auto affine = as_affine(e);
  std::vector<int64_t> values{affine ? affine->constant : 0};
  for (const Iter& i : b.iters) {
    const int64_t by = affine ? coefficient(*affine, i.var) : 0;
    if (by == 0 || i.extent == 1) continue;
    if (static_cast<int64_t>(values.size()) * i.extent > kMostCounted) return 1;
    std::vector<int64_t> all;
    for (const int64_t v : values)
      for (int64_t n = 0; n < i.extent; ++n) all.push_back(v + by * n);
    values = std::move(all);
  }
  if (!affine || values.empty()) return 1;
  const auto inside = std::count_if(values.begin(), values.end(),
                                    [&](int64_t v) { return v >= filled.lo && v <= filled.hi; });
  return static_cast<double>(inside) / static_cast<double>(values.size());
}

}  // namespace

int64_t products_of_each(const BlockInfo& b, const Access& a) {
  return b.instances() / std::max<int64_t>(1, a.elements);
}

bool loads_parts(const BlockInfo& b, const Access& a, const Target& target) {
  // Where an element of the copy is multiplied more often, copying it costs little, and taps that each know
  // their lanes cost more than a loop over them.
  constexpr int64_t kFewProducts = 64;
  return !target.is_narrow() && target.has_masked_loads(bytes_of(a.buffer->type.dtype)) &&
         products_of_each(b, a) <= kFewProducts;
}

double share_of_terms(const BlockInfo& b, const Iter& lanes, const Target& target) {
  double share = 1;
  for (const Access& a : b.accesses)
    for (size_t d = 0; d < a.filled.size(); ++d) {
      const double inside = share_inside(a.indices[d], a.filled[d], b);
      const bool crosses = inside < 1 && uses_var(a.indices[d], lanes.var);
      if (crosses && !loads_parts(b, a, target)) return 1;
      if (!crosses) share *= inside;
    }
  return share;
}

namespace {

std::vector<std::string> touching(const PrimFunc& f, const Buffer& buffer, bool write) {
  std::vector<std::string> out;
  for (const schedules::Place& p : schedules::places_touching(f.body, buffer)) {
    const auto all = accesses_of(p.own(), [&](const Buffer& x) { return x == buffer; });
    if (std::any_of(all.begin(), all.end(),
                    [&](const BlockAccess& a) { return write ? a.write : a.read && !a.write; }))
      out.push_back(p.name());
  }
  return out;
}

}  // namespace

const Block* padding_of(const PrimFunc& f, const Buffer& buffer) {
  if (find_param(f, buffer)) return nullptr;
  const std::vector<std::string> writers = writers_of(f, buffer);
  if (writers.size() != 1 || readers_of(f, buffer).size() != 1) return nullptr;
  const Block* b = find_block(f, writers.front());
  const auto* store = b->body.as<Store>();
  const auto* choice = store ? store->value.as<Select>() : nullptr;
  return choice && choice->b.as<FloatImm>() ? b : nullptr;
}

std::vector<std::string> readers_of(const PrimFunc& f, const Buffer& b) {
  return touching(f, b, false);
}

std::string epilogue_of(const PrimFunc& f, const BlockInfo& reduction) {
  if (reduction.output_is_param) return "";
  const std::vector<std::string> readers = readers_of(f, reduction.output);
  if (readers.size() != 1) return "";
  return analyze(f, readers[0]).reduction ? "" : readers[0];
}

bool share_a_loop(const PrimFunc& f, const std::string& block, const std::string& other) {
  bool found = false;
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (!loop || found) return;
    bool one = false, another = false;
    for_each_stmt(loop->body, [&](const Stmt& inside) {
      const auto* b = inside.as<Block>();
      one |= b && b->id->name == block;
      another |= b && b->id->name == other;
    });
    found = one && another;
  });
  return found;
}

std::vector<std::string> writers_of(const PrimFunc& f, const Buffer& b) {
  return touching(f, b, true);
}

}  // namespace nestor::library
