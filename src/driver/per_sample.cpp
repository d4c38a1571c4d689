#include "src/driver/per_sample.h"

#include <algorithm>

#include "nestor/error.h"
#include "nestor/flops.h"
#include "nestor/layout.h"
#include "nestor/nest_file.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

// Operations per weight from where on it is no loss to read the weights for each sample: a convolution has
// twice as many as an image has places, a product of a row two.
constexpr double kOftenUsed = 64;

bool is_var(const Expr& e, const Var& v) {
  const auto* ref = e.as<VarRef>();
  return ref && ref->var == v;
}

// Whether all blocks go over the samples, touch of tensors with samples only their own, and use the number of
// a sample for nothing else.
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
      expr(store->value);
    } else if (const auto* update = s.as<Update>()) {
      access(update->buffer, update->indices);
      expr(update->value);
    } else {
      children(s);
    }
  }
  void expr(const Expr& e) override {
    if (const auto* load = e.as<Load>()) return access(load->buffer, load->indices);
    if (own_ && is_var(e, own_)) apart_ = false;
    children(e);
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
  bool apart_ = true;
};

// Values may depend on which sample it is only by what they load.
bool computes_with(const PrimFunc& f, const Var& samples) {
  bool found = false;
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* store = s.as<Store>()) found = found || uses_var(store->value, samples);
    if (const auto* update = s.as<Update>()) found = found || uses_var(update->value, samples);
  });
  return found;
}

// Each access to the sampled parameters behind those of the samples before.
class Shift : public Rewriter {
 public:
  std::unordered_map<Buffer, Expr> by;  // elements
  Expr expr(const Expr& e) override {
    const Expr out = children(e);
    const auto* load = out.as<Load>();
    const auto it = load ? by.find(load->buffer) : by.end();
    return it == by.end() ? out
                          : make::load(load->buffer, {shifted(load->indices.at(0), it->second)}, load->mask);
  }
  Stmt stmt(const Stmt& s) override {
    const Stmt out = children(s);
    const auto* store = out.as<Store>();
    const auto it = store ? by.find(store->buffer) : by.end();
    return it == by.end() ? out
                          : make::store(store->buffer, {shifted(store->indices.at(0), it->second)},
                                        store->value, store->mask, store->streaming);
  }

 private:
  static Expr shifted(const Expr& index, const Expr& by) {
    if (const auto* ramp = index.as<Ramp>())
      return make::ramp(ramp->base + by, ramp->stride, index.type().lanes);
    if (const auto* all = index.as<Broadcast>()) return make::broadcast(all->a + by, index.type().lanes);
    return index + make::broadcast(by, index.type().lanes);
  }
};

}  // namespace

std::optional<PrimFunc> one_sample(const PrimFunc& f) {
  if (f.dims.size() != 1) return std::nullopt;
  const Var& samples = f.dims[0];
  if (!SamplesApart(f, samples).yes() || computes_with(f, samples)) return std::nullopt;
  const PrimFunc one = with_dims(f, {{samples, Expr(1)}});
  int64_t weights = 0;
  for (const Param& p : one.params)
    if (p.role == Role::constant) weights += physical_size(p.decl);
  if (flops_of(one) < kOftenUsed * static_cast<double>(weights)) return std::nullopt;
  return one;
}

PrimFunc over_samples(const PrimFunc& f, const PrimFunc& lowered) {
  PrimFunc out = lowered;
  out.dims = f.dims;
  const Var sample = make_var("sample");
  Shift shift;
  for (size_t i = 0; i < f.params.size(); ++i) {
    BufferDecl& decl = out.params[i].decl;
    if (f.params[i].decl.shape.empty() || !is_var(f.params[i].decl.shape[0], f.dims[0])) continue;
    shift.by[decl.buffer] = Expr(sample) * decl.shape.at(0);
    decl.shape[0] = Expr(f.dims[0]) * decl.shape[0];
  }
  out.body = make::loop(sample, Expr(f.dims[0]), shift.stmt(lowered.body));
  return out;
}

}  // namespace nestor
