#include "src/graph/one_sample.h"

#include <algorithm>
#include <unordered_set>

#include "nestor/layout.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

bool is_var(const Expr& e, const Var& v) {
  const auto* ref = e.as<VarRef>();
  return ref && ref->var == v;
}

// Whether all blocks go over the samples, touch of tensors with samples only their own, and use the number of
// a sample, or of all samples, for nothing else.
class SamplesApart : public Walker {
 public:
  SamplesApart(const PrimFunc& f, const Var& samples) : samples_(samples) {
    for (const auto& [buffer, decl] : declarations(f)) {
      const bool sampled = !decl.shape.empty() && is_var(decl.shape[0], samples);
      if (sampled) sampled_.insert(buffer);
      for (size_t d = sampled ? 1 : 0; d < decl.shape.size(); ++d)
        apart_ = apart_ && !uses_var(decl.shape[d], samples);
      if (!sampled)
        if (const Param* p = find_param(f, buffer); p && p->role == Role::out) apart_ = false;
    }
    stmt(f.body);
  }
  bool yes() const { return apart_; }
  bool is_sampled(const Buffer& b) const { return sampled_.count(b) > 0; }

 private:
  void stmt(const Stmt& s) override {
    if (const auto* block = s.as<Block>()) {
      own_ = nullptr;
      for (const IterVar& i : block->iters) {
        if (!uses_var(i.extent, samples_)) {
          for (const Var& loop : loops_) apart_ = apart_ && !uses_var(i.binding, loop);
          continue;
        }
        apart_ = apart_ && !own_ && is_var(i.extent, samples_) && i.kind == IterKind::spatial &&
                 i.binding.as<VarRef>();
        own_ = i.var;
      }
    }
    if (const auto* loop = s.as<For>(); loop && uses_var(loop->extent, samples_)) {
      apart_ = apart_ && is_var(loop->extent, samples_);
      loops_.push_back(loop->var);
    }
    if (const auto* store = s.as<Store>()) {
      access(store->buffer, store->indices);
      value(store->value);
    } else if (const auto* update = s.as<Update>()) {
      access(update->buffer, update->indices);
      value(update->value);
    } else {
      children(s);
    }
  }
  void expr(const Expr& e) override {
    if (const auto* load = e.as<Load>()) return access(load->buffer, load->indices);
    if ((own_ && is_var(e, own_)) || (in_value_ && is_var(e, samples_))) apart_ = false;
    children(e);
  }
  void value(const Expr& e) {
    in_value_ = true;
    expr(e);
    in_value_ = false;
  }
  void access(const Buffer& b, const std::vector<Expr>& indices) {
    const bool sample = !indices.empty() && sampled_.count(b);
    if (sample) apart_ = apart_ && own_ && is_var(indices[0], own_);
    for (size_t d = sample ? 1 : 0; d < indices.size(); ++d) expr(indices[d]);
  }

  const Var samples_;
  std::unordered_set<Buffer> sampled_;
  std::vector<Var> loops_;  // over samples
  Var own_;
  bool in_value_ = false;
  bool apart_ = true;
};

}  // namespace

std::optional<std::vector<bool>> sampled_params(const PrimFunc& f, const Var& samples) {
  const SamplesApart apart(f, samples);
  if (!apart.yes()) return std::nullopt;
  std::vector<bool> out;
  for (const Param& p : f.params) out.push_back(apart.is_sampled(p.decl.buffer));
  return out;
}

Graph with_size(const Graph& g, const Var& symbol, int64_t size) {
  Graph out = g;
  const VarMap values = {{symbol, Expr(size)}};
  std::unordered_map<const ExprNode*, Dim> done;  // many values have the same sizes
  bool open = false;
  for (Value& v : out.values) {
    for (Dim& d : v.type.shape) {
      if (d.known()) continue;
      const Expr e = g.symbols->reduce(d.expr());
      if (!uses_var(e, symbol)) continue;
      const auto [it, is_new] = done.try_emplace(e.get());
      if (is_new) it->second = Dim(simplify(substitute(e, values)), g.symbols);
      d = it->second;
    }
    for (Expr& e : v.elements)
      if (uses_var(e, symbol)) e = simplify(substitute(e, values));
    open = open || !v.type.shape.known();
  }
  if (!open) out.symbols = nullptr;
  return out;
}

}  // namespace nestor
