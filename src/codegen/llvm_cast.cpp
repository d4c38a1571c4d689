// Casts, exactly as the interpreter defines them.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <cmath>

#include "llvm_expr.h"
#include "nestor/error.h"

namespace nestor {

llvm::Value* ExprEmitter::cast(llvm::Value* v, Type from, Type to) {
  llvm::Type* type = value_type(to);
  if (is_bool(to.dtype)) {
    llvm::Constant* zero = llvm::Constant::getNullValue(v->getType());
    return is_float(from.dtype) ? b_.CreateFCmpUNE(v, zero) : b_.CreateICmpNE(v, zero);
  }
  if (is_float(from.dtype) && is_float(to.dtype)) {
    if (to.dtype == DType::f64) return b_.CreateFPExt(v, type);
    if (from.dtype == DType::f64)
      return is_half(to.dtype) ? narrow_double(v, to.dtype) : b_.CreateFPTrunc(v, type);
    return is_half(to.dtype) ? round_half(v, to.dtype) : v;
  }
  if (is_float(from.dtype)) return truncate(v, to);
  if (is_float(to.dtype)) {
    const auto convert = [&](llvm::Type* f) {
      return is_unsigned(from.dtype) ? b_.CreateUIToFP(v, f) : b_.CreateSIToFP(v, f);
    };
    if (is_half(to.dtype)) return narrow_double(convert(value_type({DType::f64, to.lanes})), to.dtype);
    return convert(type);
  }
  return b_.CreateIntCast(v, type, !is_unsigned(from.dtype));
}

// A float to an integer: toward zero, saturated, NaN to 0. LLVM does that element by element on x86, whose
// conversions say nothing about what doesn't fit; where there is none of whole vectors, that is the fastest.
llvm::Value* ExprEmitter::truncate(llvm::Value* v, Type to) {
  llvm::Type *f = v->getType(), *type = value_type(to);
  const bool is_signed = !is_unsigned(to.dtype);
  const unsigned bits = type->getScalarSizeInBits();
  const bool whole = bits == 64                         ? has_feature("avx512dq")
                     : f->getScalarType()->isDoubleTy() ? has_feature("avx")
                                                        : true;
  if (to.lanes == 1 || !whole || !is_x86()) {
    const auto id = is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b_.CreateIntrinsic(id, {type, f}, {v});
  }
  llvm::Type* wide = bits < 32 ? type->getWithNewBitWidth(32) : type;
  llvm::Constant* lowest =
      llvm::ConstantFP::get(f, is_signed ? -std::ldexp(1.0, static_cast<int>(bits) - 1) : 0);
  llvm::Constant* end = llvm::ConstantFP::get(f, std::ldexp(1.0, static_cast<int>(bits) - is_signed));
  const llvm::APInt most = is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
  llvm::Value* x = b_.CreateSelect(b_.CreateFCmpOGT(v, lowest), v, lowest);
  llvm::Value* fits = b_.CreateFCmpOLT(x, end);
  llvm::Value* inside = b_.CreateSelect(fits, x, llvm::Constant::getNullValue(f));
  llvm::Value* i = is_signed || bits < 32 ? b_.CreateFPToSI(inside, wide) : b_.CreateFPToUI(inside, wide);
  i = b_.CreateSelect(fits, i, llvm::ConstantInt::get(wide, most.zext(wide->getScalarSizeInBits())));
  i = b_.CreateSelect(b_.CreateFCmpUNO(v, v), llvm::Constant::getNullValue(wide), i);
  return b_.CreateTrunc(i, type);
}

namespace {

std::optional<double> known_float(const Expr& e) {
  if (const auto* same = e.as<Broadcast>()) return known_float(same->a);
  const auto* f = e.as<FloatImm>();
  return f ? std::optional(f->value) : std::nullopt;
}

// max(min(x, hi), lo) of known bounds, or NaN.
bool is_between(const Expr& e, double lo, double hi) {
  const auto* above = e.as<Binary>();
  if (!above || above->op != BinaryOp::max) return false;
  const auto* below = above->a.as<Binary>();
  if (!below || below->op != BinaryOp::min) return false;
  const auto least = known_float(above->b), most = known_float(below->b);
  return least && most && *least >= lo && *most <= hi && *least <= *most;
}

}  // namespace

// An f32 that is cut off at bounds which fit needs no others, and is rounded as it is converted; nullptr
// where it is none. NaN, which is 0, is no integer to x86: it gives one whose lower half is 0, which is right
// where only that is wanted.
llvm::Value* ExprEmitter::truncate_bounded(const Cast& c, Type to) {
  if (c.a.type().dtype != DType::f32 || to.lanes == 1) return nullptr;
  const auto* rounded = c.a.as<Call>();
  if (rounded && rounded->fn != Intrinsic::round) return nullptr;
  constexpr double kFits = 1 << 24;
  const Expr& inner = rounded ? rounded->args[0] : c.a;
  if (to.dtype != DType::i32 || !is_between(inner, -kFits, kFits)) return nullptr;
  const bool lower_half = rounded && is_x86() && std::count(narrowed_.begin(), narrowed_.end(), &c) > 0;
  llvm::Value* v = emit(inner);
  if (!lower_half && !never_nan(v))
    v = b_.CreateSelect(b_.CreateFCmpORD(v, v), v, llvm::Constant::getNullValue(v->getType()));
  return rounded ? nearest_i32(v) : b_.CreateFPToSI(v, value_type(to));
}

// The casts to i32 among the terms of e.
static void find_casts(const Expr& e, std::vector<const Cast*>& out) {
  const auto* sum = e.as<Binary>();
  if (const auto* c = e.as<Cast>()) out.push_back(c);
  if (!sum || (sum->op != BinaryOp::add && sum->op != BinaryOp::sub)) return;
  find_casts(sum->a, out);
  find_casts(sum->b, out);
}

llvm::Value* ExprEmitter::convert(const Cast& c, Type to) {
  if (llvm::Value* v = truncate_bounded(c, to)) return v;
  const size_t outside = narrowed_.size();
  if (c.a.dtype() == DType::i32 && !is_float(to.dtype) && !is_bool(to.dtype) && bytes_of(to.dtype) < 4)
    find_casts(c.a, narrowed_);
  llvm::Value* v = cast(emit(c.a), c.a.type(), to);
  narrowed_.resize(outside);
  return v;
}

// A float rounded to a 16-bit format. f32 holds more than twice f16's and bf16's digits, so rounding twice is
// harmless after + - * / and sqrt. bf16 by integers: the machine's conversion flushes denormals.
llvm::Value* ExprEmitter::round_half(llvm::Value* v, DType t) {
  llvm::Type* f = v->getType();
  if (t == DType::f16) return extend_half(b_.CreateFPTrunc(v, f->getWithNewType(b_.getHalfTy())));
  llvm::Type* i = f->getWithNewType(b_.getInt32Ty());
  const auto number = [&](uint64_t n) { return llvm::ConstantInt::get(i, n); };
  llvm::Value* bits = b_.CreateBitCast(v, i);
  llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(bits, number(16)), number(1));
  llvm::Value* up = b_.CreateAdd(bits, b_.CreateAdd(odd, number(0x7fff)));
  llvm::Value* quiet = b_.CreateOr(bits, number(0x400000));
  llvm::Value* result = b_.CreateSelect(b_.CreateFCmpUNO(v, v), quiet, up);
  return b_.CreateBitCast(b_.CreateAnd(result, number(0xffff0000)), f);
}

// A double rounded once to a 16-bit format: first to float with an odd last digit where it is inexact, which
// the second rounding can't mistake for a tie (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums", 2008).
llvm::Value* ExprEmitter::narrow_double(llvm::Value* v, DType t) {
  llvm::Type* f = v->getType()->getWithNewType(b_.getFloatTy());
  llvm::Type* i = f->getWithNewType(b_.getInt32Ty());
  llvm::Value* single = b_.CreateFPTrunc(v, f);
  llvm::Value* back = b_.CreateFPExt(single, v->getType());
  llvm::Value* above = b_.CreateFCmpOGT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                        b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v));
  llvm::Value* bits = b_.CreateBitCast(single, i);
  llvm::Value* toward_zero = b_.CreateSub(bits, b_.CreateZExt(above, i));
  llvm::Value* odd = b_.CreateOr(toward_zero, llvm::ConstantInt::get(i, 1));
  llvm::Value* inexact = b_.CreateFCmpONE(back, v);
  return round_half(b_.CreateBitCast(b_.CreateSelect(inexact, odd, bits), f), t);
}

}  // namespace nestor
