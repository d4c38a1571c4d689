// The constructors refuse nodes with wrong types. But a rewriter rebuilds nodes without the constructors and
// keeps the old type, so the same rules are checked here. Each rule has a sentence, which is printed beside
// the underlined node.
#include <bit>
#include <cmath>

#include "nestor/half.h"
#include "src/ir/check.h"
#include "src/ir/printer.h"

namespace nestor {

namespace {

const Type kIndex{DType::i64, 1};
const Type kCondition{DType::boolean, 1};

std::string are(const std::string& what, const Expr& a, const Expr& b) {
  return what + " are " + print_type(a.type()) + " and " + print_type(b.type());
}
std::string must(const std::string& what, Type wanted, Type is) {
  return is == wanted ? "" : what + " must be " + print_type(wanted) + ", this is " + print_type(is);
}

// Lanes of an access: those of its vector indices, else the buffer's; -1 where indices differ.
int access_lanes(const Buffer& b, const std::vector<Expr>& indices) {
  int lanes = 0;
  for (const Expr& i : indices) {
    const int n = i.type().lanes;
    if (n == 1) continue;
    if (lanes != 0 && lanes != n) return -1;
    lanes = n;
  }
  return lanes == 0 ? b->type.lanes : lanes;
}

std::string access_problem(const Buffer& b, const std::vector<Expr>& indices, const Expr& mask) {
  for (const Expr& i : indices)
    if (i.dtype() != DType::i64) return must("an index", kIndex.with_lanes(i.type().lanes), i.type());
  const int lanes = access_lanes(b, indices);
  if (lanes < 0) return "the vector indices differ in lanes";
  if (lanes != b->type.lanes && b->type.lanes != 1) return "a buffer of vectors is indexed by a vector";
  return mask ? must("the mask", {DType::boolean, lanes}, mask.type()) : "";
}

std::string value_problem(const Buffer& b, const std::vector<Expr>& indices, const Expr& value) {
  return must("the value", {b->type.dtype, access_lanes(b, indices)}, value.type());
}

std::string binary_problem(const Binary& b, Type type) {
  if (!(b.a.type() == b.b.type()))
    return are(std::string("the operands of `") + symbol(b.op) + "`", b.a, b.b);
  const Type t = b.a.type();
  const bool compares = is_comparison(b.op);
  const bool logical = b.op == BinaryOp::logical_and || b.op == BinaryOp::logical_or;
  if (logical && !is_bool(t.dtype))
    return std::string("`") + symbol(b.op) + "` needs bool, this is " + print_type(t);
  if (b.op >= BinaryOp::bit_and && is_float(t.dtype))
    return std::string("`") + symbol(b.op) + "` needs integers, this is " + print_type(t);
  return must("the result", compares ? Type{DType::boolean, t.lanes} : t, type);
}

std::string call_problem(const Call& c, Type type) {
  const std::string name = info(c.fn).name;
  if (c.fn == Intrinsic::instruction) return c.name.empty() ? "an `instruction` without a name" : "";
  if (info(c.fn).arity >= 0 && static_cast<int>(c.args.size()) != info(c.fn).arity)
    return "`" + name + "` takes " + std::to_string(info(c.fn).arity) + " arguments, not " +
           std::to_string(c.args.size());
  for (const Expr& a : c.args)
    if (!(a.type() == c.args[0].type())) return are("the arguments of `" + name + "`", c.args[0], a);
  const Type t = c.args.empty() ? Type{} : c.args[0].type();
  switch (c.fn) {
    case Intrinsic::sync:
    case Intrinsic::prefetch:
    case Intrinsic::instruction:
      return "`" + name + "` is a statement";
    case Intrinsic::bitcast: {
      const bool same = bytes_of(t.dtype) == bytes_of(type.dtype) && t.lanes == type.lanes;
      return same ? "" : "a bitcast of " + print_type(t) + " to " + print_type(type) + " changes the size";
    }
    case Intrinsic::tdiv:
      if (!is_int(t.dtype)) return "`tdiv` needs integers, this is " + print_type(t);
      break;
    case Intrinsic::scalef:
      if (t.dtype != DType::f32) return "`scalef` needs f32, this is " + print_type(t);
      break;
    case Intrinsic::lookup:
      if (t.dtype != DType::f32) return "`lookup` needs f32, this is " + print_type(t);
      if (c.args.size() < 3 || !std::has_single_bit(c.args.size() - 1))
        return "`lookup` takes 2, 4, 8 ... values to choose from, not " + std::to_string(c.args.size() - 1);
      break;
    case Intrinsic::abs:
      if (is_bool(t.dtype)) return "`abs` of bool";
      break;
    case Intrinsic::exp:
    case Intrinsic::exp_nonpositive:
    case Intrinsic::expm1:
    case Intrinsic::log:
    case Intrinsic::log1p:
    case Intrinsic::sqrt:
    case Intrinsic::tanh:
    case Intrinsic::erf:
    case Intrinsic::sigmoid:
    case Intrinsic::sin:
    case Intrinsic::cos:
    case Intrinsic::pow:
    case Intrinsic::floor:
    case Intrinsic::ceil:
    case Intrinsic::round:
    case Intrinsic::fma:
    case Intrinsic::is_nan:
      if (!is_float(t.dtype)) return "`" + name + "` needs floats, this is " + print_type(t);
      break;
  }
  return must("the result", c.fn == Intrinsic::is_nan ? Type{DType::boolean, t.lanes} : t, type);
}

}  // namespace

std::string type_problem(const Expr& e) {
  const Type type = e.type();
  return match(
      e,
      [&](const IntImm& i) -> std::string {
        if (is_float(type.dtype) || type.is_vector()) return "an integer literal of type " + print_type(type);
        return fits_word(type.dtype, i.value)
                   ? ""
                   : std::to_string(i.value) + " doesn't fit into " + print_type(type);
      },
      [&](const FloatImm& f) -> std::string {
        if (!is_float(type.dtype) || type.is_vector()) return "a float literal of type " + print_type(type);
        const bool exact = std::isnan(f.value) || round_to(type.dtype, f.value) == f.value;
        return exact ? "" : "a literal that is no " + print_type(type);
      },
      [&](const VarRef& v) { return must("the variable", v.var->type, type); },
      [&](const Load& l) {
        const std::string problem = access_problem(l.buffer, l.indices, l.mask);
        return problem.empty()
                   ? must("the load", {l.buffer->type.dtype, access_lanes(l.buffer, l.indices)}, type)
                   : problem;
      },
      [&](const Binary& b) { return binary_problem(b, type); },
      [&](const Unary& u) -> std::string {
        if (u.op == UnaryOp::logical_not && !is_bool(u.a.dtype())) return "`!` of " + print_type(u.a.type());
        return must("the result", u.a.type(), type);
      },
      [&](const Select& s) -> std::string {
        if (!(s.a.type() == s.b.type())) return are("the two sides", s.a, s.b);
        const int lanes = s.cond.type().lanes;
        if (!is_bool(s.cond.dtype()) || (lanes != 1 && lanes != type.lanes))
          return "a condition of " + print_type(s.cond.type()) + " chooses among " + print_type(s.a.type());
        return must("the result", s.a.type(), type);
      },
      [&](const Cast& c) -> std::string {
        return c.a.type().lanes == type.lanes
                   ? ""
                   : "a cast of " + print_type(c.a.type()) + " to " + print_type(type) + " changes the lanes";
      },
      [&](const Call& c) { return call_problem(c, type); },
      [&](const Let& l) {
        const std::string problem = must("the value of `" + l.var->name + "`", l.var->type, l.value.type());
        return problem.empty() ? must("the result", l.body.type(), type) : problem;
      },
      [&](const Ramp& r) -> std::string {
        if (!(r.base.type() == r.stride.type()) || r.base.type().is_vector())
          return are("base and stride of a ramp", r.base, r.stride);
        return type.is_vector() ? must("the ramp", r.base.type().with_lanes(type.lanes), type)
                                : "a ramp of one lane";
      },
      [&](const Broadcast& b) -> std::string {
        if (b.a.type().is_vector() || !type.is_vector())
          return "a broadcast of " + print_type(b.a.type()) + " to " + print_type(type);
        return must("the broadcast", b.a.type().with_lanes(type.lanes), type);
      },
      [&](const VectorReduce& r) { return must("the result", r.a.type().with_lanes(1), type); },
      [&](const Shuffle& s) -> std::string {
        if (!(s.a.type() == s.b.type()) || !s.a.type().is_vector())
          return are("the sides of a shuffle", s.a, s.b);
        for (const int64_t l : s.lanes)
          if (l < 0 || l >= 2 * s.a.type().lanes) return "lane " + std::to_string(l) + " of a shuffle";
        return must("the shuffle", s.a.type().with_lanes(static_cast<int>(s.lanes.size())), type);
      });
}

std::string type_problem(const Stmt& s) {
  return match(
      s, [](const Seq&) { return std::string(); },
      [](const For& f) -> std::string {
        if ((f.kind == ForKind::thread) != (f.thread != ThreadTag::none))
          return "a thread tag without a thread loop, or the reverse";
        const auto extent = as_int(f.extent);
        if (extent && *extent < 0) return "a loop of negative extent";
        const std::string problem = must("the loop variable", kIndex, f.var->type);
        return problem.empty() ? must("the extent", kIndex, f.extent.type()) : problem;
      },
      [](const Block& b) -> std::string {
        for (const IterVar& i : b.iters)
          for (const Type t : {i.var->type, i.extent.type(), i.binding.type()})
            if (!(t == kIndex)) return must("iterator `" + i.var->name + "`", kIndex, t);
        return b.where ? must("`where`", kCondition, b.where.type()) : "";
      },
      [](const Store& st) {
        const std::string problem = access_problem(st.buffer, st.indices, st.mask);
        return problem.empty() ? value_problem(st.buffer, st.indices, st.value) : problem;
      },
      [](const Update& u) {
        const std::string problem = access_problem(u.buffer, u.indices, {});
        return problem.empty() ? value_problem(u.buffer, u.indices, u.value) : problem;
      },
      [](const If& i) { return must("the condition", kCondition, i.cond.type()); },
      [](const Alloc&) { return std::string(); },
      [](const LetStmt& l) { return must("the value", l.var->type, l.value.type()); },
      [](const Evaluate& e) -> std::string {
        const auto* call = e.call.as<Call>();
        if (call && call->fn == Intrinsic::sync && call->args.empty()) return "";
        if (call && call->fn == Intrinsic::prefetch && call->args.size() == 1 && call->args[0].as<Load>())
          return "";
        if (call && call->fn == Intrinsic::instruction) return "";
        return "only sync(), prefetch(X[i]) and instruction(...) are statements";
      });
}

}  // namespace nestor
