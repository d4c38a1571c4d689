// Artifacts. The kernels' module gets a few functions more: NAME_run follows the plan in straight-line code,
// NAME_create and NAME_destroy are the runtime's (runtime/artifact_rt.c, linked in as bitcode),
// nestor_model_v1 says what it is. Everything else is internal, so that two artifacts in one process never
// see each other.

#include "nestor/artifact.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/IPO/Internalize.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "nestor/codegen.h"
#include "nestor/error.h"
#include "nestor/files.h"
#include "src/codegen/link.h"
#include "src/codegen/llvm_module.h"

namespace nestor {

namespace {

constexpr int64_t kMostInside = int64_t{1} << 30;

// Writes the artifact's own functions into the kernels' module.
class ArtifactModule {
 public:
  ArtifactModule(llvm::Module& module, const Plan& plan, std::string name)
      : module_(module), plan_(plan), name_(std::move(name)), b_(module.getContext()) {
    ptr_ = b_.getPtrTy();
    i32_ = b_.getInt32Ty();
    i64_ = b_.getInt64Ty();
  }

  void add(const std::string& description, bool weights_inside) {
    add_describe(description);
    add_create(weights_inside);
    add_destroy();
    add_run();
  }

 private:
  llvm::Function* define(const std::string& name, llvm::Type* result, const std::vector<llvm::Type*>& args) {
    auto* type = llvm::FunctionType::get(result, args, false);
    auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
    f->setDoesNotThrow();
    b_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", f));
    return f;
  }

  llvm::GlobalVariable* data(const std::string& name, llvm::Constant* bytes) {
    auto* global =
        llvm::cast<llvm::GlobalVariable>(module_.getOrInsertGlobal("artifact." + name, bytes->getType()));
    global->setInitializer(bytes);
    global->setConstant(true);
    global->setLinkage(llvm::GlobalValue::InternalLinkage);
    return global;
  }

  llvm::Constant* text(const std::string& s, const std::string& name) {
    return data(name, llvm::ConstantDataArray::getString(module_.getContext(), s));
  }

  // Weak: several objects linked into one program each bring one; a loader looks it up in its own artifact.
  void add_describe(const std::string& description) {
    llvm::Function* f = define("nestor_model_v1", ptr_, {});
    f->setLinkage(llvm::GlobalValue::WeakAnyLinkage);
    b_.CreateRet(text(description, "description"));
  }

  llvm::Constant* weights() {
    const llvm::StringRef bytes(static_cast<const char*>(plan_.weights.data()),
                                static_cast<size_t>(plan_.weights.bytes()));
    auto* global = data("weights", llvm::ConstantDataArray::getRaw(bytes, bytes.size(), b_.getInt8Ty()));
    global->setAlignment(llvm::Align(kAlignment));
    return global;
  }

  void add_create(bool inside) {
    llvm::Function* f = define(name_ + "_create", ptr_, {ptr_});
    const auto create =
        module_.getOrInsertFunction("nestor_instance_create", ptr_, ptr_, i64_, i64_, i32_, ptr_, i64_, ptr_);
    const int64_t bytes = plan_.weights.bytes();
    llvm::Constant* null = llvm::ConstantPointerNull::get(b_.getPtrTy());
    b_.CreateRet(b_.CreateCall(
        create, {f->getArg(0), b_.getInt64(static_cast<uint64_t>(plan_.arena_bytes)),
                 b_.getInt64(static_cast<uint64_t>(plan_.workspace_bytes)),
                 b_.getInt32(static_cast<uint32_t>(plan_.threads)), inside && bytes > 0 ? weights() : null,
                 b_.getInt64(static_cast<uint64_t>(bytes)),
                 inside ? null : text(name_ + ".weights", "weights_file")}));
  }

  void add_destroy() {
    llvm::Function* f = define(name_ + "_destroy", b_.getVoidTy(), {ptr_});
    const auto destroy = module_.getOrInsertFunction("nestor_instance_destroy", b_.getVoidTy(), ptr_);
    b_.CreateCall(destroy, {f->getArg(0)});
    b_.CreateRetVoid();
  }

  llvm::Value* field(llvm::Value* base, int64_t index) {
    return b_.CreateLoad(ptr_, b_.CreateConstInBoundsGEP1_64(ptr_, base, static_cast<uint64_t>(index)));
  }

  llvm::Value* address(llvm::Function* run, const Place& p) {
    switch (p.region) {
      case Region::input:
        return field(run->getArg(1), p.at);
      case Region::output:
        return field(run->getArg(2), p.at);
      case Region::arena:
        return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), arena_, static_cast<uint64_t>(p.at));
      case Region::weights:
        return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), weights_, static_cast<uint64_t>(p.at));
    }
    return nullptr;
  }

  // int32_t NAME_run(instance, const void* const* inputs, void* const* outputs); of many calls by functions
  // of some each, since the time to compile one grows faster than its length.
  void add_run() {
    constexpr size_t kMostCalls = 128;
    const size_t count = plan_.calls.size();
    if (count <= kMostCalls) {
      add_calls(name_ + "_run", 0, count);
      return;
    }
    std::vector<llvm::Function*> parts;
    for (size_t at = 0; at < count; at += kMostCalls) {
      parts.push_back(
          add_calls(name_ + "_run_" + std::to_string(parts.size()), at, std::min(count, at + kMostCalls)));
      parts.back()->setLinkage(llvm::GlobalValue::InternalLinkage);
      parts.back()->addFnAttr(llvm::Attribute::NoInline);
    }
    llvm::Function* run = define(name_ + "_run", i32_, {ptr_, ptr_, ptr_});
    for (llvm::Function* part : parts)
      return_if_failed(run, b_.CreateCall(part, {run->getArg(0), run->getArg(1), run->getArg(2)}));
    b_.CreateRet(b_.getInt32(0));
  }

  // A function that makes calls [begin, end) of the plan.
  llvm::Function* add_calls(const std::string& name, size_t begin, size_t end) {
    llvm::Function* run = define(name, i32_, {ptr_, ptr_, ptr_});
    size_t most = 1;
    for (size_t c = begin; c < end; ++c) most = std::max(most, plan_.calls[c].args.size());
    llvm::Value* args = b_.CreateAlloca(llvm::ArrayType::get(ptr_, most));
    llvm::Value* pool = field(run->getArg(0), 0);  // struct nestor_instance of runtime/artifact_rt.h
    arena_ = field(run->getArg(0), 1);
    llvm::Value* workspace = field(run->getArg(0), 2);
    weights_ = field(run->getArg(0), 3);
    for (size_t c = begin; c < end; ++c) {
      const PlanCall& call = plan_.calls[c];
      if (call.kernel < 0) {
        b_.CreateMemCpy(address(run, call.args[1]), llvm::MaybeAlign(1), address(run, call.args[0]),
                        llvm::MaybeAlign(1), static_cast<uint64_t>(call.bytes));
        continue;
      }
      for (size_t i = 0; i < call.args.size(); ++i)
        b_.CreateStore(address(run, call.args[i]), b_.CreateConstInBoundsGEP1_64(ptr_, args, i));
      llvm::Function* kernel =
          module_.getFunction(kernel_symbol(plan_.kernels[static_cast<size_t>(call.kernel)]));
      NESTOR_CHECK(kernel) << "no kernel " << plan_.kernels[static_cast<size_t>(call.kernel)];
      return_if_failed(run, b_.CreateCall(kernel, {args, workspace, pool}));
    }
    b_.CreateRet(b_.getInt32(0));
    return run;
  }

  void return_if_failed(llvm::Function* run, llvm::Value* rc) {
    auto* failed = llvm::BasicBlock::Create(module_.getContext(), "failed", run);
    auto* next = llvm::BasicBlock::Create(module_.getContext(), "next", run);
    b_.CreateCondBr(b_.CreateICmpNE(rc, b_.getInt32(0)), failed, next);
    b_.SetInsertPoint(failed);
    b_.CreateRet(rc);
    b_.SetInsertPoint(next);
  }

  llvm::Module& module_;
  const Plan& plan_;
  std::string name_;
  llvm::IRBuilder<> b_;
  llvm::Type *ptr_ = nullptr, *i32_ = nullptr, *i64_ = nullptr;
  llvm::Value *arena_ = nullptr, *weights_ = nullptr;
};

void link_runtime(llvm::Module& module, llvm::TargetMachine& machine) {
  const std::string arch = machine.getTargetTriple().getArchName().str();
  for (const char* part_name : {"cpus_rt", "nodes_rt", "kernel_rt", "artifact_rt"}) {
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

void keep_only(llvm::Module& module, const std::string& name) {
  llvm::internalizeModule(module, [&](const llvm::GlobalValue& g) {
    const llvm::StringRef n = g.getName();
    return n == name + "_create" || n == name + "_run" || n == name + "_destroy" || n == "nestor_model_v1";
  });
  llvm::ModuleAnalysisManager analyses;
  llvm::GlobalDCEPass().run(module, analyses);
}

}  // namespace

std::string emit_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                          const std::string& name, bool weights_inside, ArtifactForm form) {
  const auto machine = make_target_machine(target);
  llvm::LLVMContext context;
  const auto module = build_module(lowered, target, *machine, context);
  optimize_module(*module, *machine);
  ArtifactModule(*module, plan, name).add(artifact_description(plan, name, target), weights_inside);
  link_runtime(*module, *machine);
  keep_only(*module, name);
  std::string why;
  llvm::raw_string_ostream words(why);
  NESTOR_CHECK(!llvm::verifyModule(*module, &words)) << "the artifact's module: " << why;
  if (form == ArtifactForm::llvm) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    module->print(stream, nullptr);
    return out;
  }
  return emit_machine_code(*module, *machine, form == ArtifactForm::assembly);
}

ArtifactFiles write_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                             const ArtifactOptions& options) {
  namespace fs = std::filesystem;
  const fs::path path(options.path);
  const std::string name = c_identifier(options.name.empty() ? path.stem().string() : options.name);
  const int64_t bytes = plan.weights.bytes();
  const bool inside = options.weights == WeightsPlace::inside ||
                      (options.weights == WeightsPlace::automatic && bytes <= kMostInside);
  if (inside && bytes > kMostInside)
    throw UserError("weights of " + std::to_string(bytes) +
                    " bytes don't fit inside the object: leave them beside it");

  ArtifactFiles files;
  files.object = path.string();
  const bool to_device = fs::exists(path) && !fs::is_regular_file(path);  // nothing can lie beside it
  if (to_device && !inside)
    throw UserError("weights of " + std::to_string(bytes) + " bytes would lie beside " + files.object +
                    ", which isn't a file: give a path in a folder");
  if (!to_device) files.header = fs::path(path).replace_extension(".h").string();
  if (files.header == files.object)
    throw UserError("the artifact " + files.object + " would overwrite its own header");
  if (!inside) files.weights = (path.parent_path() / (name + ".weights")).string();

  PendingFiles pending;  // opened before the work, so that a bad path fails at once
  const std::string object = pending.add(files.object);
  if (!to_device) pending.write(files.header, artifact_header(plan, name, target));
  if (!inside)
    pending.write(files.weights, {static_cast<const char*>(plan.weights.data()), static_cast<size_t>(bytes)});
  const std::string unlinked = object + ".o";
  struct Remove {
    const std::string& path;
    ~Remove() { std::remove(path.c_str()); }
  } remove{unlinked};
  {
    std::ofstream out(unlinked, std::ios::binary);
    out << emit_artifact(plan, lowered, target, name, inside, ArtifactForm::object);
    if (!out.flush()) throw UserError("can't write " + unlinked + ": " + std::strerror(errno));
  }
  link_shared(unlinked, object, path.filename().string(), target);
  files.object_bytes = static_cast<int64_t>(fs::file_size(object));
  files.weights_bytes = bytes;
  pending.commit();
  return files;
}

}  // namespace nestor
