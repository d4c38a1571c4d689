// Statements to LLVM IR, inside of one LLVM function (llvm_func.cpp says which functions a kernel has).
//
// Non-temporal stores must be aligned, and a caller's tensors needn't be. So an outermost loop with such
// stores is emitted twice, and the addresses decide at run time which version runs.
#pragma once

#include <llvm/IR/Module.h>

#include <functional>
#include <string>
#include <vector>

#include "alloc_plan.h"
#include "llvm_expr.h"
#include "llvm_lines.h"
#include "nestor/ir.h"
#include "nestor/target.h"

namespace nestor {

class Captures;

// Shared by the kernel and the tasks made of its parallel loops.
struct KernelContext {
  const PrimFunc& func;
  const Target& target;
  llvm::Module& module;
  AllocPlan plan;
  LineTable* lines;  // null: none are wanted
  int tasks = 0;
};

llvm::Function* new_function(KernelContext& k, const std::string& name, llvm::Type* result,
                             const std::vector<llvm::Type*>& params, bool exported);
void mark_buffer(llvm::Function* f, unsigned arg, bool read_only);

// Emits statements into one LLVM function.
class StmtEmitter {
 public:
  StmtEmitter(KernelContext& k, llvm::Function* f)
      : k_(k), f_(f), b_(llvm::BasicBlock::Create(k.module.getContext(), "entry", f)), expr_(b_) {}

  llvm::IRBuilder<>& builder() { return b_; }
  ExprEmitter& expr() { return expr_; }
  // The workspace from its beginning, the pool, and, inside a task, the worker's slice.
  void set_memory(llvm::Value* workspace, llvm::Value* pool, llvm::Value* slice) {
    workspace_ = workspace;
    pool_ = pool;
    slice_ = slice;
  }
  void allocate(const BufferDecl& d);
  void stmt(const Stmt& s);
  void stand_at(const Stmt& s) {  // what is emitted now belongs to the line of s
    if (k_.lines) b_.SetCurrentDebugLocation(k_.lines->at(s, f_));
  }
  void count(const Var& var, llvm::Value* begin, llvm::Value* end, bool runs, const Stmt& body);
  // `emit` emits `body`; twice, where streaming stores in it may or may not be aligned.
  void by_alignment(const Stmt& body, const std::function<void()>& emit);

 private:
  void loop(const Stmt& s, const For& f);
  void parallel(const Stmt& s, const For& f);
  void node(const Stmt& s);
  void if_then(const If& i);
  llvm::AllocaInst* in_entry(llvm::Type* type, uint64_t count, const std::string& name);
  llvm::Function* outline(const Stmt& s, const For& f, const Captures& captures, llvm::StructType* frame);

  KernelContext& k_;
  llvm::Function* f_;
  llvm::IRBuilder<> b_;
  ExprEmitter expr_;
  llvm::Value *workspace_ = nullptr, *pool_ = nullptr, *slice_ = nullptr;
  bool alignment_known_ = false;  // or of no interest
};

}  // namespace nestor
