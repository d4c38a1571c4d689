#include "src/graph/nests.h"

#include "nestor/simplify.h"

namespace nestor {

namespace {

std::optional<Nest> read_nest(Stmt s) {
  Nest nest;
  while (const auto* loop = s.as<For>()) {
    if (loop->kind != ForKind::serial || !loop->annotations.empty()) return std::nullopt;
    nest.loops.push_back(loop);
    s = loop->body;
  }
  const auto* block = s.as<Block>();
  if (!block || block->iters.size() != nest.loops.size()) return std::nullopt;
  for (size_t k = 0; k < nest.loops.size(); ++k) {
    const auto* binding = block->iters[k].binding.as<VarRef>();
    if (!binding || binding->var != nest.loops[k]->var) return std::nullopt;
  }
  nest.block = *block;
  return nest;
}

}  // namespace

std::optional<std::vector<Nest>> read_nests(const PrimFunc& f) {
  const auto* seq = f.body.as<Seq>();
  std::vector<Nest> nests;
  for (const Stmt& s : seq ? seq->stmts : std::vector<Stmt>{f.body}) {
    auto nest = read_nest(s);
    if (!nest) return std::nullopt;
    nests.push_back(std::move(*nest));
  }
  return nests;
}

void drop_unit_reductions(Nest& nest) {
  size_t reductions = 0;
  for (const IterVar& i : nest.block.iters) reductions += i.kind == IterKind::reduce;
  VarMap zero;
  for (size_t k = 0; k < nest.block.iters.size();) {
    const IterVar& i = nest.block.iters[k];
    if (i.kind == IterKind::reduce && is_const_int(i.extent, 1) && reductions > 1) {
      zero[i.var] = Expr(0);
      --reductions;
      nest.block.iters.erase(nest.block.iters.begin() + static_cast<std::ptrdiff_t>(k));
      nest.loops.erase(nest.loops.begin() + static_cast<std::ptrdiff_t>(k));
    } else {
      ++k;
    }
  }
  if (zero.empty()) return;
  nest.block.body = simplify(substitute(nest.block.body, zero));
  if (nest.block.init) nest.block.init = simplify(substitute(nest.block.init, zero));
  if (nest.block.where) nest.block.where = simplify(substitute(nest.block.where, zero));
}

Stmt loops_around(Block block) {
  const std::vector<IterVar> iters = block.iters;
  Stmt s = make::block(std::move(block));
  for (size_t k = iters.size(); k-- > 0;)
    s = make::loop(iters[k].binding.as<VarRef>()->var, iters[k].extent, s);
  return s;
}

void set_range(Facts& facts, const IterVar& i) {
  if (const auto extent = as_int(i.extent); extent && *extent > 1) facts.set(i.var, {0, *extent - 1});
}

void NestUses::block(const Block& b) {
  stmt(b.body);
  if (b.init) stmt(b.init);
  if (b.where) expr(b.where);
}

void NestUses::expr(const Expr& e) {
  if (const auto* l = e.as<Load>()) {
    kept_.push_back(e);
    accesses.push_back({l->buffer, &l->indices});
  }
  if (const auto* r = e.as<VarRef>()) ++occurrences[r->var];
  children(e);
}

void NestUses::stmt(const Stmt& s) {
  kept_stmts_.push_back(s);
  if (const auto* st = s.as<Store>()) accesses.push_back({st->buffer, &st->indices, true});
  if (const auto* u = s.as<Update>()) accesses.push_back({u->buffer, &u->indices, true});
  children(s);
}

bool NestChanger::read() {
  auto nests = read_nests(func_);
  if (!nests) return false;
  nests_ = std::move(*nests);
  uses_.resize(nests_.size());
  for (size_t n = 0; n < nests_.size(); ++n) {
    drop_unit_reductions(nests_[n]);
    uses_[n].block(nests_[n].block);
  }
  return true;
}

std::optional<size_t> NestChanger::iterator_at(size_t n, const Expr& e, const Expr& extent) const {
  const auto* r = e.as<VarRef>();
  const std::vector<IterVar>& iters = nests_[n].block.iters;
  for (size_t k = 0; r && k < iters.size(); ++k)
    if (iters[k].var == r->var && (as_int(extent) ? as_int(iters[k].extent) == as_int(extent)
                                                  : same_expr(iters[k].extent, extent)))
      return k;
  return std::nullopt;
}

Buffer AccessRewriter::buffer(const Buffer& b) const {
  const auto it = buffers_.find(b);
  return it == buffers_.end() ? b : it->second;
}

Expr AccessRewriter::expr(const Expr& e) {
  if (const auto* l = e.as<Load>()) return make::load(buffer(l->buffer), indices(l->buffer, l->indices));
  if (const auto* r = e.as<VarRef>()) {
    const auto it = vars.find(r->var);
    return it == vars.end() ? e : it->second;
  }
  return children(e);
}

Stmt AccessRewriter::stmt(const Stmt& s) {
  if (const auto* st = s.as<Store>())
    return make::store(buffer(st->buffer), indices(st->buffer, st->indices), expr(st->value));
  if (const auto* u = s.as<Update>())
    return make::update(u->op, buffer(u->buffer), indices(u->buffer, u->indices), expr(u->value));
  return children(s);
}

}  // namespace nestor
