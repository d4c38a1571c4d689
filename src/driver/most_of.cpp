#include "src/driver/most_of.h"

#include <algorithm>

#include "nestor/print.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

// Of integers.
struct Bounds {
  Expr least, most;
};

class BoundsOf {
 public:
  explicit BoundsOf(const Symbols& symbols) : symbols_(symbols) {}

  Bounds of(const Expr& e) const {
    if (!symbols_.uses_found(e)) return {e, e};
    if (const auto* ref = e.as<VarRef>()) {
      const auto& all = symbols_.all();
      const auto it =
          std::find_if(all.begin(), all.end(), [&](const Symbol& s) { return s.var == ref->var; });
      return {Expr(0), of(it->bound).most};
    }
    if (const auto* cast = e.as<Cast>(); cast && is_int(cast->a.dtype())) {
      const Bounds b = of(cast->a);
      return {make::cast(e.type(), b.least), make::cast(e.type(), b.most)};
    }
    if (const auto* select = e.as<Select>()) {
      const Bounds a = of(select->a), b = of(select->b);
      return {min(a.least, b.least), max(a.most, b.most)};
    }
    if (const auto* binary = e.as<Binary>()) return of_binary(*binary, e);
    throw unbounded(e);
  }

 private:
  UserError unbounded(const Expr& e) const {
    return UserError("nothing says how large " + print(e) + " may be, of which memory depends");
  }
  bool isnt_negative(const Expr& e) const { return can_prove(ge(e, 0), symbols_.facts()); }

  Bounds of_binary(const Binary& b, const Expr& e) const {
    const Bounds x = of(b.a), y = of(b.b);
    switch (b.op) {
      case BinaryOp::add:
        return {x.least + y.least, x.most + y.most};
      case BinaryOp::sub:
        return {x.least - y.most, x.most - y.least};
      case BinaryOp::min:
        return {min(x.least, y.least), min(x.most, y.most)};
      case BinaryOp::max:
        return {max(x.least, y.least), max(x.most, y.most)};
      case BinaryOp::mul:
        if (isnt_negative(x.least) && isnt_negative(y.least)) return {x.least * y.least, x.most * y.most};
        return corners(x, y, [](const Expr& p, const Expr& q) { return p * q; });
      case BinaryOp::div: {
        const Expr least = max(y.least, 1), most = max(y.most, 1);  // a run by 0 is refused
        if (isnt_negative(x.least)) return {x.least / most, x.most / least};
        return corners(x, {least, most}, [](const Expr& p, const Expr& q) { return p / q; });
      }
      case BinaryOp::mod:
        if (isnt_negative(y.least)) return {Expr(0), max(y.most - 1, 0)};
        break;
      default:
        break;
    }
    throw unbounded(e);
  }

  template <class F>
  static Bounds corners(const Bounds& x, const Bounds& y, const F& f) {
    const Expr a = f(x.least, y.least), b = f(x.least, y.most), c = f(x.most, y.least), d = f(x.most, y.most);
    return {min(min(a, b), min(c, d)), max(max(a, b), max(c, d))};
  }

  const Symbols& symbols_;
};

}  // namespace

Expr most_of(const Expr& e, const Symbols& symbols) {
  return symbols.uses_found(e) ? symbols.reduce(BoundsOf(symbols).of(e).most) : e;
}

}  // namespace nestor
