#include "src/codegen/artifact_writer.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>

#include "nestor/codegen.h"
#include "nestor/error.h"
#include "runtime/hash_rt.h"
#include "src/codegen/llvm_module.h"
#include "src/codegen/weights_section.h"

namespace nestor {

namespace {

const std::string kRuntimePrefix = "runtime.";

}  // namespace

ArtifactWriter::ArtifactWriter(llvm::Module& module, std::string name, const Tensor& weights,
                               bool written_out)
    : module_(module),
      name_(std::move(name)),
      b_(module.getContext()),
      weights_(weights),
      written_out_(written_out) {
  ptr_ = b_.getPtrTy();
  i32_ = b_.getInt32Ty();
  i64_ = b_.getInt64Ty();
}

llvm::Function* ArtifactWriter::define(const std::string& name, llvm::Type* result,
                                       const std::vector<llvm::Type*>& args) {
  auto* type = llvm::FunctionType::get(result, args, false);
  NESTOR_CHECK(!module_.getNamedValue(name)) << "the artifact has two of " << name;
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
  f->setDoesNotThrow();
  b_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", f));
  return f;
}

llvm::GlobalVariable* ArtifactWriter::data(const std::string& name, llvm::Constant* bytes) {
  auto* global =
      llvm::cast<llvm::GlobalVariable>(module_.getOrInsertGlobal("artifact." + name, bytes->getType()));
  global->setInitializer(bytes);
  global->setConstant(true);
  global->setLinkage(llvm::GlobalValue::InternalLinkage);
  return global;
}

llvm::Constant* ArtifactWriter::text(const std::string& s, const std::string& name) {
  return data(name, llvm::ConstantDataArray::getString(module_.getContext(), s));
}

// Weak: several objects linked into one program each bring one; a loader looks it up in its own artifact.
void ArtifactWriter::add_describe(const std::string& description) {
  llvm::Function* f = define("nestor_model_v2", ptr_, {});
  f->setLinkage(llvm::GlobalValue::WeakAnyLinkage);
  b_.CreateRet(text(description, "description"));
}

llvm::Constant* ArtifactWriter::weights_bytes() {
  const llvm::StringRef bytes(static_cast<const char*>(weights_.data()),
                              static_cast<size_t>(weights_.bytes()));
  if (written_out_) {
    auto* global = data("weights", llvm::ConstantDataArray::getRaw(bytes, bytes.size(), b_.getInt8Ty()));
    global->setAlignment(llvm::Align(kAlignment));
    return global;
  }
  const std::string symbol = "artifact.weights";
  module_.appendModuleInlineAsm(weights_section(symbol, bytes.size()));
  auto* global = new llvm::GlobalVariable(module_, b_.getInt8Ty(), true, llvm::GlobalValue::ExternalLinkage,
                                          nullptr, symbol);
  global->setVisibility(llvm::GlobalValue::HiddenVisibility);
  global->setDSOLocal(true);
  return global;
}

llvm::Constant* ArtifactWriter::weights_record(bool inside) {
  llvm::Constant* null = llvm::ConstantPointerNull::get(b_.getPtrTy());
  const auto bytes = static_cast<uint64_t>(weights_.bytes());
  const uint64_t hash = inside ? 0 : content_hash(weights_.data(), bytes);
  return data("weights_record",
              llvm::ConstantStruct::getAnon({inside && bytes > 0 ? weights_bytes() : null,
                                             inside ? null : text(name_ + ".weights", "weights_file"),
                                             b_.getInt64(bytes), b_.getInt64(hash)}));
}

llvm::Function* ArtifactWriter::runtime_function(const std::string& name) {
  llvm::Function* f = module_.getFunction(kRuntimePrefix + name);
  NESTOR_CHECK(f) << "the runtime has no " << name;
  return f;
}

llvm::Constant* ArtifactWriter::words(const std::vector<int64_t>& values, const std::string& name) {
  const std::vector<uint64_t> bits(values.begin(), values.end());
  return data(name, llvm::ConstantDataArray::get(module_.getContext(), bits));
}

void ArtifactWriter::add_destroy(const std::string& by) {
  llvm::Function* f = define(name_ + "_destroy", b_.getVoidTy(), {ptr_});
  b_.CreateCall(runtime_function(by), {f->getArg(0)});
  b_.CreateRetVoid();
}

void link_runtime(llvm::Module& module, llvm::TargetMachine& machine, const std::vector<const char*>& names) {
  const std::string arch = machine.getTargetTriple().getArchName().str();
  for (const char* part_name : names) {
    const std::string_view bytes = runtime_bitcode(part_name, arch);
    const llvm::MemoryBufferRef buffer(llvm::StringRef(bytes.data(), bytes.size()), part_name);
    auto part = llvm::parseBitcodeFile(buffer, module.getContext());
    NESTOR_CHECK(static_cast<bool>(part)) << "the runtime's bitcode: " << llvm::toString(part.takeError());
    (*part)->setDataLayout(module.getDataLayout());
    (*part)->setTargetTriple(module.getTargetTriple());
    NESTOR_CHECK(!llvm::Linker::linkModules(module, std::move(*part)))
        << "the runtime's bitcode doesn't link";
  }
}

void hide_all(llvm::Module& module) {
  for (llvm::GlobalValue& g : module.global_values()) {
    if (g.isDeclaration()) continue;
    g.setLinkage(llvm::GlobalValue::InternalLinkage);
    g.setVisibility(llvm::GlobalValue::DefaultVisibility);
    if (!g.getName().contains('.')) g.setName(kRuntimePrefix + g.getName().str());
  }
}

std::string finish_artifact(llvm::Module& module, llvm::TargetMachine& machine, ArtifactForm form) {
  llvm::ModuleAnalysisManager analyses;
  llvm::GlobalDCEPass().run(module, analyses);
  std::string why;
  llvm::raw_string_ostream words(why);
  NESTOR_CHECK(!llvm::verifyModule(module, &words)) << "the artifact's module: " << why;
  if (form == ArtifactForm::llvm) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    module.print(stream, nullptr);
    return out;
  }
  return emit_machine_code(module, machine, form == ArtifactForm::assembly);
}

}  // namespace nestor
