// Expressions to LLVM IR, into whatever block the builder stands in.
//
// Values: an f16 or bf16 is held as a float that it represents exactly and rounded after each operation; a
// bool is an i1 and lies in memory as a byte. A vector is an LLVM vector. No fast-math flags anywhere: what
// the interpreter computes is what the machine computes, bit for bit (NaNs may differ in sign and payload).
//
// Where C leaves a result open, this defines it, and the interpreter agrees:
//  - float to integer truncates and saturates; NaN becomes 0.
//  - integer division by zero gives 0, its remainder too (the interpreter reports it); the lowest integer
//    divided by -1 wraps.
//  - integer arithmetic wraps; `/ % < min max shr` and casts are those of the type's sign.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "nestor/ir.h"

namespace nestor {

inline bool is_half(DType t) {
  return t == DType::f16 || t == DType::bf16;
}

class ExprEmitter {
 public:
  ExprEmitter(llvm::IRBuilder<>& builder) : b_(builder) {}

  llvm::Value* emit(const Expr& e);
  void store(const Store& s);
  // The line comes as this core's own where it will be written.
  void prefetch(const Load& l, bool written);

  // What a variable or buffer stands for. `value` of a let allows to see a ramp through it.
  void bind(const Var& v, llvm::Value* value, bool nonnegative, Expr let = {});
  void bind(const Buffer& b, llvm::Value* base) { memory_[b] = base; }
  void bind_registers(const Buffer& b, std::vector<llvm::AllocaInst*> elements) {
    registers_[b] = std::move(elements);
  }
  llvm::Value* value_of(const Var& v) const;
  llvm::Value* base_of(const Buffer& b) const;  // InternalError for one in registers
  bool is_bound(const Var& v) const { return vars_.count(v) != 0; }
  bool has_memory(const Buffer& b) const { return memory_.count(b) != 0; }
  // From now on streaming stores bypass the caches, if whole vectors lie at multiples of their size from a
  // buffer's beginning; the caller has seen to it that buffers begin at multiples of 64 bytes.
  // The loop around, of a known extent; 0 where it isn't known.
  struct Innermost {
    Var var;
    int64_t extent;
  };
  Innermost set_innermost(const Innermost& loop) { return std::exchange(innermost_, loop); }
  void allow_streaming(bool allowed) { streaming_ = allowed; }
  bool is_nonnegative(const Expr& e) const;  // an i64, provably by its form

  llvm::Type* value_type(Type t) const;
  llvm::Type* storage_type(Type t) const;

 private:
  // index = base + stride * lane
  struct RampForm {
    Expr base;
    int64_t stride;
  };
  // llvm_expr.cpp
  llvm::Value* splat(llvm::Value* v, int lanes);
  llvm::Value* select(const Select& s, Type t);
  llvm::Value* lazy_logical(const Binary& b);
  llvm::Value* reduce(const VectorReduce& r);
  llvm::Value* fold_lanes(llvm::Value* v, Type t,
                          const std::function<llvm::Value*(llvm::Value*, llvm::Value*, Type)>& combine);
  llvm::Value* let(const Let& l);
  llvm::Value* branch_value(llvm::Value* cond, const std::function<llvm::Value*()>& then_value,
                            const std::function<llvm::Value*()>& else_value, bool likely = false);
  // llvm_arith.cpp
  llvm::Value* binary(const Binary& b);
  llvm::Value* combine(BinaryOp op, llvm::Value* x, llvm::Value* y, Type t);
  llvm::Value* compare(BinaryOp op, llvm::Value* x, llvm::Value* y, DType t);
  llvm::Value* divide(const Binary& b, llvm::Value* x, llvm::Value* y);
  llvm::Value* safe_divide(bool remainder, bool truncate, llvm::Value* x, llvm::Value* y, Type t);
  llvm::Value* call(const Call& c, Type t);
  llvm::Value* math_library(const Call& c, Type t);
  llvm::Value* instruction(const Call& c, Type t);
  llvm::Value* fma(llvm::Value* x, llvm::Value* y, llvm::Value* z, Type t);
  // llvm_extremum.cpp
  llvm::Value* beyond(BinaryOp op, llvm::Value* x, llvm::Value* y, DType t);
  llvm::Value* extremum(BinaryOp op, llvm::Value* x, llvm::Value* y, DType t);
  llvm::Value* nans_of(llvm::Value* x, llvm::Value* else_);
  bool never_nan(llvm::Value* v) const;
  llvm::Value* reduce_extremum(BinaryOp op, const Expr& e);
  // llvm_cast.cpp
  llvm::Value* convert(const Cast& c, Type to);
  llvm::Value* cast(llvm::Value* v, Type from, Type to);
  llvm::Value* truncate(llvm::Value* v, Type to);
  llvm::Value* truncate_bounded(const Cast& c, Type to);
  llvm::Value* round_half(llvm::Value* v, DType t);
  llvm::Value* extend_half(llvm::Value* v);  // an f16 as it lies in memory
  llvm::Value* narrow_double(llvm::Value* v, DType t);
  // llvm_machine.cpp
  bool is_x86() const;
  bool has_feature(const std::string& name) const;  // of the function: "avx512dq"
  bool has_avx512() const;
  llvm::Value* lookup(const std::vector<llvm::Value*>& args);
  llvm::Value* scalef(llvm::Value* x, llvm::Value* n);
  llvm::Value* nearest_i32(llvm::Value* x);
  // llvm_gather.cpp
  llvm::Value* gather(const Load& l, Type t, llvm::Value* mask);
  llvm::Value* near_gather(const Load& l, Type t, llvm::Value* mask, const Expr& base, llvm::Value* places,
                           const std::function<llvm::Value*()>& plain);
  // llvm_memory.cpp
  llvm::Value* load(const Load& l, Type t);
  llvm::Value* load_or_zero(const Load& l, const Expr& condition, Type t);  // 0 where it doesn't hold
  llvm::Value* from_storage(llvm::Value* v, Type t);
  llvm::Value* to_storage(llvm::Value* v, Type t);
  llvm::Value* strided(llvm::Value* pointer, int64_t stride, Type t, llvm::Value* mask);
  void store_strided(llvm::Value* value, llvm::Value* pointer, int64_t stride, Type t, llvm::Value* mask);
  std::optional<RampForm> as_ramp(const Expr& index) const;
  llvm::Value* address(const Buffer& b, const Expr& scalar_index, bool inbounds);
  llvm::Value* reverse(llvm::Value* v, int lanes);
  llvm::AllocaInst* element(const Buffer& b, const std::vector<Expr>& indices);

  struct Binding {
    llvm::Value* value;
    bool nonnegative;
    Expr let;
  };
  llvm::IRBuilder<>& b_;
  bool streaming_ = false;
  Innermost innermost_{};
  const Load* accumulator_ = nullptr;  // of the store that is emitted
  std::vector<const Cast*> narrowed_;  // casts to i32 of which at most 16 bits are wanted
  std::unordered_map<Var, Binding> vars_;
  std::unordered_map<Buffer, llvm::Value*> memory_;
  std::unordered_map<Buffer, std::vector<llvm::AllocaInst*>> registers_;
};

// True where evaluating e, though its value isn't wanted, could read outside a buffer or cost a call.
bool must_be_lazy(const Expr& e);

}  // namespace nestor
