// Arithmetic, comparisons and intrinsics, exactly as the interpreter defines them.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "llvm_expr.h"
#include "nestor/error.h"

namespace nestor {

llvm::Value* ExprEmitter::binary(const Binary& b) {
  if (b.op == BinaryOp::logical_and || b.op == BinaryOp::logical_or) return lazy_logical(b);
  llvm::Value* x = emit(b.a);
  llvm::Value* y = emit(b.b);
  const Type t = b.a.type();
  if ((b.op == BinaryOp::div || b.op == BinaryOp::mod) && !is_float(t.dtype)) return divide(b, x, y);
  return combine(b.op, x, y, t);
}

llvm::Value* ExprEmitter::combine(BinaryOp op, llvm::Value* x, llvm::Value* y, Type t) {
  const bool f = is_float(t.dtype);
  const auto rounded = [&](llvm::Value* v) { return is_half(t.dtype) ? round_half(v, t.dtype) : v; };
  if (is_bool(t.dtype) && (op <= BinaryOp::mod))
    throw UserError(std::string("`") + symbol(op) + "` of bool; use && or ||, or cast to an integer");
  switch (op) {
    case BinaryOp::add:
      return f ? rounded(b_.CreateFAdd(x, y)) : b_.CreateAdd(x, y);
    case BinaryOp::sub:
      return f ? rounded(b_.CreateFSub(x, y)) : b_.CreateSub(x, y);
    case BinaryOp::mul:
      return f ? rounded(b_.CreateFMul(x, y)) : b_.CreateMul(x, y);
    case BinaryOp::div:
      NESTOR_CHECK(f) << "integer division comes through divide()";
      return rounded(b_.CreateFDiv(x, y));
    case BinaryOp::mod:
      throw UserError("`%` of floats");
    case BinaryOp::min:
    case BinaryOp::max:
      return extremum(op, x, y, t.dtype);
    case BinaryOp::eq:
    case BinaryOp::ne:
    case BinaryOp::lt:
    case BinaryOp::le:
    case BinaryOp::gt:
    case BinaryOp::ge:
      return compare(op, x, y, t.dtype);
    case BinaryOp::logical_and:
    case BinaryOp::bit_and:
      return b_.CreateAnd(x, y);
    case BinaryOp::logical_or:
    case BinaryOp::bit_or:
      return b_.CreateOr(x, y);
    case BinaryOp::bit_xor:
      return b_.CreateXor(x, y);
    case BinaryOp::shl:
      return b_.CreateShl(x, y);
    case BinaryOp::shr:
      return is_unsigned(t.dtype) ? b_.CreateLShr(x, y) : b_.CreateAShr(x, y);
  }
  throw InternalError("unknown binary operation");
}

// With a NaN only `!=` is true.
llvm::Value* ExprEmitter::compare(BinaryOp op, llvm::Value* x, llvm::Value* y, DType t) {
  using P = llvm::CmpInst;
  struct Row {
    P::Predicate f, s, u;
  };
  static constexpr Row table[] = {
      {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE}};
  const Row& row = table[static_cast<size_t>(op) - static_cast<size_t>(BinaryOp::eq)];
  return b_.CreateCmp(is_float(t) ? row.f : is_unsigned(t) ? row.u : row.s, x, y);
}

// Floor division and modulus. Index arithmetic is nearly always by a positive constant, mostly of something
// known not to be negative, and then costs one unsigned operation (LLVM makes shifts or multiplications of
// it).
llvm::Value* ExprEmitter::divide(const Binary& b, llvm::Value* x, llvm::Value* y) {
  const bool remainder = b.op == BinaryOp::mod;
  const Type t = b.a.type();
  const int64_t divisor = as_int(b.b).value_or(0);
  if (divisor > 0 && is_nonnegative(b.a)) return remainder ? b_.CreateURem(x, y) : b_.CreateUDiv(x, y);
  if (divisor > 0 && (divisor & (divisor - 1)) == 0 && !is_unsigned(t.dtype)) {
    if (remainder)
      return b_.CreateAnd(x, llvm::ConstantInt::get(x->getType(), static_cast<uint64_t>(divisor - 1)));
    return b_.CreateAShr(
        x, llvm::ConstantInt::get(x->getType(),
                                  static_cast<uint64_t>(__builtin_ctzll(static_cast<uint64_t>(divisor)))));
  }
  return safe_divide(remainder, false, x, y, t);
}

// Total: never traps. A constant divisor folds the guards away.
llvm::Value* ExprEmitter::safe_divide(bool remainder, bool truncate, llvm::Value* x, llvm::Value* y, Type t) {
  if (is_bool(t.dtype)) throw UserError("integer division of bool");
  llvm::Constant* zero = llvm::ConstantInt::get(x->getType(), 0);
  llvm::Constant* one = llvm::ConstantInt::get(x->getType(), 1);
  llvm::Value* by_zero = b_.CreateICmpEQ(y, zero);
  if (is_unsigned(t.dtype)) {
    llvm::Value* safe = b_.CreateSelect(by_zero, one, y);
    return b_.CreateSelect(by_zero, zero, remainder ? b_.CreateURem(x, safe) : b_.CreateUDiv(x, safe));
  }
  llvm::Value* by_minus_one = b_.CreateICmpEQ(y, llvm::ConstantInt::getSigned(x->getType(), -1));
  llvm::Value* safe = b_.CreateSelect(b_.CreateOr(by_zero, by_minus_one), one, y);
  llvm::Value* r = b_.CreateSRem(x, safe);
  // The floor is one below the truncated quotient where the remainder has the other sign than the divisor.
  llvm::Value* fix = b_.CreateAnd(b_.CreateICmpNE(r, zero), b_.CreateICmpSLT(b_.CreateXor(r, safe), zero));
  if (remainder) {
    llvm::Value* result = truncate ? r : b_.CreateSelect(fix, b_.CreateAdd(r, safe), r);
    return b_.CreateSelect(by_zero, zero, result);
  }
  llvm::Value* q = b_.CreateSDiv(x, safe);
  if (!truncate) q = b_.CreateSub(q, b_.CreateZExt(fix, x->getType()));
  q = b_.CreateSelect(by_minus_one, b_.CreateNeg(x), q);
  return b_.CreateSelect(by_zero, zero, q);
}

llvm::Value* ExprEmitter::fma(llvm::Value* x, llvm::Value* y, llvm::Value* z, Type t) {
  if (!is_float(t.dtype)) return b_.CreateAdd(b_.CreateMul(x, y), z);
  llvm::Value* result = b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  return is_half(t.dtype) ? round_half(result, t.dtype) : result;
}

llvm::Value* ExprEmitter::call(const Call& c, Type t) {
  if (c.fn <= Intrinsic::pow && c.fn != Intrinsic::sqrt) return math_library(c, t);
  if (c.fn == Intrinsic::instruction) return instruction(c, t);
  std::vector<llvm::Value*> a;
  if (c.fn != Intrinsic::prefetch)
    for (const Expr& e : c.args) a.push_back(emit(e));
  const bool f = is_float(t.dtype);
  const auto unary = [&](llvm::Intrinsic::ID id) { return f ? b_.CreateUnaryIntrinsic(id, a[0]) : a[0]; };
  switch (c.fn) {
    case Intrinsic::sqrt: {
      if (!f) throw UserError("sqrt of an integer");
      llvm::Value* root = b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a[0]);
      return is_half(t.dtype) ? round_half(root, t.dtype) : root;
    }
    case Intrinsic::abs:
      if (f) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a[0]);
      if (is_unsigned(t.dtype)) return a[0];
      return b_.CreateIntrinsic(llvm::Intrinsic::abs, {a[0]->getType()}, {a[0], b_.getFalse()});
    case Intrinsic::floor:
      return unary(llvm::Intrinsic::floor);
    case Intrinsic::ceil:
      return unary(llvm::Intrinsic::ceil);
    case Intrinsic::round:
      return unary(llvm::Intrinsic::roundeven);
    case Intrinsic::fma:
      return fma(a[0], a[1], a[2], t);
    case Intrinsic::lookup:
      return lookup(a);
    case Intrinsic::scalef:
      return scalef(a[0], a[1]);
    case Intrinsic::tdiv:
      return f ? combine(BinaryOp::div, a[0], a[1], t) : safe_divide(false, true, a[0], a[1], t);
    case Intrinsic::bitcast: {
      const Type from = c.args[0].type();
      return from_storage(b_.CreateBitCast(to_storage(a[0], from), storage_type(t)), t);
    }
    case Intrinsic::is_nan:
      if (is_float(c.args[0].dtype())) return b_.CreateFCmpUNO(a[0], a[0]);
      return llvm::Constant::getNullValue(value_type(t));
    default:
      throw UserError(std::string(info(c.fn).name) +
                      " is a statement, and needs a cuda target if it is sync");
  }
}

// exp, log, tanh, erf, pow and sigmoid by the C library in double precision, lane by lane: what the
// interpreter does. Lowered functions hold polynomials instead where speed matters (pass expand_math).
llvm::Value* ExprEmitter::math_library(const Call& c, Type t) {
  if (!is_float(t.dtype))
    throw UserError(std::string(info(c.fn).name) + " of " + std::string(name_of(t.dtype)));
  llvm::Module* m = b_.GetInsertBlock()->getModule();
  llvm::Type* d = b_.getDoubleTy();
  const bool sigmoid = c.fn == Intrinsic::sigmoid;
  const std::string name = sigmoid || c.fn == Intrinsic::exp_nonpositive ? "exp" : info(c.fn).name;
  std::vector<llvm::Type*> params(c.args.size(), d);
  llvm::FunctionCallee fn = m->getOrInsertFunction(name, llvm::FunctionType::get(d, params, false));
  auto* declaration = llvm::cast<llvm::Function>(fn.getCallee());
  declaration->setDoesNotAccessMemory();
  declaration->setDoesNotThrow();
  declaration->setWillReturn();
  std::vector<llvm::Value*> args;
  for (const Expr& a : c.args) args.push_back(cast(emit(a), t, {DType::f64, t.lanes}));
  const auto one = [&](std::vector<llvm::Value*> x) -> llvm::Value* {
    if (!sigmoid) return b_.CreateCall(fn, x);
    llvm::Value* e = b_.CreateCall(fn, {b_.CreateFNeg(x[0])});
    return b_.CreateFDiv(llvm::ConstantFP::get(d, 1), b_.CreateFAdd(llvm::ConstantFP::get(d, 1), e));
  };
  llvm::Value* result = nullptr;
  if (!t.is_vector()) {
    result = one(args);
  } else {
    result = llvm::PoisonValue::get(value_type({DType::f64, t.lanes}));
    for (int lane = 0; lane < t.lanes; ++lane) {
      std::vector<llvm::Value*> x;
      for (llvm::Value* a : args) x.push_back(b_.CreateExtractElement(a, static_cast<uint64_t>(lane)));
      result = b_.CreateInsertElement(result, one(x), static_cast<uint64_t>(lane));
    }
  }
  if (t.dtype == DType::f64) return result;
  return cast(b_.CreateFPTrunc(result, value_type(t)), {DType::f32, t.lanes}, t);
}

}  // namespace nestor
