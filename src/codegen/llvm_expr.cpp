// Expressions: their kinds, laziness and reductions. Laziness: a scalar `if` or `&&` becomes a branch only if
// the other side holds a load (which could read out of bounds) or a call. Otherwise it becomes a select,
// which is cheaper than a jump.
#include "llvm_expr.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>

#include <cmath>

#include "nestor/error.h"
#include "nestor/walk.h"

namespace nestor {

bool must_be_lazy(const Expr& e) {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) {
    if (const auto* c = x.as<Call>()) found |= c->fn <= Intrinsic::pow && c->fn != Intrinsic::sqrt;
    found |= x.as<Load>() != nullptr;
  });
  return found;
}

namespace {

bool is_zero(const Expr& e) {
  const auto* f = e.as<FloatImm>();
  return is_const_int(e, 0) || (f && f->value == 0 && !std::signbit(f->value));
}

// Whose address can be computed whether or not it is loaded.
bool is_one_element(const Load& l) {
  return l.indices.size() == 1 && !l.mask && !l.buffer->type.is_vector() && l.indices[0].type() == Type{} &&
         !must_be_lazy(l.indices[0]);
}

}  // namespace

llvm::Type* ExprEmitter::value_type(Type t) const {
  llvm::Type* scalar = nullptr;
  switch (t.dtype) {
    case DType::f64:
      scalar = b_.getDoubleTy();
      break;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      scalar = b_.getFloatTy();
      break;
    case DType::boolean:
      scalar = b_.getInt1Ty();
      break;
    default:
      scalar = b_.getIntNTy(static_cast<unsigned>(8 * bytes_of(t.dtype)));
  }
  return t.is_vector() ? llvm::FixedVectorType::get(scalar, static_cast<unsigned>(t.lanes)) : scalar;
}

void ExprEmitter::bind(const Var& v, llvm::Value* value, bool nonnegative, Expr let) {
  // What is loaded now may be another value when the variable is used.
  if (let && (!let.type().is_vector() || must_be_lazy(let))) let = {};
  vars_[v] = {value, nonnegative, std::move(let)};
}

llvm::Value* ExprEmitter::value_of(const Var& v) const {
  const auto it = vars_.find(v);
  NESTOR_CHECK(it != vars_.end()) << "variable " << v->name << " is used outside its scope";
  return it->second.value;
}

bool ExprEmitter::is_nonnegative(const Expr& e) const {
  if (const auto* i = e.as<IntImm>()) return i->value >= 0;
  if (const auto* v = e.as<VarRef>()) {
    const auto it = vars_.find(v->var);
    return it != vars_.end() && it->second.nonnegative;
  }
  if (const auto* r = e.as<Ramp>()) return is_nonnegative(r->base) && is_nonnegative(r->stride);
  if (const auto* r = e.as<Broadcast>()) return is_nonnegative(r->a);
  if (const auto* s = e.as<Select>()) return is_nonnegative(s->a) && is_nonnegative(s->b);
  const auto* b = e.as<Binary>();
  if (!b || e.dtype() != DType::i64) return false;
  switch (b->op) {
    case BinaryOp::add:
    case BinaryOp::mul:
    case BinaryOp::div:
      return is_nonnegative(b->a) && is_nonnegative(b->b);
    case BinaryOp::min:
      return is_nonnegative(b->a) && is_nonnegative(b->b);
    case BinaryOp::max:
      return is_nonnegative(b->a) || is_nonnegative(b->b);
    case BinaryOp::mod:
      return as_int(b->b).value_or(0) > 0;
    default:
      return false;
  }
}

llvm::Value* ExprEmitter::emit(const Expr& e) {
  const Type t = e.type();
  return match(
      e,
      [&](const IntImm& i) -> llvm::Value* {
        return llvm::ConstantInt::get(value_type(t), static_cast<uint64_t>(i.value), !is_unsigned(t.dtype));
      },
      [&](const FloatImm& f) -> llvm::Value* { return llvm::ConstantFP::get(value_type(t), f.value); },
      [&](const VarRef& v) { return value_of(v.var); }, [&](const Load& l) { return load(l, t); },
      [&](const Binary& b) { return binary(b); },
      [&](const Unary& u) -> llvm::Value* {
        llvm::Value* a = emit(u.a);
        if (u.op == UnaryOp::logical_not) return b_.CreateNot(a);
        if (is_bool(t.dtype)) throw UserError("negation of a bool");
        return is_float(t.dtype) ? b_.CreateFNeg(a) : b_.CreateNeg(a);
      },
      [&](const Select& s) { return select(s, t); }, [&](const Cast& c) { return convert(c, t); },
      [&](const Call& c) { return call(c, t); }, [&](const Let& l) { return let(l); },
      [&](const Ramp& r) -> llvm::Value* {
        std::vector<llvm::Constant*> lane;
        for (int i = 0; i < t.lanes; ++i)
          lane.push_back(llvm::cast<llvm::Constant>(
              llvm::ConstantInt::get(value_type(t.with_lanes(1)), static_cast<uint64_t>(i))));
        llvm::Value* steps = b_.CreateMul(splat(emit(r.stride), t.lanes), llvm::ConstantVector::get(lane));
        return b_.CreateAdd(splat(emit(r.base), t.lanes), steps);
      },
      [&](const Broadcast& x) { return splat(emit(x.a), t.lanes); },
      [&](const VectorReduce& r) { return reduce(r); },
      [&](const Shuffle& s) -> llvm::Value* {
        llvm::Value* a = emit(s.a);
        const int64_t n = s.a.type().lanes, first = s.lanes[0];
        if (s.lanes.size() == 1)
          return first < n ? b_.CreateExtractElement(a, static_cast<uint64_t>(first))
                           : b_.CreateExtractElement(emit(s.b), static_cast<uint64_t>(first - n));
        return b_.CreateShuffleVector(a, emit(s.b), std::vector<int>(s.lanes.begin(), s.lanes.end()));
      });
}

llvm::Value* ExprEmitter::splat(llvm::Value* v, int lanes) {
  return b_.CreateVectorSplat(static_cast<unsigned>(lanes), v);
}

llvm::Value* ExprEmitter::let(const Let& l) {
  bind(l.var, emit(l.value), is_nonnegative(l.value), l.value);
  return emit(l.body);
}

llvm::Value* ExprEmitter::branch_value(llvm::Value* cond, const std::function<llvm::Value*()>& then_value,
                                       const std::function<llvm::Value*()>& else_value, bool likely) {
  llvm::Function* f = b_.GetInsertBlock()->getParent();
  llvm::LLVMContext& c = b_.getContext();
  llvm::BasicBlock* then_block = llvm::BasicBlock::Create(c, "then", f);
  llvm::BasicBlock* else_block = llvm::BasicBlock::Create(c, "else", f);
  llvm::BasicBlock* join = llvm::BasicBlock::Create(c, "join", f);
  b_.CreateCondBr(cond, then_block, else_block,
                  likely ? llvm::MDBuilder(c).createLikelyBranchWeights() : nullptr);
  b_.SetInsertPoint(then_block);
  llvm::Value* x = then_value();
  then_block = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(else_block);
  llvm::Value* y = else_value();
  else_block = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  llvm::PHINode* phi = b_.CreatePHI(x->getType(), 2);
  phi->addIncoming(x, then_block);
  phi->addIncoming(y, else_block);
  return phi;
}

llvm::Value* ExprEmitter::select(const Select& s, Type t) {
  if (const auto* l = s.a.as<Load>(); l && is_zero(s.b) && is_one_element(*l))
    return load_or_zero(*l, s.cond, t);
  llvm::Value* cond = emit(s.cond);
  if (s.cond.type().is_vector() || !(must_be_lazy(s.a) || must_be_lazy(s.b))) {
    llvm::Value* a = emit(s.a);
    return b_.CreateSelect(cond, a, emit(s.b));
  }
  return branch_value(
      cond, [&] { return emit(s.a); }, [&] { return emit(s.b); });
}

llvm::Value* ExprEmitter::lazy_logical(const Binary& b) {
  const bool is_and = b.op == BinaryOp::logical_and;
  llvm::Value* a = emit(b.a);
  if (b.a.type().is_vector() || !must_be_lazy(b.b))
    return is_and ? b_.CreateAnd(a, emit(b.b)) : b_.CreateOr(a, emit(b.b));
  const auto decided = [&]() -> llvm::Value* { return b_.getInt1(!is_and); };
  const auto other = [&] { return emit(b.b); };
  return is_and ? branch_value(a, other, decided) : branch_value(a, decided, other);
}

// The balanced tree that ir.h defines: lane i with lane i + n/2, until one is left; an odd last lane is
// carried along.
llvm::Value* ExprEmitter::fold_lanes(
    llvm::Value* v, Type t, const std::function<llvm::Value*(llvm::Value*, llvm::Value*, Type)>& combine) {
  for (int n = t.lanes; n > 1; n = (n + 1) / 2) {
    const int half = n / 2;
    if (n == 2) {
      llvm::Value* first = b_.CreateExtractElement(v, uint64_t{0});
      return combine(first, b_.CreateExtractElement(v, uint64_t{1}), t.with_lanes(1));
    }
    std::vector<int> low, high;
    for (int i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(i + half);
    }
    llvm::Value* folded =
        combine(b_.CreateShuffleVector(v, low), b_.CreateShuffleVector(v, high), t.with_lanes(half));
    if (n % 2 == 0) {
      v = folded;
      continue;
    }
    std::vector<int> widen(static_cast<size_t>(half) + 1, 0);
    llvm::Value* last = b_.CreateExtractElement(v, static_cast<uint64_t>(n - 1));
    if (half == 1) {  // n is 3: `folded` is a vector of one lane
      llvm::Value* first = b_.CreateExtractElement(folded, uint64_t{0});
      return combine(first, last, t.with_lanes(1));
    }
    for (int i = 0; i < half; ++i) widen[static_cast<size_t>(i)] = i;
    v = b_.CreateInsertElement(b_.CreateShuffleVector(folded, widen), last, static_cast<uint64_t>(half));
  }
  return v;
}

llvm::Value* ExprEmitter::reduce(const VectorReduce& r) {
  const BinaryOp op = binary_of(r.op);
  if ((op == BinaryOp::min || op == BinaryOp::max) && is_float(r.a.dtype()) && r.a.type().lanes > 1)
    return reduce_extremum(op, r.a);
  return fold_lanes(emit(r.a), r.a.type(),
                    [&](llvm::Value* x, llvm::Value* y, Type t) { return combine(op, x, y, t); });
}

}  // namespace nestor
