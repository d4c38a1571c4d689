// Gathers. A processor takes one element at a time (Zen 5: 22 cycles for 16), so where the places come from a
// table of i32, as the columns of a resized image do, it is found out at run time whether they lie close
// together from the first lane's on. Then one load or two take all elements around, and a permutation brings
// each where it belongs. X[row + i64(At[..])] with lanes of At at 5 5 6 6 7 7 8 8:
//
//   distances = At - 5; if all are below 16: permute(load(X + row + 5), distances); else gather
//
// Nothing behind the last element is read: the loads are masked.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "llvm_expr.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

// index = base + a vector of i32 that memory holds
struct TableIndex {
  Expr base, places;
};

std::optional<TableIndex> as_table_index(const Expr& index) {
  if (const auto* x = index.as<Broadcast>()) return TableIndex{x->a, {}};
  if (const auto* c = index.as<Cast>(); c && c->a.dtype() == DType::i32 && c->a.as<Load>())
    return TableIndex{Expr(0), c->a};
  const auto* sum = index.as<Binary>();
  if (!sum || sum->op != BinaryOp::add) return std::nullopt;
  const auto a = as_table_index(sum->a), b = as_table_index(sum->b);
  if (!a || !b || (a->places && b->places)) return std::nullopt;
  return TableIndex{a->base + b->base, a->places ? a->places : b->places};
}

}  // namespace

llvm::Value* ExprEmitter::gather(const Load& l, Type t, llvm::Value* mask) {
  const Expr& index = l.indices[0];
  llvm::Type* type = storage_type(t);
  const auto plain = [&] {
    llvm::Value* at = b_.CreateGEP(storage_type(t.with_lanes(1)), base_of(l.buffer), emit(index));
    return b_.CreateMaskedGather(type, at, llvm::Align(static_cast<uint64_t>(bytes_of(t.dtype))), mask,
                                 llvm::Constant::getNullValue(type));
  };
  const int native = has_avx512() ? 16 : has_feature("avx2") ? 8 : 0;
  const auto table = bytes_of(t.dtype) == 4 && t.lanes == native ? as_table_index(index) : std::nullopt;
  return table && table->places ? near_gather(l, t, mask, table->base, emit(table->places), plain) : plain();
}

llvm::Value* ExprEmitter::near_gather(const Load& l, Type t, llvm::Value* mask, const Expr& base,
                                      llvm::Value* places, const std::function<llvm::Value*()>& plain) {
  using namespace llvm::Intrinsic;
  llvm::Type* ints = places->getType();
  const auto all = [&](int64_t value) { return llvm::ConstantInt::getSigned(ints, value); };
  llvm::Value* first = b_.CreateExtractElement(places, uint64_t{0});
  llvm::Value* distances = b_.CreateSub(places, splat(first, t.lanes));
  // The last lane's must be the largest; lanes that are off count as before the first.
  llvm::Value* last = nullptr;
  if (mask) {
    distances = b_.CreateSelect(mask, distances, all(-1));
    last = b_.CreateIntMaxReduce(distances, true);
  } else {
    last = b_.CreateExtractElement(distances, static_cast<uint64_t>(t.lanes - 1));
  }
  llvm::Value* furthest = splat(last, t.lanes);
  const auto within = [&](int64_t parts) {
    llvm::Value* near =
        b_.CreateAnd(b_.CreateICmpULE(distances, furthest), b_.CreateICmpULT(furthest, all(parts * t.lanes)));
    return b_.CreateAndReduce(mask ? b_.CreateOr(near, b_.CreateNot(mask)) : near);
  };
  const auto from_parts = [&](int64_t parts) {
    llvm::Type* element = storage_type(t.with_lanes(1));
    llvm::Value* at = b_.CreateAdd(emit(base), b_.CreateSExt(first, b_.getInt64Ty()));
    llvm::Value* around = b_.CreateGEP(element, base_of(l.buffer), at);
    const auto part = [&](int64_t begin) {
      std::vector<llvm::Constant*> lanes;
      for (int i = 0; i < t.lanes; ++i) lanes.push_back(b_.getInt32(static_cast<uint32_t>(begin + i)));
      llvm::Value* wanted = b_.CreateICmpSLE(llvm::ConstantVector::get(lanes), furthest);
      llvm::Value* from = b_.CreateConstGEP1_64(element, around, static_cast<uint64_t>(begin));
      return b_.CreateMaskedLoad(ints, from, llvm::Align(4), wanted, all(0));
    };
    const auto one = t.lanes == 16 ? x86_avx512_permvar_si_512 : x86_avx2_permd;
    llvm::Value* out = nullptr;
    if (parts == 1) {
      out = b_.CreateIntrinsic(one, {}, {part(0), distances});
    } else if (t.lanes == 16) {
      out = b_.CreateIntrinsic(x86_avx512_vpermi2var_d_512, {}, {part(0), distances, part(t.lanes)});
    } else {
      out = b_.CreateSelect(b_.CreateICmpULT(distances, all(t.lanes)),
                            b_.CreateIntrinsic(one, {}, {part(0), distances}),
                            b_.CreateIntrinsic(one, {}, {part(t.lanes), distances}));
    }
    if (mask) out = b_.CreateSelect(mask, out, all(0));
    return b_.CreateBitCast(out, storage_type(t));
  };
  return branch_value(
      within(1), [&] { return from_parts(1); },
      [&] {
        return branch_value(
            within(2), [&] { return from_parts(2); }, plain, true);
      },
      true);
}

}  // namespace nestor
