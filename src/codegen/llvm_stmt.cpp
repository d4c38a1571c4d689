#include "llvm_stmt.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <utility>

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

}  // namespace

llvm::AllocaInst* StmtEmitter::in_entry(llvm::Type* type, uint64_t count, const std::string& name) {
  llvm::BasicBlock& entry = f_->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  return at.CreateAlloca(type, at.getInt64(count), name);
}

void StmtEmitter::allocate(const BufferDecl& d) {
  const AllocSlot& slot = k_.plan.slots.at(d.buffer);
  const Type t = d.buffer->type;
  if (slot.place == Place::registers) {
    std::vector<llvm::AllocaInst*> elements;
    // What an iteration of a loop around the buffer left in it isn't for the next one. Unless LLVM is told,
    // it carries elements that are stored under conditions through all loops, in registers that tiles need.
    // (Not poison: where `a || b` is of lanes, b is read whatever a is.)
    for (int64_t i = 0; i < slot.elements; ++i) {
      llvm::Type* type = expr_.value_type(t);
      elements.push_back(in_entry(type, 1, d.buffer->name + std::to_string(i)));
      b_.CreateStore(llvm::UndefValue::get(type), elements.back());
    }
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
    expr_.bind(d.buffer, b_.CreateInBoundsGEP(b_.getInt8Ty(), base, expr_.emit(slot.offset)));
  }
}

void StmtEmitter::stmt(const Stmt& s) {
  const llvm::DebugLoc around = b_.getCurrentDebugLocation();
  stand_at(s);
  node(s);
  b_.SetCurrentDebugLocation(around);
}

void StmtEmitter::node(const Stmt& s) {
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

void StmtEmitter::loop(const Stmt& s, const For& f) {
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
  const auto around =
      expr_.set_innermost(extent ? ExprEmitter::Innermost{f.var, *extent} : ExprEmitter::Innermost{});
  count(f.var, b_.getInt64(0), expr_.emit(f.extent), extent.has_value(), f.body);
  expr_.set_innermost(around);
}

// for var in begin .. end-1. `runs`: it is known that begin < end. What the schedule left as a loop stays
// one.
void StmtEmitter::count(const Var& var, llvm::Value* begin, llvm::Value* end, bool runs, const Stmt& body) {
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

void StmtEmitter::by_alignment(const Stmt& body, const std::function<void()>& emit) {
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

void StmtEmitter::if_then(const If& i) {
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

}  // namespace nestor
