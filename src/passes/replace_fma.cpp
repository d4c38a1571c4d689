// x86-64 processors before Haswell have no fma, and LLVM would call the C library for each lane. The
// polynomials of expand_math need it to subtract multiples of ln 2 from their argument. In f64 a product of
// two f32 is exact, so
//
//   fma(a, b, c) = f32(f64(a) * f64(b) + f64(c))
//
// except for about one result in 2^29, which is rounded to f64 exactly between two f32, and then a second
// time. fma in f64 stays a call of the library.
#include "nestor/walk.h"
#include "src/passes/passes.h"

namespace nestor::passes {

namespace {

struct Replacer : Rewriter {
  Expr expr(const Expr& e) override {
    Expr out = children(e);
    const auto* c = out.as<Call>();
    if (!c || c->fn != Intrinsic::fma || out.dtype() != DType::f32) return out;
    const Type wide{DType::f64, out.type().lanes};
    const auto widened = [&](size_t i) { return make::cast(wide, c->args[i]); };
    return make::cast(out.type(), widened(0) * widened(1) + widened(2));
  }
};

}  // namespace

PrimFunc replace_fma(const PrimFunc& f, const Target& target) {
  if (target.has_fma()) return f;
  PrimFunc out = f;
  out.body = Replacer().stmt(f.body);
  return out;
}

}  // namespace nestor::passes
