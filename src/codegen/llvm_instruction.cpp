// A machine instruction by the name of LLVM's intrinsic. What comes is as the instruction's description laid
// it out, lane by lane; what the intrinsic takes are registers of perhaps other elements (four u8 are an
// i32), so bits are only named anew, and an operand that is narrower than the register is repeated in it.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "llvm_expr.h"
#include "nestor/error.h"

namespace nestor {

namespace {

uint64_t bits_of(llvm::Type* t) {
  return t->getPrimitiveSizeInBits().getFixedValue();
}

}  // namespace

llvm::Value* ExprEmitter::instruction(const Call& c, Type t) {
  const llvm::Intrinsic::ID id = llvm::Function::lookupIntrinsicID(c.name);
  if (id == llvm::Intrinsic::not_intrinsic)
    throw UserError("LLVM " LLVM_VERSION_STRING " has no intrinsic " + c.name);
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  llvm::Type* result = storage_type(t);
  std::vector<llvm::Type*> types;
  if (llvm::Intrinsic::isOverloaded(id)) types = {result};
  llvm::Function* f = llvm::Intrinsic::getDeclaration(module, id, types);
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
