// Calls a machine instruction: LLVM's intrinsic, or a function that the description's text defines, which is
// inlined. The operands have the lanes that the description says. The called function may take registers with
// other element types (four u8 are one i32), so bits are reinterpreted; an operand that is narrower than the
// register is repeated in it.
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include "llvm_expr.h"
#include "nestor/error.h"
#include "nestor/instruction.h"

namespace nestor {

namespace {

// The function that the text defines, in this module from its first call on. Whatever else the text defines
// is its own: kernels may have such names.
llvm::Function* defined_by_text(const std::string& name, const std::string& text, llvm::Module& module) {
  const std::string here = "instruction." + name;
  if (llvm::Function* f = module.getFunction(here)) return f;
  const auto fail = [&](const std::string& why) {
    throw UserError("the text of the instruction " + name + why);
  };
  llvm::SMDiagnostic wrong;
  auto parsed = llvm::parseAssemblyString(text, wrong, module.getContext());
  if (!parsed) fail(", line " + std::to_string(wrong.getLineNo()) + ": " + wrong.getMessage().str());
  std::string why;
  llvm::raw_string_ostream out(why);
  if (llvm::verifyModule(*parsed, &out)) fail(": " + why);
  llvm::Function* f = parsed->getFunction(name);
  if (!f || f->isDeclaration()) fail(" doesn't define it");
  for (llvm::Function& each : *parsed)
    if (each.isDeclaration() && !each.isIntrinsic())
      fail(" calls @" + each.getName().str() +
           ", which it doesn't define and which isn't an intrinsic of LLVM");
  for (const llvm::User* user : f->users())
    if (llvm::isa<llvm::Instruction>(user)) fail(" calls itself");
  f->removeFnAttr(llvm::Attribute::NoInline);
  f->removeFnAttr(llvm::Attribute::OptimizeNone);
  f->setLinkage(llvm::Function::ExternalLinkage);
  for (llvm::GlobalObject& each : parsed->global_objects())
    if (&each != f && !each.isDeclaration()) each.setLinkage(llvm::Function::InternalLinkage);
  f->addFnAttr(llvm::Attribute::AlwaysInline);
  f->setName(here);
  parsed->setDataLayout(module.getDataLayout());
  parsed->setTargetTriple(module.getTargetTriple());
  NESTOR_CHECK(!llvm::Linker::linkModules(module, std::move(parsed)))
      << "LLVM can't link the text of " << name;
  f = module.getFunction(here);
  f->setLinkage(llvm::Function::InternalLinkage);
  return f;
}

llvm::Function* called(const std::string& name, llvm::Type* result, llvm::Module& module) {
  if (const std::string text = text_of(name, TargetKind::cpu); !text.empty())
    return defined_by_text(name, text, module);
  const llvm::Intrinsic::ID id = llvm::Function::lookupIntrinsicID(name);
  if (id == llvm::Intrinsic::not_intrinsic)
    throw UserError("LLVM " LLVM_VERSION_STRING " has no intrinsic " + name);
  std::vector<llvm::Type*> types;
  if (llvm::Intrinsic::isOverloaded(id)) types = {result};
  return llvm::Intrinsic::getDeclaration(&module, id, types);
}

uint64_t bits_of(llvm::Type* t) {
  const llvm::TypeSize bits = t->getPrimitiveSizeInBits();
  return bits.isScalable() ? 0 : bits.getFixedValue();  // of a length that the machine chooses: fits nothing
}

}  // namespace

llvm::Value* ExprEmitter::instruction(const Call& c, Type t) {
  llvm::Type* result = storage_type(t);
  llvm::Function* f = called(c.name, result, *b_.GetInsertBlock()->getModule());
  llvm::FunctionType* type = f->getFunctionType();
  if (type->getNumParams() != c.args.size())
    throw UserError(c.name + " takes " + std::to_string(type->getNumParams()) + " operands, not " +
                    std::to_string(c.args.size()));
  std::vector<llvm::Value*> args;
  for (unsigned i = 0; i < type->getNumParams(); ++i) {
    llvm::Type* wanted = type->getParamType(i);
    const Expr& e = c.args[i];
    if (const auto* imm = e.as<IntImm>(); imm && wanted->isIntegerTy()) {
      args.push_back(llvm::ConstantInt::get(wanted, static_cast<uint64_t>(imm->value)));
      continue;
    }
    llvm::Value* v = to_storage(emit(e), e.type());
    const uint64_t bits = bits_of(v->getType());
    if (bits == bits_of(wanted)) {
      args.push_back(b_.CreateBitCast(v, wanted));
    } else if (wanted->isVectorTy() && bits_of(wanted) % bits == 0) {
      llvm::Value* one = b_.CreateBitCast(v, b_.getIntNTy(static_cast<unsigned>(bits)));
      args.push_back(
          b_.CreateBitCast(b_.CreateVectorSplat(static_cast<unsigned>(bits_of(wanted) / bits), one), wanted));
    } else {
      throw UserError("operand " + std::to_string(i + 1) + " of " + c.name + " has " +
                      std::to_string(bits_of(wanted)) + " bits, and gets " +
                      std::to_string(bits_of(v->getType())));
    }
  }
  llvm::Value* value = b_.CreateCall(f, args);
  if (bits_of(value->getType()) != bits_of(result))
    throw UserError(c.name + " gives " + std::to_string(bits_of(value->getType())) + " bits, and " +
                    std::to_string(bits_of(result)) + " are wanted");
  return from_storage(b_.CreateBitCast(value, result), t);
}

}  // namespace nestor
