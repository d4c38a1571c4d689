// A parallel loop: its body is a function of its own, which the thread pool calls (llvm_func.cpp).
#include "llvm_captures.h"
#include "llvm_module.h"
#include "llvm_stmt.h"

namespace nestor {

void StmtEmitter::parallel(const Stmt& s, const For& f) {
  llvm::LLVMContext& c = b_.getContext();
  const Captures captures(f, expr_, k_.func.dims);
  std::vector<llvm::Value*> values = {workspace_};
  for (const Buffer& b : captures.buffers) values.push_back(expr_.base_of(b));
  for (const Var& v : captures.vars) values.push_back(expr_.value_of(v));
  std::vector<llvm::Type*> types;
  for (llvm::Value* v : values) types.push_back(v->getType());
  llvm::StructType* frame = llvm::StructType::get(c, types);
  llvm::AllocaInst* memory = in_entry(frame, 1, "captured");
  for (unsigned i = 0; i < values.size(); ++i)
    b_.CreateStore(values[i], b_.CreateStructGEP(frame, memory, i));

  llvm::Function* task = outline(s, f, captures, frame);
  llvm::Type *ptr = b_.getPtrTy(), *i32 = b_.getInt32Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, b_.getInt64Ty(), ptr, ptr, i32, i32}, false);
  const auto split = f.annotations.find("split"), threads = f.annotations.find("threads");
  const bool is_static = split != f.annotations.end() && split->second == Annotation("static");
  const auto* most = threads == f.annotations.end() ? nullptr : std::get_if<int64_t>(&threads->second);
  llvm::FunctionCallee run = k_.module.getOrInsertFunction("nestor_parallel", type);
  b_.CreateCall(run, {pool_, expr_.emit(f.extent), task, memory,
                      b_.getInt32(most ? static_cast<uint32_t>(*most) : 0), b_.getInt32(is_static)});
}

// The task of a parallel loop; returns it. See the head of llvm_func.cpp.
llvm::Function* StmtEmitter::outline(const Stmt& s, const For& f, const Captures& captures,
                                     llvm::StructType* frame) {
  const std::string name = kernel_symbol(k_.func.name) + ".par" + std::to_string(k_.tasks++);
  llvm::Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty(), *i32 = b_.getInt32Ty(), *none = b_.getVoidTy();
  std::vector<llvm::Type*> params = {i64, i64, i32};
  params.insert(params.end(), frame->element_begin(), frame->element_end());

  llvm::Function* body = new_function(k_, name + ".body", none, params, false);
  body->addFnAttr(llvm::Attribute::NoInline);
  StmtEmitter inner(k_, body);
  llvm::IRBuilder<>& b = inner.builder();
  unsigned arg = 3;
  llvm::Value* workspace = body->getArg(arg++);
  for (const Buffer& buffer : captures.buffers) {
    const Param* param = find_param(k_.func, buffer);
    mark_buffer(body, arg, param && param->role != Role::out);
    body->getArg(arg)->setName(buffer->name);
    inner.expr().bind(buffer, body->getArg(arg++));
  }
  for (const Var& v : captures.vars) {
    body->getArg(arg)->setName(v->name);
    inner.expr().bind(v, body->getArg(arg++), expr_.is_nonnegative(v));
  }
  llvm::Value* before =
      b.CreateMul(b.CreateSExt(body->getArg(2), i64), inner.expr().emit(k_.plan.worker_bytes));
  llvm::Value* offset = b.CreateAdd(before, inner.expr().emit(k_.plan.serial_bytes));
  inner.set_memory(workspace, nullptr, b.CreateInBoundsGEP(b.getInt8Ty(), workspace, offset));
  inner.stand_at(s);
  inner.by_alignment(f.body, [&] { inner.count(f.var, body->getArg(0), body->getArg(1), false, f.body); });
  b.CreateRetVoid();

  llvm::Function* task = new_function(k_, name, none, {ptr, i64, i64, i32}, false);
  llvm::IRBuilder<> t(llvm::BasicBlock::Create(k_.module.getContext(), "entry", task));
  std::vector<llvm::Value*> args = {task->getArg(1), task->getArg(2), task->getArg(3)};
  for (unsigned i = 0; i < frame->getNumElements(); ++i)
    args.push_back(t.CreateLoad(frame->getElementType(i), t.CreateStructGEP(frame, task->getArg(0), i)));
  t.CreateCall(body, args);
  t.CreateRetVoid();
  return task;
}

}  // namespace nestor
