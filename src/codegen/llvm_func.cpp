// A kernel NAME is a shell that loads the argument pointers and calls NAME.body, where each buffer is a
// parameter of its own: that is the one place where LLVM believes `noalias`. A parallel loop is outlined the
// same way: its task NAME.parN unpacks a struct of captured values and calls NAME.parN.body. The bodies are
// never inlined, since inlining would trade the parameters for metadata.
//
// Stores past the caches must be aligned, and nobody promises that a caller's tensors are: an outermost loop
// that holds such stores is emitted twice, and which of the two runs is decided by the addresses.
#include "llvm_func.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "alloc_plan.h"
#include "llvm_captures.h"
#include "llvm_expr.h"
#include "llvm_lines.h"
#include "llvm_module.h"
#include "nestor/error.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

bool has_parallel(const Stmt& s) {
  bool found = false;
  for_each_stmt(s, [&](const Stmt& inner) {
    const auto* f = inner.as<For>();
    found = found || (f && f->kind == ForKind::parallel);
  });
  return found;
}

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
                             const std::vector<llvm::Type*>& params, bool exported) {
  auto* type = llvm::FunctionType::get(result, params, false);
  const auto linkage = exported ? llvm::Function::ExternalLinkage : llvm::Function::InternalLinkage;
  NESTOR_CHECK(!k.module.getFunction(name)) << "two functions are called " << name;
  llvm::Function* f = llvm::Function::Create(type, linkage, name, k.module);
  f->setDoesNotThrow();
  if (k.lines && !exported && name.ends_with(".body")) k.lines->begin_function(f);
  f->addFnAttr("target-cpu", k.target.cpu);
  f->addFnAttr("target-features", k.target.features);
  // A loop that copies or clears stays the loop that was scheduled.
  f->addFnAttr("no-builtins");
  const std::string width = std::to_string(k.target.vector_bits);
  f->addFnAttr("min-legal-vector-width", width);
  f->addFnAttr("prefer-vector-width", width);
  return f;
}

// No alignment is claimed: it gains nothing on today's machines, and a caller's tensor may lie anywhere.
void mark_buffer(llvm::Function* f, unsigned arg, bool read_only) {
  f->addParamAttr(arg, llvm::Attribute::NoAlias);
  if (read_only) f->addParamAttr(arg, llvm::Attribute::ReadOnly);
}

// Emits statements into one LLVM function.
class Emitter {
 public:
  Emitter(KernelContext& k, llvm::Function* f)
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

llvm::AllocaInst* Emitter::in_entry(llvm::Type* type, uint64_t count, const std::string& name) {
  llvm::BasicBlock& entry = f_->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  return at.CreateAlloca(type, at.getInt64(count), name);
}

void Emitter::allocate(const BufferDecl& d) {
  const AllocSlot& slot = k_.plan.slots.at(d.buffer);
  const Type t = d.buffer->type;
  if (slot.place == Place::registers) {
    std::vector<llvm::AllocaInst*> elements;
    for (int64_t i = 0; i < slot.elements; ++i)
      elements.push_back(in_entry(expr_.value_type(t), 1, d.buffer->name + std::to_string(i)));
    expr_.bind_registers(d.buffer, std::move(elements));
  } else if (slot.place == Place::stack) {
    const int64_t scalars = std::max<int64_t>(slot.elements * t.lanes, 1);
    llvm::AllocaInst* memory =
        in_entry(expr_.storage_type(t.with_lanes(1)), static_cast<uint64_t>(scalars), d.buffer->name);
    memory->setAlignment(llvm::Align(64));
    expr_.bind(d.buffer, memory);
  } else {
    llvm::Value* base = slot.place == Place::serial ? workspace_ : slice_;
    NESTOR_CHECK(base) << "no workspace for " << d.buffer->name;
    expr_.bind(d.buffer,
               b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, static_cast<uint64_t>(slot.offset)));
  }
}

void Emitter::stmt(const Stmt& s) {
  const llvm::DebugLoc around = b_.getCurrentDebugLocation();
  stand_at(s);
  node(s);
  b_.SetCurrentDebugLocation(around);
}

void Emitter::node(const Stmt& s) {
  match(
      s,
      [&](const Seq& q) {
        for (const Stmt& c : q.stmts) stmt(c);
      },
      [&](const For& f) { loop(s, f); }, [&](const Store& st) { expr_.store(st); },
      [&](const If& i) { if_then(i); },
      [&](const Alloc& a) {
        allocate(a.decl);
        stmt(a.body);
      },
      [&](const LetStmt& l) {
        expr_.bind(l.var, expr_.emit(l.value), expr_.is_nonnegative(l.value), l.value);
        stmt(l.body);
      },
      [&](const Evaluate& e) {
        const auto* call = e.call.as<Call>();
        if (call && call->fn == Intrinsic::prefetch) {
          const auto* l = call->args[0].as<Load>();
          NESTOR_CHECK(l) << "a prefetch of something that isn't a load";
          const Param* p = find_param(k_.func, l->buffer);
          expr_.prefetch(*l, p && p->role == Role::out);
          return;
        }
        if (call && call->fn == Intrinsic::sync) throw UserError("`sync` needs a cuda target");
        throw InternalError("an expression evaluated for no effect");
      },
      [](const Block&) { throw InternalError("a block in a lowered function"); },
      [](const Update&) { throw InternalError("an update in a lowered function"); });
}

void Emitter::loop(const Stmt& s, const For& f) {
  switch (f.kind) {
    case ForKind::thread:
      throw UserError("loop " + f.var->name + " is bound to " + name_of(f.thread) +
                      ", which needs a cuda target");
    case ForKind::vectorized:
    case ForKind::unrolled:
      throw InternalError("loop " + f.var->name + " is not lowered");
    case ForKind::parallel:
      if (!slice_) return parallel(s, f);
      break;
    case ForKind::serial:
      break;
  }
  const auto extent = as_int(f.extent);
  if (extent && *extent <= 0) return;
  if (!alignment_known_ && (slice_ || !has_parallel(f.body)))
    return by_alignment(f.body, [&] { loop(s, f); });
  if (extent && *extent == 1) {
    expr_.bind(f.var, b_.getInt64(0), true, Expr(0));
    return stmt(f.body);
  }
  count(f.var, b_.getInt64(0), expr_.emit(f.extent), extent.has_value(), f.body);
}

// for var in begin .. end-1. `runs`: it is known that begin < end. What the schedule left as a loop stays
// one.
void Emitter::count(const Var& var, llvm::Value* begin, llvm::Value* end, bool runs, const Stmt& body) {
  llvm::LLVMContext& c = b_.getContext();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* block = llvm::BasicBlock::Create(c, var->name, f_);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(c, var->name + ".end", f_);
  if (runs)
    b_.CreateBr(block);
  else
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), block, after);
  b_.SetInsertPoint(block);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2, var->name);
  i->addIncoming(begin, before);
  expr_.bind(var, i, true);
  stmt(body);
  llvm::Value* next = b_.CreateAdd(i, b_.getInt64(1), "", true, true);
  i->addIncoming(next, b_.GetInsertBlock());
  llvm::BranchInst* back = b_.CreateCondBr(b_.CreateICmpSLT(next, end), block, after);
  const auto flag = [&](const char* name) -> llvm::Metadata* {
    return llvm::MDNode::get(c, llvm::MDString::get(c, name));
  };
  llvm::Metadata* no_vectorize[] = {llvm::MDString::get(c, "llvm.loop.vectorize.enable"),
                                    llvm::ConstantAsMetadata::get(b_.getFalse())};
  llvm::Metadata* items[] = {nullptr, flag("llvm.loop.unroll.disable"), llvm::MDNode::get(c, no_vectorize)};
  llvm::MDNode* id = llvm::MDNode::getDistinct(c, items);
  id->replaceOperandWith(0, id);
  back->setMetadata(llvm::LLVMContext::MD_loop, id);
  b_.SetInsertPoint(after);
}

void Emitter::by_alignment(const Stmt& body, const std::function<void()>& emit) {
  std::vector<Buffer> streamed;
  for_each_stmt(body, [&](const Stmt& s) {
    const auto* st = s.as<Store>();
    if (!st || !st->streaming || !expr_.has_memory(st->buffer)) return;
    if (std::find(streamed.begin(), streamed.end(), st->buffer) == streamed.end())
      streamed.push_back(st->buffer);
  });
  const bool known = std::exchange(alignment_known_, true);
  if (streamed.empty()) {
    emit();
  } else {
    llvm::LLVMContext& c = b_.getContext();
    llvm::Value* bits = b_.getInt64(0);
    for (const Buffer& b : streamed)
      bits = b_.CreateOr(bits, b_.CreatePtrToInt(expr_.base_of(b), b_.getInt64Ty()));
    llvm::Value* aligned = b_.CreateICmpEQ(b_.CreateAnd(bits, b_.getInt64(63)), b_.getInt64(0));
    llvm::BasicBlock* yes = llvm::BasicBlock::Create(c, "aligned", f_);
    llvm::BasicBlock* no = llvm::BasicBlock::Create(c, "unaligned", f_);
    llvm::BasicBlock* after = llvm::BasicBlock::Create(c, "streamed", f_);
    b_.CreateCondBr(aligned, yes, no);
    b_.SetInsertPoint(yes);
    expr_.allow_streaming(true);
    emit();
    // What other threads see after the loop includes what has bypassed the caches.
    if (k_.target.arch() == "x86_64") b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
    b_.CreateBr(after);
    b_.SetInsertPoint(no);
    expr_.allow_streaming(false);
    emit();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }
  alignment_known_ = known;
}

void Emitter::if_then(const If& i) {
  llvm::LLVMContext& c = b_.getContext();
  llvm::BasicBlock* then_block = llvm::BasicBlock::Create(c, "if", f_);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(c, "if.end", f_);
  llvm::BasicBlock* else_block = i.else_case ? llvm::BasicBlock::Create(c, "if.else", f_, after) : after;
  b_.CreateCondBr(expr_.emit(i.cond), then_block, else_block);
  b_.SetInsertPoint(then_block);
  stmt(i.then_case);
  b_.CreateBr(after);
  if (i.else_case) {
    b_.SetInsertPoint(else_block);
    stmt(i.else_case);
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
}

void Emitter::parallel(const Stmt& s, const For& f) {
  llvm::LLVMContext& c = b_.getContext();
  const Captures captures(f, expr_);
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

// The task of a parallel loop; returns it. See the head of this file.
llvm::Function* Emitter::outline(const Stmt& s, const For& f, const Captures& captures,
                                 llvm::StructType* frame) {
  const std::string name = kernel_symbol(k_.func.name) + ".par" + std::to_string(k_.tasks++);
  llvm::Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty(), *i32 = b_.getInt32Ty(), *none = b_.getVoidTy();
  std::vector<llvm::Type*> params = {i64, i64, i32};
  params.insert(params.end(), frame->element_begin(), frame->element_end());

  llvm::Function* body = new_function(k_, name + ".body", none, params, false);
  body->addFnAttr(llvm::Attribute::NoInline);
  Emitter inner(k_, body);
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
  llvm::Value* before = b.CreateMul(b.CreateSExt(body->getArg(2), i64),
                                    b.getInt64(static_cast<uint64_t>(k_.plan.worker_bytes)));
  llvm::Value* offset = b.CreateAdd(before, b.getInt64(static_cast<uint64_t>(k_.plan.serial_bytes)));
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

// LLVM would call functions that no library here has.
void require_half(const PrimFunc& func, const Target& target) {
  if (target.arch() != "x86_64" || target.has_feature("f16c")) return;
  bool used = false;
  for (const auto& [buffer, decl] : declarations(func)) used = used || buffer->type.dtype == DType::f16;
  for_each_expr(func.body, [&](const Expr& e) { used = used || e.dtype() == DType::f16; });
  if (used)
    throw UserError(Diagnostic{"function " + func.name + " computes with f16, for which " + target.name +
                                   " has no conversions (F16C)",
                               {},
                               {},
                               "use f32 or bf16, or --target x86-64-v3"});
}

}  // namespace

void emit_function(const PrimFunc& func, const Target& target, llvm::Module& module, LineTable* lines) {
  require_half(func, target);
  if (!func.dims.empty())
    throw UserError("function " + func.name +
                    " has symbolic dimensions; give them values before compiling it");
  KernelContext k{func, target, module, plan_allocs(func), lines};
  llvm::LLVMContext& c = module.getContext();
  llvm::Type *ptr = llvm::PointerType::getUnqual(c), *i32 = llvm::Type::getInt32Ty(c);

  const std::string symbol = kernel_symbol(func.name);
  llvm::Function* kernel = new_function(k, symbol, i32, {ptr, ptr, ptr}, true);
  llvm::Function* body = new_function(k, symbol + ".body", llvm::Type::getVoidTy(c),
                                      std::vector<llvm::Type*>(func.params.size() + 2, ptr), false);
  body->addFnAttr(llvm::Attribute::NoInline);
  llvm::IRBuilder<> shell(llvm::BasicBlock::Create(c, "entry", kernel));
  Emitter emitter(k, body);
  std::vector<llvm::Value*> args;
  for (unsigned i = 0; i < func.params.size(); ++i) {
    const Param& p = func.params[i];
    args.push_back(shell.CreateLoad(ptr, shell.CreateConstInBoundsGEP1_64(ptr, kernel->getArg(0), i)));
    mark_buffer(body, i, p.role != Role::out);
    body->getArg(i)->setName(p.decl.buffer->name);
    emitter.expr().bind(p.decl.buffer, body->getArg(i));
  }
  const auto n = static_cast<unsigned>(func.params.size());
  mark_buffer(body, n, false);
  args.insert(args.end(), {kernel->getArg(1), kernel->getArg(2)});
  shell.CreateCall(body, args);
  shell.CreateRet(shell.getInt32(0));

  emitter.set_memory(body->getArg(n), body->getArg(n + 1), nullptr);
  for (const BufferDecl& d : func.allocs) emitter.allocate(d);
  emitter.stmt(func.body);
  emitter.builder().CreateRetVoid();

  if (lines) lines->finish();
  std::string text;
  llvm::raw_string_ostream out(text);
  NESTOR_CHECK(!llvm::verifyModule(module, &out)) << "LLVM refuses " << func.name << ": " << text;
}

}  // namespace nestor
