// Folding that is exact for every type: immediates computed as the interpreter computes them, neutral
// elements that keep each bit (x + 0.0 does not: it turns -0.0 into 0.0), and operations on broadcasts done
// once before the broadcast.
#include <cmath>

#include "nestor/half.h"
#include "src/ir/interpret_code.h"
#include "src/ir/simplifier.h"

namespace nestor::algebra {

namespace {

using interpreter::get;
using interpreter::put;
using interpreter::Word;

struct Immediate {
  Word word;
  Type type;
};
std::optional<Immediate> immediate(const Expr& e) {
  if (const auto* i = e.as<IntImm>()) return Immediate{i->value, e.type()};
  if (const auto* f = e.as<FloatImm>())
    return Immediate{
        e.dtype() == DType::f64 ? put<double>(f->value) : put<float>(static_cast<float>(f->value)), e.type()};
  return std::nullopt;
}
// Null for NaN, whose bits are the machine's choice.
Expr to_immediate(Word w, Type t) {
  if (!is_float(t.dtype)) return make::int_imm(w, t);
  const double v = t.dtype == DType::f64 ? get<double>(w) : static_cast<double>(get<float>(w));
  return std::isnan(v) ? Expr() : make::float_imm(v, t);
}

// Runs the interpreter's own handler on up to three words.
std::optional<Word> run(interpreter::Handler fn, const std::vector<Word>& args, std::optional<DType> wrap) {
  if (!fn) return std::nullopt;
  Word frame[4] = {};
  std::copy(args.begin(), args.end(), frame);
  interpreter::Instruction i;
  i.a = 0;
  i.b = 1;
  i.c = 2;
  i.dst = 3;
  try {
    fn(frame, i);
  } catch (const interpreter::Fault&) {
    return std::nullopt;  // a division by zero stays for the run to report
  }
  i.a = 3;
  if (wrap)
    if (interpreter::Handler narrow = interpreter::wrap_handler(*wrap)) narrow(frame, i);
  return frame[3];
}

bool is_float_value(const Expr& e, double v) {
  const auto* f = e.as<FloatImm>();
  return f && f->value == v && std::signbit(f->value) == std::signbit(v);
}

}  // namespace

Expr Simplifier::fold_binary(BinaryOp op, const Expr& a, const Expr& b) {
  const auto* x = a.as<Broadcast>();
  const auto* y = b.as<Broadcast>();
  if (x && y) return make::broadcast(expr(make::binary(op, x->a, y->a)), a.type().lanes);
  const Expr& scalar_b = y ? y->a : b;
  const Expr& scalar_a = x ? x->a : a;
  if (is_float(a.dtype())) {
    if (op == BinaryOp::mul && is_float_value(scalar_a, 1)) return b;
    if ((op == BinaryOp::mul || op == BinaryOp::div) && is_float_value(scalar_b, 1)) return a;
    if (op == BinaryOp::add && is_float_value(scalar_b, -0.0)) return a;
    if (op == BinaryOp::sub && is_float_value(scalar_b, 0.0)) return a;
  } else {
    const bool zero = is_const_int(b, 0), one = is_const_int(b, 1);
    if (zero && (op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::bit_or ||
                 op == BinaryOp::bit_xor || op == BinaryOp::shl || op == BinaryOp::shr))
      return a;
    if (one && (op == BinaryOp::mul || op == BinaryOp::div)) return a;
    if (is_const_int(a, 0) && op == BinaryOp::add) return b;
    if (is_const_int(a, 1) && op == BinaryOp::mul) return b;
    if (op == BinaryOp::mul && (zero || is_const_int(a, 0))) return make::imm(0, a.type());
  }
  const auto u = immediate(a), v = immediate(b);
  if (!u || !v) return {};
  const bool comparison = is_comparison(op);
  const Type t = comparison ? Type{DType::boolean, 1} : a.type();
  const auto w = run(interpreter::binary_handler(op, a.dtype()), {u->word, v->word}, t.dtype);
  return w ? to_immediate(*w, t) : Expr();
}

Expr Simplifier::fold_call(const Expr& e) {
  const auto* c = e.as<Call>();
  if (!c || c->args.empty()) return e;
  if (e.type().is_vector()) {
    std::vector<Expr> scalars;
    for (const Expr& a : c->args) {
      const auto* b = a.as<Broadcast>();
      if (!b) return e;
      scalars.push_back(b->a);
    }
    const Expr scalar = c->fn == Intrinsic::bitcast ? make::bitcast(e.type().with_lanes(1), scalars[0])
                                                    : make::call(c->fn, std::move(scalars));
    return make::broadcast(fold_call(scalar), e.type().lanes);
  }
  if (c->fn == Intrinsic::tdiv && e.type() == Type{} && range(c->args[0]).lo >= 0 && range(c->args[1]).lo > 0)
    return expr(make::binary(BinaryOp::div, c->args[0], c->args[1]));
  // The math library's functions are left to the run: its values are not ours to promise.
  const bool exact = c->fn == Intrinsic::abs || c->fn == Intrinsic::floor || c->fn == Intrinsic::ceil ||
                     c->fn == Intrinsic::round || c->fn == Intrinsic::fma || c->fn == Intrinsic::scalef ||
                     c->fn == Intrinsic::tdiv || c->fn == Intrinsic::bitcast || c->fn == Intrinsic::is_nan;
  if (!exact) return e;
  std::vector<Word> words;
  for (const Expr& a : c->args) {
    const auto i = immediate(a);
    if (!i) return e;
    words.push_back(i->word);
  }
  const DType from = c->args[0].dtype();
  const bool bits = c->fn == Intrinsic::bitcast;
  const auto w =
      run(bits ? interpreter::bitcast_handler(from, e.dtype()) : interpreter::call_handler(c->fn, from),
          words, bits ? std::nullopt : std::optional(e.dtype()));
  const Expr folded = w ? to_immediate(*w, e.type()) : Expr();
  return folded ? folded : e;
}

Expr Simplifier::cast(const Expr& e, const Expr& a) {
  const auto* c = e.as<Cast>();
  if (const auto* b = a.as<Broadcast>())
    return make::broadcast(cast(make::cast(e.type().with_lanes(1), b->a), b->a), e.type().lanes);
  if (const auto i = immediate(a))
    if (const auto w = run(interpreter::cast_handler(a.dtype(), e.dtype()), {i->word}, std::nullopt))
      if (Expr folded = to_immediate(*w, e.type())) return folded;
  return a.same_as(c->a) ? e : make::cast(e.type(), a);
}

}  // namespace nestor::algebra
