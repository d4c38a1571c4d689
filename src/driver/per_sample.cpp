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
constexpr int64_t kStayNear = 16 << 10;  // bytes of weights that stay in the first level

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

bool pays_by_sample(const OneSample& one, const std::unordered_map<Var, int64_t>& typical, bool product) {
  if (product && !one.func.dims.empty()) return false;
  int64_t bytes = 0, weights = 0;
  for (const Param& p : one.func.params) {
    if (p.role != Role::constant) continue;
    const auto size = physical_size(p.decl);
    weights += size;
    bytes += size * bytes_of(p.decl.buffer->type.dtype);
  }
  return (bytes <= kStayNear && !product) ||
         flops_of(with_dims(one.func, typical)) >= kOftenUsed * static_cast<double>(weights);
}

PrimFunc over_samples(const PrimFunc& f, const OneSample& one, const PrimFunc& lowered) {
  PrimFunc out = lowered;
  out.dims = f.dims;
  const Var sample = make_var("sample");
  Shift shift;
  for (size_t i = 0; i < f.params.size(); ++i) {
    if (!one.sampled[i]) continue;
    BufferDecl& decl = out.params[i].decl;
    shift.by[decl.buffer] = Expr(sample) * decl.shape.at(0);
    decl.shape[0] = Expr(one.samples) * decl.shape[0];
  }
  out.body = make::loop(sample, Expr(one.samples), shift.stmt(lowered.body));
  return out;
}

}  // namespace nestor
