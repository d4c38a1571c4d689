// Loads and stores. The index of a vector access decides how it is done: stride 1 is one wide (or masked)
// access, stride -1 the same reversed, a small stride a few wide loads and shuffles, or shuffles and masked
// stores where those are cheaper. Everything else is a gather (llvm_gather.cpp) or scatter. No access reaches
// beyond the first and the last element that is needed.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "llvm_expr.h"
#include "nestor/error.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

llvm::Align align_of(DType t) {
  return llvm::Align(static_cast<uint64_t>(bytes_of(t)));
}

// Provably by its form.
bool is_multiple(const Expr& e, int64_t of) {
  if (const auto value = as_int(e)) return *value % of == 0;
  const auto* b = e.as<Binary>();
  if (!b) return false;
  if (b->op == BinaryOp::add || b->op == BinaryOp::sub) return is_multiple(b->a, of) && is_multiple(b->b, of);
  return b->op == BinaryOp::mul && (is_multiple(b->a, of) || is_multiple(b->b, of));
}

}  // namespace

llvm::Type* ExprEmitter::storage_type(Type t) const {
  llvm::Type* scalar = value_type(t.with_lanes(1));
  if (t.dtype == DType::f16) scalar = b_.getHalfTy();
  if (t.dtype == DType::bf16) scalar = b_.getInt16Ty();
  if (t.dtype == DType::boolean) scalar = b_.getInt8Ty();
  return t.is_vector() ? llvm::FixedVectorType::get(scalar, static_cast<unsigned>(t.lanes)) : scalar;
}

// The fence keeps LLVM from comparing and adding f16 as such, which processors without these instructions do
// element by element.
llvm::Value* ExprEmitter::extend_half(llvm::Value* v) {
  llvm::Type* f = v->getType()->getWithNewType(b_.getFloatTy());
  return b_.CreateArithmeticFence(b_.CreateFPExt(v, f), f);
}

llvm::Value* ExprEmitter::from_storage(llvm::Value* v, Type t) {
  if (t.dtype == DType::f16) return extend_half(v);
  if (t.dtype == DType::boolean) return b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
  if (t.dtype != DType::bf16) return v;
  llvm::Type* bits = v->getType()->getWithNewType(b_.getInt32Ty());
  return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(v, bits), 16), value_type(t));
}

namespace {

// Of an f32 that holds an f16; what was just converted is taken as it was.
llvm::Value* stored_half(llvm::IRBuilder<>& b, llvm::Value* v, llvm::Type* type) {
  if (const auto* fence = llvm::dyn_cast<llvm::IntrinsicInst>(v);
      fence && fence->getIntrinsicID() == llvm::Intrinsic::arithmetic_fence)
    if (auto* wide = llvm::dyn_cast<llvm::FPExtInst>(fence->getArgOperand(0));
        wide && wide->getOperand(0)->getType() == type)
      return wide->getOperand(0);
  return b.CreateFPTrunc(v, type);
}

}  // namespace

llvm::Value* ExprEmitter::to_storage(llvm::Value* v, Type t) {
  if (t.dtype == DType::f16) return stored_half(b_, v, storage_type(t));
  if (t.dtype == DType::boolean) return b_.CreateZExt(v, storage_type(t));
  if (t.dtype != DType::bf16) return v;
  llvm::Type* bits = v->getType()->getWithNewType(b_.getInt32Ty());
  return b_.CreateTrunc(b_.CreateLShr(b_.CreateBitCast(v, bits), 16), storage_type(t));
}

llvm::Value* ExprEmitter::base_of(const Buffer& b) const {
  const auto it = memory_.find(b);
  NESTOR_CHECK(it != memory_.end()) << "buffer " << b->name << " is used outside its scope";
  return it->second;
}

llvm::AllocaInst* ExprEmitter::element(const Buffer& b, const std::vector<Expr>& indices) {
  const auto it = registers_.find(b);
  if (it == registers_.end()) return nullptr;
  const int64_t i = indices.empty() ? 0 : as_int(indices[0]).value_or(-1);
  NESTOR_CHECK(i >= 0 && static_cast<size_t>(i) < it->second.size()) << "element " << i << " of " << b->name;
  return it->second[static_cast<size_t>(i)];
}

// A let's variable is looked through, since vectorize shares indices by lets (bind() has kept those that mean
// the same later on).
std::optional<ExprEmitter::RampForm> ExprEmitter::as_ramp(const Expr& index) const {
  if (const auto* r = index.as<Ramp>()) {
    const auto stride = as_int(r->stride);
    return stride ? std::optional<RampForm>({r->base, *stride}) : std::nullopt;
  }
  if (const auto* x = index.as<Broadcast>()) return RampForm{x->a, 0};
  if (const auto* v = index.as<VarRef>()) {
    const auto it = vars_.find(v->var);
    return it != vars_.end() && it->second.let ? as_ramp(it->second.let) : std::nullopt;
  }
  const auto* b = index.as<Binary>();
  if (!b || (b->op != BinaryOp::add && b->op != BinaryOp::sub && b->op != BinaryOp::mul)) return std::nullopt;
  const auto x = as_ramp(b->a), y = as_ramp(b->b);
  if (!x || !y) return std::nullopt;
  if (b->op == BinaryOp::add) return RampForm{x->base + y->base, x->stride + y->stride};
  if (b->op == BinaryOp::sub) return RampForm{x->base - y->base, x->stride - y->stride};
  const auto factor = as_int(b->b), other = as_int(b->a);
  if (factor) return RampForm{x->base * *factor, x->stride * *factor};
  if (other) return RampForm{y->base * *other, y->stride * *other};
  return std::nullopt;
}

// A buffer of vectors (one that promote_local couldn't put into registers) lies in memory without gaps.
llvm::Value* ExprEmitter::address(const Buffer& b, const Expr& scalar_index, bool inbounds) {
  llvm::Value* i = emit(b->type.is_vector() ? scalar_index * b->type.lanes : scalar_index);
  llvm::Type* element = storage_type(b->type.with_lanes(1));
  return inbounds ? b_.CreateInBoundsGEP(element, base_of(b), i) : b_.CreateGEP(element, base_of(b), i);
}

llvm::Value* ExprEmitter::reverse(llvm::Value* v, int lanes) {
  std::vector<int> order;
  for (int i = lanes; i-- > 0;) order.push_back(i);
  return b_.CreateShuffleVector(v, order);
}

// Lanes at pointer + stride * lane, 2 <= stride <= 4: `stride` wide loads, the last of them moved back so
// that it ends at the last lane's element, merged by one two-input shuffle each. With a mask (or null) each
// load reads the elements of the lanes that it leaves.
llvm::Value* ExprEmitter::strided(llvm::Value* pointer, int64_t stride, Type t, llvm::Value* mask) {
  llvm::Type* scalar = storage_type(t.with_lanes(1));
  llvm::Type* vector = storage_type(t);
  const int64_t span = stride * (t.lanes - 1) + 1;
  llvm::Value* result = nullptr;
  for (int64_t part = 0; part < stride; ++part) {
    const int64_t begin = part == stride - 1 ? span - t.lanes : part * t.lanes;
    std::vector<int> pick, lane_of(static_cast<size_t>(t.lanes), t.lanes);  // lanes: of no lane
    for (int lane = 0; lane < t.lanes; ++lane) {
      const int64_t from = stride * lane;
      // Elements of earlier parts stay; what this part covers comes from it.
      const bool here = from >= begin && from < begin + t.lanes && from >= part * t.lanes;
      pick.push_back(here ? static_cast<int>(from - begin) + (result ? t.lanes : 0) : result ? lane : -1);
      if (here) lane_of[static_cast<size_t>(from - begin)] = lane;
    }
    llvm::Value* v = nullptr;
    if (mask) {
      llvm::Value* at = b_.CreateConstGEP1_64(scalar, pointer, static_cast<uint64_t>(begin));
      llvm::Value* wanted =
          b_.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), lane_of);
      v = b_.CreateMaskedLoad(vector, at, align_of(t.dtype), wanted, llvm::Constant::getNullValue(vector));
    } else {
      llvm::Value* at = b_.CreateConstInBoundsGEP1_64(scalar, pointer, static_cast<uint64_t>(begin));
      v = b_.CreateAlignedLoad(vector, at, align_of(t.dtype));
    }
    result = result ? b_.CreateShuffleVector(result, v, pick) : b_.CreateShuffleVector(v, pick);
  }
  return result;
}

// To pointer + stride * lane, 2 <= stride <= 4: `stride` wide stores, each of the lanes that fall into it and
// of nothing between. With a constant mask (or null).
void ExprEmitter::store_strided(llvm::Value* value, llvm::Value* pointer, int64_t stride, Type t,
                                llvm::Value* mask) {
  llvm::Type* scalar = storage_type(t.with_lanes(1));
  llvm::Value* all =
      mask ? mask : llvm::ConstantInt::getTrue(llvm::FixedVectorType::get(b_.getInt1Ty(), t.lanes));
  for (int64_t part = 0; part < stride; ++part) {
    std::vector<int> lane_of(static_cast<size_t>(t.lanes), t.lanes);  // lanes: of no lane
    std::vector<int> pick(static_cast<size_t>(t.lanes), -1);
    for (int64_t at = 0; at < t.lanes; ++at)
      if (const int64_t to = part * t.lanes + at; to % stride == 0)
        lane_of[static_cast<size_t>(at)] = pick[static_cast<size_t>(at)] = static_cast<int>(to / stride);
    llvm::Value* wanted = b_.CreateShuffleVector(all, llvm::Constant::getNullValue(all->getType()), lane_of);
    llvm::Value* at = b_.CreateConstGEP1_64(scalar, pointer, static_cast<uint64_t>(part * t.lanes));
    b_.CreateMaskedStore(b_.CreateShuffleVector(value, pick), at, align_of(t.dtype), wanted);
  }
}

llvm::Value* ExprEmitter::load(const Load& l, Type t) {
  NESTOR_CHECK(l.indices.size() <= 1) << "buffer " << l.buffer->name << " is not flat";
  if (llvm::AllocaInst* variable = element(l.buffer, l.indices))
    return b_.CreateLoad(value_type(t), variable);
  const Expr index = l.indices.empty() ? Expr(0) : l.indices[0];
  const llvm::Align align = align_of(t.dtype);
  llvm::Type* type = storage_type(t);
  llvm::Value* mask = l.mask ? emit(l.mask) : nullptr;
  llvm::Value* zero = llvm::Constant::getNullValue(type);
  const auto ramp = index.type().is_vector() ? as_ramp(index) : std::optional<RampForm>({index, 1});
  llvm::Value* v = nullptr;
  if (ramp && (ramp->stride == 1 || ramp->stride == -1)) {
    const bool backward = ramp->stride == -1;
    Expr base = backward ? ramp->base - (t.lanes - 1) : ramp->base;
    llvm::Value* p = address(l.buffer, base, !mask);
    if (mask && backward) mask = reverse(mask, t.lanes);
    // LLVM passes what a masked store wrote on to the next load, where that doesn't ask for zeros besides.
    llvm::Value* others = &l == accumulator_ ? llvm::PoisonValue::get(type) : zero;
    if (mask)
      v = b_.CreateMaskedLoad(type, p, align, mask, others);
    else
      v = b_.CreateAlignedLoad(type, p, align);
    if (backward) v = reverse(v, t.lanes);
  } else if (ramp && ramp->stride == 0 && !mask) {
    llvm::Value* one =
        b_.CreateAlignedLoad(storage_type(t.with_lanes(1)), address(l.buffer, ramp->base, true), align);
    v = splat(one, t.lanes);
  } else if (ramp && ramp->stride >= 2 && ramp->stride <= 4 && (!mask || llvm::isa<llvm::Constant>(mask))) {
    v = strided(address(l.buffer, ramp->base, !mask), ramp->stride, t, mask);
  } else {
    v = gather(l, t, mask);
  }
  return from_storage(v, t);
}

namespace {

constexpr int64_t kZeros = 64;

// How far apart an index is in successive iterations; nullopt where that isn't seen to be a number.
std::optional<int64_t> step_of(const Expr& index, const Var& v) {
  if (!uses_var(index, v)) return 0;
  if (index.as<VarRef>()) return 1;
  const auto* b = index.as<Binary>();
  if (!b) return std::nullopt;
  const auto x = step_of(b->a, v), y = step_of(b->b, v);
  if (!x || !y) return std::nullopt;
  if (b->op == BinaryOp::add) return *x + *y;
  if (b->op == BinaryOp::sub) return *x - *y;
  const auto factor = b->op == BinaryOp::mul ? as_int(b->b) : std::nullopt;
  return factor && std::abs(*factor) <= kZeros ? std::optional(*x * *factor) : std::nullopt;
}

}  // namespace

// From one of two places: a branch would cut a register tile's straight line in two. Which one is decided
// before the innermost loop where that is possible: then there are enough zeros for all its iterations.
llvm::Value* ExprEmitter::load_or_zero(const Load& l, const Expr& condition, Type t) {
  llvm::Value* cond = emit(condition);
  if (registers_.count(l.buffer)) {
    llvm::Value* v = load(l, t);
    return b_.CreateSelect(cond, v, llvm::Constant::getNullValue(v->getType()));
  }
  llvm::Module& m = *b_.GetInsertBlock()->getModule();
  llvm::Type* zeros = llvm::ArrayType::get(b_.getInt64Ty(), kZeros);
  llvm::GlobalVariable* zero = m.getGlobalVariable("zeros", true);
  if (!zero)
    zero = new llvm::GlobalVariable(m, zeros, true, llvm::GlobalValue::PrivateLinkage,
                                    llvm::Constant::getNullValue(zeros), "zeros");
  llvm::Type* type = storage_type(t);
  const auto from = [&](const Expr& index) {
    return b_.CreateSelect(cond, address(l.buffer, index, false), zero);
  };
  const Var& v = innermost_.var;
  const auto step = v && !uses_var(condition, v) ? step_of(l.indices[0], v) : std::nullopt;
  llvm::Value* p = nullptr;
  if (step.value_or(0) > 0 && *step * (innermost_.extent - 1) < kZeros)
    p = b_.CreateGEP(type, from(substitute(l.indices[0], VarMap{{v, 0}})),
                     b_.CreateMul(value_of(v), b_.getInt64(static_cast<uint64_t>(*step))));
  else
    p = from(l.indices[0]);
  return from_storage(b_.CreateAlignedLoad(type, p, align_of(t.dtype)), t);
}

namespace {

// The load of a masked `X[i] = X[i] op v`: its other lanes reach no lane that is stored. Null where the store
// is another.
const Load* accumulator_of(const Store& s) {
  if (!s.mask) return nullptr;
  Expr first;
  std::vector<Expr> rest;
  if (const auto* sum = s.value.as<Binary>()) {
    const BinaryOp op = sum->op;
    if (op != BinaryOp::add && op != BinaryOp::mul && op != BinaryOp::min && op != BinaryOp::max)
      return nullptr;
    first = sum->a;
    rest = {sum->b};
  } else if (const auto* c = s.value.as<Call>(); c && c->fn == Intrinsic::fma) {
    first = c->args[2];
    rest = {c->args[0], c->args[1]};
  }
  const Load* l = first ? first.as<Load>() : nullptr;
  const bool same = l && l->buffer == s.buffer && l->mask && structural_equal(l->mask, s.mask) &&
                    std::equal(l->indices.begin(), l->indices.end(), s.indices.begin(), s.indices.end(),
                               [](const Expr& a, const Expr& b) { return structural_equal(a, b); });
  const bool again =
      std::any_of(rest.begin(), rest.end(), [&](const Expr& e) { return uses_buffer(e, s.buffer); });
  return same && !again ? l : nullptr;
}

}  // namespace

void ExprEmitter::store(const Store& s) {
  NESTOR_CHECK(s.indices.size() <= 1) << "buffer " << s.buffer->name << " is not flat";
  const Type t = s.value.type();
  accumulator_ = accumulator_of(s);
  llvm::Value* value = emit(s.value);
  llvm::Value* mask = s.mask ? emit(s.mask) : nullptr;
  if (llvm::AllocaInst* variable = element(s.buffer, s.indices)) {
    if (mask) value = b_.CreateSelect(mask, value, b_.CreateLoad(value_type(t), variable));
    b_.CreateStore(value, variable);
    return;
  }
  value = to_storage(value, t);
  const Expr index = s.indices.empty() ? Expr(0) : s.indices[0];
  NESTOR_CHECK(index.type().is_vector() ? index.type().lanes == t.lanes : s.buffer->type.lanes == t.lanes)
      << t.lanes << " lanes stored to " << s.buffer->name;
  const llvm::Align align = align_of(t.dtype);
  const auto ramp = index.type().is_vector() ? as_ramp(index) : std::optional<RampForm>({index, 1});
  if (ramp && (ramp->stride == 1 || ramp->stride == -1)) {
    const bool backward = ramp->stride == -1;
    llvm::Value* p = address(s.buffer, backward ? ramp->base - (t.lanes - 1) : ramp->base, !mask);
    if (backward) value = reverse(value, t.lanes);
    if (backward && mask) mask = reverse(mask, t.lanes);
    if (mask) {
      b_.CreateMaskedStore(value, p, align, mask);
      return;
    }
    const auto bytes = static_cast<uint64_t>(t.lanes * bytes_of(t.dtype));
    const bool whole = bytes == 16 || bytes == 32 || bytes == 64;
    if (s.streaming && streaming_ && whole && !backward && is_multiple(ramp->base, t.lanes)) {
      llvm::Metadata* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
      b_.CreateAlignedStore(value, p, llvm::Align(bytes))
          ->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(b_.getContext(), one));
      return;
    }
    b_.CreateAlignedStore(value, p, align);
    return;
  }
  if (ramp && ramp->stride >= 2 && ramp->stride <= 4 && bytes_of(t.dtype) >= 4 && has_avx512() &&
      (!mask || llvm::isa<llvm::Constant>(mask))) {
    store_strided(value, address(s.buffer, ramp->base, !mask), ramp->stride, t, mask);
    return;
  }
  llvm::Value* at = b_.CreateGEP(storage_type(t.with_lanes(1)), base_of(s.buffer), emit(index));
  b_.CreateMaskedScatter(value, at, align, mask);
}

void ExprEmitter::prefetch(const Load& l, bool written) {
  if (registers_.count(l.buffer)) return;
  Expr index = l.indices.empty() ? Expr(0) : l.indices[0];
  if (index.type().is_vector()) {
    const auto ramp = as_ramp(index);
    if (!ramp) throw UserError("a prefetch of " + l.buffer->name + " at indices that are no ramp");
    index = ramp->base;
  }
  llvm::Value* p = address(l.buffer, index, false);
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {p->getType()},
                     {p, b_.getInt32(written ? 1 : 0), b_.getInt32(3), b_.getInt32(1)});
}

}  // namespace nestor
