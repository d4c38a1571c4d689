// Operations that are one instruction on AVX-512, for any number of lanes, and arithmetic with the same bits
// elsewhere: scalef (nestor/scalef.h), and a lookup in a table that fits in one or two registers. (AVX2 has a
// lookup too, in one register with half as many elements.)
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <numeric>

#include "llvm_expr.h"

namespace nestor {

namespace {

using llvm::Value;

Value* machine_scalef(llvm::IRBuilder<>& b, Value* x, Value* n, unsigned lanes) {
  const auto id = lanes == 4   ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_128
                  : lanes == 8 ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256
                               : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512;
  llvm::Type* mask = lanes == 16 ? b.getInt16Ty() : b.getInt8Ty();
  std::vector<Value*> args = {x, n, llvm::PoisonValue::get(x->getType()),
                              llvm::Constant::getAllOnesValue(mask)};
  if (lanes == 16) args.push_back(b.getInt32(4));  // the rounding that is set
  return b.CreateIntrinsic(id, {}, args);
}

Value* machine_nearest(llvm::IRBuilder<>& b, Value* x, unsigned lanes) {
  if (lanes < 16)
    return b.CreateIntrinsic(
        lanes == 4 ? llvm::Intrinsic::x86_sse2_cvtps2dq : llvm::Intrinsic::x86_avx_cvt_ps2dq_256, {}, {x});
  llvm::Type* ints = x->getType()->getWithNewType(b.getInt32Ty());
  return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_cvtps2dq_512, {},
                           {x, llvm::PoisonValue::get(ints), llvm::Constant::getAllOnesValue(b.getInt16Ty()),
                            b.getInt32(4)});  // the rounding that is set
}

// Lanes from..from+count-1 of v; those that it doesn't have are anything.
Value* part(llvm::IRBuilder<>& b, Value* v, unsigned from, unsigned count) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  if (!type)
    return b.CreateInsertElement(llvm::PoisonValue::get(llvm::FixedVectorType::get(v->getType(), count)), v,
                                 uint64_t{0});
  const unsigned lanes = type->getNumElements();
  if (from == 0 && count == lanes) return v;
  std::vector<int> which(count, -1);
  for (unsigned i = 0; i < count && from + i < lanes; ++i) which[i] = static_cast<int>(from + i);
  return b.CreateShuffleVector(v, which);
}

// An operation on `native` lanes done on as many as there are.
template <class F>
Value* in_parts(llvm::IRBuilder<>& b, llvm::Type* type, unsigned native, const F& operation) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (!vector) return b.CreateExtractElement(operation(0), uint64_t{0});
  const unsigned lanes = vector->getNumElements();
  Value* all = operation(0);
  for (unsigned from = native; from < lanes; from += native) {
    std::vector<int> which(from + native);
    std::iota(which.begin(), which.end(), 0);
    all = b.CreateShuffleVector(all, part(b, operation(from), 0, from), which);
  }
  return part(b, all, 0, lanes);
}

unsigned lanes_of(llvm::Type* t) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(t);
  return vector ? vector->getNumElements() : 1;
}

// The exponent leaves in steps that are exact, those downward 24 short of it, so that only the last one
// rounds.
Value* by_arithmetic(llvm::IRBuilder<>& b, Value* x, Value* n) {
  llvm::Type* f = x->getType();
  llvm::Type* i = f->getWithNewType(b.getInt32Ty());
  const auto real = [&](double v) { return llvm::ConstantFP::get(f, v); };
  const auto number = [&](int v) { return llvm::ConstantInt::getSigned(i, v); };
  const auto clamped = [&](Value* v) {
    v = b.CreateSelect(b.CreateFCmpOLT(v, real(-400)), real(-400), v);
    return b.CreateSelect(b.CreateFCmpOGT(v, real(400)), real(400), v);
  };
  Value* down = b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, clamped(n));
  Value* k = b.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {i, f}, {down});
  Value* y = x;
  const auto step = [&](llvm::Value* wanted, double power, int taken) {
    y = b.CreateSelect(wanted, b.CreateFMul(y, real(power)), y);
    k = b.CreateSelect(wanted, b.CreateSub(k, number(taken)), k);
  };
  for (int times = 0; times < 3; ++times) step(b.CreateICmpSGT(k, number(127)), 0x1p127, 127);
  for (int times = 0; times < 3; ++times) step(b.CreateICmpSLT(k, number(-126)), 0x1p-102, -102);
  y = b.CreateFMul(y, b.CreateBitCast(b.CreateShl(b.CreateAdd(k, number(127)), number(23)), f));
  llvm::Constant* infinity = llvm::ConstantFP::getInfinity(f);
  Value* power = b.CreateSelect(b.CreateFCmpOGT(n, real(0)), infinity, real(0));
  Value* extreme = b.CreateSelect(b.CreateFCmpUNO(x, x), power, b.CreateFMul(x, power));
  Value* infinite = b.CreateFCmpOEQ(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, n), infinity);
  return b.CreateSelect(b.CreateFCmpUNO(n, n), n, b.CreateSelect(infinite, extreme, y));
}

}  // namespace

bool ExprEmitter::has_feature(const std::string& name) const {
  const llvm::Function* f = b_.GetInsertBlock()->getParent();
  const std::string features = f->getFnAttribute("target-features").getValueAsString().str();
  return ("," + features + ",").find(",+" + name + ",") != std::string::npos;
}

bool ExprEmitter::is_x86() const {
  return llvm::Triple(b_.GetInsertBlock()->getModule()->getTargetTriple()).isX86();
}

bool ExprEmitter::has_avx512() const {
  return has_feature("avx512f") && has_feature("avx512vl");
}

Value* ExprEmitter::scalef(Value* x, Value* n) {
  if (!has_avx512()) return by_arithmetic(b_, x, n);
  const unsigned lanes = lanes_of(x->getType()), native = lanes <= 4 ? 4 : lanes <= 8 ? 8 : 16;
  return in_parts(b_, x->getType(), native, [&](unsigned from) {
    return machine_scalef(b_, part(b_, x, from, native), part(b_, n, from, native), native);
  });
}

// Of what fits an i32; ties to even, as floating-point operations round.
Value* ExprEmitter::nearest_i32(Value* x) {
  llvm::Type* type = x->getType()->getWithNewType(b_.getInt32Ty());
  if (!is_x86()) return b_.CreateFPToSI(b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x), type);
  const unsigned lanes = lanes_of(x->getType()),
                 most = has_avx512()         ? 16
                        : has_feature("avx") ? 8
                                             : 4,
                 native = std::min(most, lanes <= 4   ? 4U
                                         : lanes <= 8 ? 8U
                                                      : 16U);
  return in_parts(b_, type, native,
                  [&](unsigned from) { return machine_nearest(b_, part(b_, x, from, native), native); });
}

Value* ExprEmitter::lookup(const std::vector<Value*>& args) {
  llvm::Type* type = args[0]->getType();
  llvm::Type* ints = type->getWithNewType(b_.getInt32Ty());
  const size_t count = args.size() - 1;
  Value* index = b_.CreateAnd(b_.CreateBitCast(args[0], ints), llvm::ConstantInt::get(ints, count - 1));
  std::vector<llvm::Constant*> table;
  for (size_t k = 0; k < count; ++k) {
    auto* value = llvm::dyn_cast<llvm::Constant>(args[k + 1]);
    if (value && type->isVectorTy()) value = value->getSplatValue();
    if (value) table.push_back(value);
  }
  const size_t native = has_avx512() ? 16 : has_feature("avx2") ? 8 : 0;
  const size_t size = has_avx512() && count > native ? 2 * native : native;  // of a register or two
  if (table.size() == count && count <= size) {
    while (table.size() < size) table.push_back(table[table.size() - count]);
    const llvm::ArrayRef<llvm::Constant*> all(table);
    Value *low = llvm::ConstantVector::get(all.take_front(native)),
          *high = llvm::ConstantVector::get(all.take_back(native));
    // The instruction takes the lowest bits by itself.
    Value* bits = count == size ? b_.CreateBitCast(args[0], ints) : index;
    return in_parts(b_, type, static_cast<unsigned>(native), [&](unsigned from) {
      using namespace llvm::Intrinsic;
      Value* which = part(b_, bits, from, static_cast<unsigned>(native));
      if (size > native) return b_.CreateIntrinsic(x86_avx512_vpermi2var_ps_512, {}, {low, which, high});
      const ID one = native == 16 ? x86_avx512_permvar_sf_512 : x86_avx2_permps;
      return b_.CreateIntrinsic(one, {}, {low, which});
    });
  }
  Value* chosen = args[1];
  for (size_t k = 1; k < count; ++k)
    chosen = b_.CreateSelect(b_.CreateICmpEQ(index, llvm::ConstantInt::get(ints, k)), args[k + 1], chosen);
  return chosen;
}

}  // namespace nestor
