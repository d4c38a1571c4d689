// `X[i] op= v` becomes `X[i] = X[i] op v`, the accumulator on the left.
#include "nestor/walk.h"
#include "src/passes/passes.h"

namespace nestor::passes {

namespace {

struct UpdateLowering : Rewriter {
  Stmt stmt(const Stmt& s) override {
    const auto* u = s.as<Update>();
    if (!u) return children(s);
    return make::store(u->buffer, u->indices,
                       make::binary(binary_of(u->op), make::load(u->buffer, u->indices), u->value));
  }
};

}  // namespace

PrimFunc lower_updates(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = UpdateLowering().stmt(f.body);
  return out;
}

}  // namespace nestor::passes
