// A kernel NAME loads the argument pointers and calls NAME.body, in which each buffer is a parameter: LLVM
// uses `noalias` only on parameters. A parallel loop is outlined the same way: its task NAME.parN unpacks a
// struct of captured values and calls NAME.parN.body. The bodies are never inlined, because inlining would
// replace the parameters' `noalias` by metadata that is used less.
#include "llvm_func.h"

#include "llvm_module.h"
#include "llvm_stmt.h"
#include "llvm_strength.h"
#include "nestor/error.h"
#include "nestor/walk.h"

namespace nestor {

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
  if (has_open_strides(k.func)) f->addFnAttr(kOpenStrides);
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

namespace {

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
  KernelContext k{func, target, module, plan_allocs(func), lines};
  llvm::LLVMContext& c = module.getContext();
  llvm::Type *ptr = llvm::PointerType::getUnqual(c), *i32 = llvm::Type::getInt32Ty(c);

  const std::string symbol = kernel_symbol(func.name);
  llvm::Function* kernel = new_function(k, symbol, i32, {ptr, ptr, ptr}, true);
  std::vector<llvm::Type*> types(func.params.size() + 2, ptr);
  types.insert(types.end(), func.dims.size(), llvm::Type::getInt64Ty(c));
  llvm::Function* body = new_function(k, symbol + ".body", llvm::Type::getVoidTy(c), types, false);
  body->addFnAttr(llvm::Attribute::NoInline);
  llvm::IRBuilder<> shell(llvm::BasicBlock::Create(c, "entry", kernel));
  StmtEmitter emitter(k, body);
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
  if (!func.dims.empty()) {
    llvm::Type* i64 = llvm::Type::getInt64Ty(c);
    llvm::Value* dims = shell.CreateLoad(ptr, shell.CreateConstInBoundsGEP1_64(ptr, kernel->getArg(0), n));
    for (unsigned i = 0; i < func.dims.size(); ++i) {
      args.push_back(shell.CreateLoad(i64, shell.CreateConstInBoundsGEP1_64(i64, dims, i)));
      body->getArg(n + 2 + i)->setName(func.dims[i]->name);
      emitter.expr().bind(func.dims[i], body->getArg(n + 2 + i), true);
    }
  }
  shell.CreateCall(body, args);
  shell.CreateRet(shell.getInt32(0));

  emitter.set_memory(body->getArg(n), body->getArg(n + 1), nullptr);
  for (const BufferDecl& d : func.allocs) emitter.allocate(d);
  emitter.stmt(func.body);
  emitter.builder().CreateRetVoid();

  if (lines) lines->finish();
}

}  // namespace nestor
