// The rules for expressions: each operation turns the bounds of its operands into the bound of its result.

#include <cmath>

#include "nestor/ir.h"
#include "src/verify/error_bound.h"

namespace nestor::bound {

namespace {

// Expressions of one statement. A select's sides stand in its bound several times, and those of selects
// inside of them again as often; and each is a let or two, one inside of the other. Winograd's transforms have
// some thousands.
constexpr int kMostEvaluated = 20000;

constexpr double kMathUlps =
    8;  // of exp, log, tanh ... as lowering expands them; tested where they are expanded

Expr larger(const Expr& a, const Expr& b) {
  return !a ? b : !b ? a : max(a, b);
}

}  // namespace

Expr f64(double v) {
  return make::float_imm(v, kF64);
}
Expr abs_of(const Expr& e) {
  return make::call(Intrinsic::abs, {e});
}

double unit_roundoff(DType t) {
  switch (t) {
    case DType::f16:
      return std::ldexp(1.0, -11);
    case DType::bf16:
      return std::ldexp(1.0, -8);
    case DType::f32:
      return std::ldexp(1.0, -24);
    default:
      return std::ldexp(1.0, -52);  // f64: the oracle rounds as much itself
  }
}

Expr wrap(const Lets& lets, Expr body) {
  for (auto it = lets.rbegin(); it != lets.rend(); ++it) body = make::let(it->first, it->second, body);
  return body;
}

Expr plus(const Expr& a, const Expr& b) {
  return !a ? b : !b ? a : a + b;
}
Expr times(const Expr& a, const Expr& b) {
  return !a || !b ? Expr() : a * b;
}
Expr or_zero(const Expr& e) {
  return e ? e : f64(0);
}

Expr Expressions::name(Lets& lets, const Expr& e, const char* prefix) {
  if (!e || e.as<VarRef>() || e.as<FloatImm>() || e.as<IntImm>()) return e;
  Var v = make_var(prefix + std::to_string(next_++), e.type());
  lets.emplace_back(v, e);
  return v;
}

std::vector<Expr> Expressions::indices(const std::vector<Expr>& in, Lets& lets) {
  std::vector<Expr> out;
  for (const Expr& i : in) out.push_back(exact(i, lets));
  return out;
}

Pair Expressions::eval(const Expr& e, Lets& lets) {
  if (++evaluated_ > kMostEvaluated) throw Unbounded{"an expression with a bound too large to compute"};
  Pair p = match(
      e,
      [&](const IntImm&) {
        return Pair{e, {}};
      },
      [&](const FloatImm& f) {
        return Pair{f64(f.value), {}};
      },
      [&](const VarRef& v) {
        auto it = lets_.find(v.var);
        return it == lets_.end() ? Pair{e, {}} : it->second;
      },
      [&](const Load& l) { return load(l, lets); }, [&](const Binary& b) { return binary(e, b, lets); },
      [&](const Unary& u) {
        const Pair a = eval(u.a, lets);
        return Pair{make::unary(u.op, a.value), a.err};
      },
      [&](const Select& s) { return select(s, lets); }, [&](const Cast& c) { return cast(e, c, lets); },
      [&](const Call& c) { return call(e, c, lets); },
      [&](const Let& l) {
        lets_[l.var] = eval(l.value, lets);
        return eval(l.body, lets);
      },
      [&](const Ramp&) -> Pair { throw Unbounded{"vector expressions"}; },
      [&](const Broadcast&) -> Pair { throw Unbounded{"vector expressions"}; },
      [&](const VectorReduce&) -> Pair { throw Unbounded{"vector expressions"}; },
      [&](const Shuffle&) -> Pair { throw Unbounded{"vector expressions"}; });
  if (!is_float(e.dtype())) return p;
  p.value = name(lets, p.value, "v");
  // An infinite value has no digits to lose, and inf * 0 would spread NaN.
  if (p.err && !p.err.as<VarRef>())
    p.err = name(lets, make::select(lt(abs_of(p.value), f64(INFINITY)), p.err, f64(0)), "e");
  return p;
}

Pair Expressions::load(const Load& l, Lets& lets) {
  std::vector<Expr> at = indices(l.indices, lets);
  auto value = values.find(l.buffer);
  auto err = errors.find(l.buffer);
  if (value == values.end())
    return {make::load(l.buffer, at), rounded.count(l.buffer) ? make::load(err->second, at) : Expr()};
  return {make::load(value->second, at), err == errors.end() ? Expr() : make::load(err->second, at)};
}

Pair Expressions::binary(const Expr& e, const Binary& b, Lets& lets) {
  if (b.op == BinaryOp::logical_and || b.op == BinaryOp::logical_or) {
    Lets inner;  // lazy: what the right side loads stays inside it
    const Expr right = exact(b.b, inner);
    return {make::binary(b.op, exact(b.a, lets), wrap(inner, right)), {}};
  }
  const Pair x = eval(b.a, lets), y = eval(b.b, lets);
  const Expr value = make::binary(b.op, x.value, y.value);
  if (!is_float(b.a.dtype())) {
    const bool moves = b.op == BinaryOp::add || b.op == BinaryOp::sub;
    if ((x.err || y.err) && !moves) throw Unbounded{"arithmetic on integers that were rounded"};
    return {value, plus(x.err, y.err)};
  }
  if (!is_float(e.dtype())) {
    if (x.err || y.err) throw Unbounded{"a comparison of rounded values outside of a select"};
    return {value, {}};
  }
  const Expr u = f64(unit_roundoff(e.dtype()));
  const Expr ax = abs_of(x.value), ay = abs_of(y.value);
  const Expr carried = plus(x.err, y.err);
  switch (b.op) {
    case BinaryOp::add:
    case BinaryOp::sub: {
      // Whole numbers that the type has digits for: what was rounded to one and moved is still one.
      const auto whole = [](const Expr& v) { return eq(make::call(Intrinsic::floor, {v}), v); };
      Expr exactly = logical_and(logical_and(whole(x.value), whole(y.value)),
                                 le(ax + ay, f64(0.5 / unit_roundoff(e.dtype()))));
      if (carried) exactly = logical_and(exactly, eq(carried, f64(0)));
      return {value, plus(carried, make::select(exactly, f64(0), u * plus(ax + ay, carried)))};
    }
    case BinaryOp::mul:
      return {value,
              plus(plus(times(ax, y.err), times(ay, x.err)), plus(times(x.err, y.err), u * (ax * ay)))};
    case BinaryOp::div: {
      const Expr quotient = abs_of(value), rounding = u * quotient;
      if (!carried) return {value, rounding};
      const Expr room = y.err ? ay - y.err : ay;  // at most 0: the divisor may be 0, and nothing can be said
      const Expr off = make::binary(BinaryOp::div, or_zero(plus(x.err, times(quotient, y.err))), room);
      return {value, make::select(gt(room, f64(0)), off + (rounding + u * off), f64(INFINITY))};
    }
    case BinaryOp::min:
    case BinaryOp::max:
      return {value, larger(x.err, y.err)};
    default:
      throw Unbounded{std::string("`") + symbol(b.op) + "` of floats"};
  }
}

// Where rounding may flip the condition; null: nowhere. Loads stay guarded as the condition guards them.
Expr Expressions::uncertain(const Expr& cond, Lets& lets) {
  const auto* b = cond.as<Binary>();
  if (const auto* u = cond.as<Unary>()) return uncertain(u->a, lets);
  if (!b) return {};
  if (b->op == BinaryOp::logical_and || b->op == BinaryOp::logical_or) {
    const Expr left = uncertain(b->a, lets);
    Lets inner;
    Expr right = uncertain(b->b, inner);
    if (!right) return left;
    Lets again;
    const Expr reached =
        b->op == BinaryOp::logical_and ? certain_value(b->a, again) : logical_not(certain_value(b->a, again));
    right = wrap(again, logical_and(reached, wrap(inner, right)));
    return left ? logical_or(left, right) : right;
  }
  if (!is_float(b->a.dtype())) return {};
  const Pair x = eval(b->a, lets), y = eval(b->b, lets);
  const Expr carried = plus(x.err, y.err);
  if (!carried) return {};
  return le(abs_of(x.value - y.value), carried);
}

// The condition's value in f64, its flips accounted for by `uncertain`.
Expr Expressions::certain_value(const Expr& cond, Lets& lets) {
  if (const auto* u = cond.as<Unary>()) return make::unary(u->op, certain_value(u->a, lets));
  const auto* b = cond.as<Binary>();
  if (!b) return exact(cond, lets);
  if (b->op == BinaryOp::logical_and || b->op == BinaryOp::logical_or) {
    Lets inner;
    const Expr right = certain_value(b->b, inner);
    return make::binary(b->op, certain_value(b->a, lets), wrap(inner, right));
  }
  return make::binary(b->op, exact(b->a, lets), exact(b->b, lets));
}

Pair Expressions::select(const Select& s, Lets& lets) {
  const Expr cond = name(lets, certain_value(s.cond, lets), "c");
  // Each side is evaluated where it is used, so that its loads stay behind the condition.
  auto side = [&](const Expr& e, bool error) {
    Lets inner;
    const Pair p = eval(e, inner);
    return wrap(inner, error ? or_zero(p.err) : p.value);
  };
  const Expr value = make::select(cond, side(s.a, false), side(s.b, false));
  if (!is_float(s.a.dtype())) {
    if (uncertain(s.cond, lets)) throw Unbounded{"an integer chosen by a comparison of rounded values"};
    const auto is_rounded = [&](const Expr& choice) {
      Lets inner;
      return static_cast<bool>(eval(choice, inner).err);
    };
    const bool either = is_rounded(s.a) || is_rounded(s.b);
    return {value, either ? make::select(cond, side(s.a, true), side(s.b, true)) : Expr()};
  }
  Expr err = make::select(cond, side(s.a, true), side(s.b, true));
  if (const Expr maybe = uncertain(s.cond, lets)) {
    const Expr gap = abs_of(side(s.a, false) - side(s.b, false)) + (side(s.a, true) + side(s.b, true));
    err = make::select(maybe, gap, err);
  }
  return {value, err};
}

Pair Expressions::cast(const Expr& e, const Cast& c, Lets& lets) {
  const Pair a = eval(c.a, lets);
  if (!is_float(e.dtype())) {
    if (a.err && is_bool(e.dtype())) throw Unbounded{"a rounded value cast to bool"};
    // Between two numbers that far apart lie no more integers than that, rounded up.
    return {make::cast(e.type(), a.value), a.err ? make::call(Intrinsic::ceil, {a.err}) : Expr()};
  }
  const Expr value = make::cast(kF64, a.value);
  const bool widens = is_float(c.a.dtype()) && unit_roundoff(e.dtype()) <= unit_roundoff(c.a.dtype());
  if (widens || is_bool(c.a.dtype())) return {value, a.err};
  const Expr u = f64(unit_roundoff(e.dtype()));
  return {value, plus(a.err, u * plus(abs_of(value), a.err))};
}

Pair Expressions::call(const Expr& e, const Call& c, Lets& lets) {
  std::vector<Pair> args;
  std::vector<Expr> values;
  for (const Expr& a : c.args) {
    args.push_back(eval(a, lets));
    values.push_back(args.back().value);
  }
  if (c.fn == Intrinsic::is_nan) return {make::call(c.fn, values), {}};
  if (c.fn == Intrinsic::bitcast) throw Unbounded{"bitcast"};
  if (c.fn == Intrinsic::instruction) throw Unbounded{c.name};
  if (!is_float(e.dtype())) {
    for (const Pair& a : args)
      if (a.err) throw Unbounded{"arithmetic on integers that were rounded"};
    return {make::call(c.fn, values), {}};
  }
  const Expr value = name(lets, make::call(c.fn, values), "v");
  const Expr& x = args[0].value;
  const Expr& err = args[0].err;
  const Expr u = f64(unit_roundoff(e.dtype())), size = abs_of(value);
  const Expr math = f64(kMathUlps * unit_roundoff(e.dtype())) * size;
  const auto apply = [&](const Expr& at) { return make::call(c.fn, {at}); };
  switch (c.fn) {
    case Intrinsic::exp:
    case Intrinsic::exp_nonpositive: {
      // By |x| / 21 ulps more than the others: src/passes/math_expansion.cpp.
      const bool rough = c.fn == Intrinsic::exp_nonpositive;
      const Expr own = rough ? math + u * size * (abs_of(x) * f64(1 / 10.5)) : math;
      return {value, plus(own, err ? size * (err * make::call(Intrinsic::exp, {err})) : Expr())};
    }
    case Intrinsic::expm1:
      return {value, plus(math, err ? (size + f64(1)) * (err * make::call(Intrinsic::exp, {err})) : Expr())};
    case Intrinsic::log1p: {
      if (!err) return {value, math};
      const Expr room = x + f64(1);
      return {value, make::select(gt(room, err), math + make::binary(BinaryOp::div, err, room - err),
                                  f64(INFINITY))};
    }
    case Intrinsic::log: {
      // Near 1 the argument's own rounding is all there is: an absolute u.
      const Expr own = math + u;
      if (!err) return {value, own};
      return {value,
              make::select(gt(x, err), own + make::binary(BinaryOp::div, err, x - err), f64(INFINITY))};
    }
    case Intrinsic::sqrt:
      return {value, plus(u * size, err ? apply(x + err) - apply(max(x - err, f64(0))) : Expr())};
    case Intrinsic::tanh:
    case Intrinsic::sigmoid:
    case Intrinsic::sin:
    case Intrinsic::cos:
      return {value, plus(math, err)};  // slopes at most 1
    case Intrinsic::erf:
      return {value, plus(math, times(f64(1.1283792), err))};
    case Intrinsic::pow:
      return pow(value, args, math);
    case Intrinsic::abs:
      return {value, err};
    case Intrinsic::floor:
    case Intrinsic::ceil:
    case Intrinsic::round:
      return {value, err ? apply(x + err) - apply(x - err) : Expr()};
    case Intrinsic::fma: {
      const Expr ax = abs_of(x), ay = abs_of(args[1].value);
      const Expr product = plus(plus(times(ax, args[1].err), times(ay, err)), times(err, args[1].err));
      return {value, plus(plus(product, args[2].err), u * (ax * ay + abs_of(args[2].value)))};
    }
    default:
      throw Unbounded{info(c.fn).name};
  }
}

// |x^y| * (exp(d) - 1) with d the change of y * log|x|.
Pair Expressions::pow(const Expr& value, const std::vector<Pair>& args, const Expr& math) {
  const Expr ax = abs_of(args[0].value), exponent = abs_of(args[1].value);
  const Expr log_x = abs_of(make::call(Intrinsic::log, {ax}));
  const Expr own = math + math * make::select(gt(ax, f64(0)), exponent * log_x, f64(0));
  Expr d = times(args[1].err, log_x);
  if (args[0].err) {
    const Expr room = ax - args[0].err;
    const Expr off = make::binary(BinaryOp::div, exponent * args[0].err, room);
    d = plus(d, make::select(gt(room, f64(0)), off, f64(INFINITY)));
  }
  if (!d) return {value, own};
  return {value, own + abs_of(value) * (d * make::call(Intrinsic::exp, {d}))};
}

}  // namespace nestor::bound
