// The code of an artifact. The kernels' module gets a few functions more: NAME_run follows the plan, in
// straight-line code or, where there are many calls, by a table of them; NAME_create and NAME_destroy are the
// runtime's (runtime/artifact_rt.c, linked in as bitcode), nestor_model_v2 says what it is. Everything else
// is internal, so that two artifacts in one process never see each other, and has a dot in its name, so that
// no model's name is the same.

#include "nestor/artifact.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>

#include "nestor/codegen.h"
#include "nestor/error.h"
#include "runtime/artifact_rt.h"
#include "runtime/hash_rt.h"
#include "src/codegen/llvm_module.h"
#include "src/codegen/weights_section.h"

namespace nestor {

namespace {

const std::string kRuntimePrefix = "runtime.";

// Writes the artifact's own functions into the kernels' module.
class ArtifactModule {
 public:
  // written_out: weights are text as the rest is.
  ArtifactModule(llvm::Module& module, const Plan& plan, std::string name, bool written_out)
      : module_(module),
        plan_(plan),
        name_(std::move(name)),
        written_out_(written_out),
        b_(module.getContext()) {
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
    NESTOR_CHECK(!module_.getNamedValue(name)) << "the artifact has two of " << name;
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
    llvm::Function* f = define("nestor_model_v2", ptr_, {});
    f->setLinkage(llvm::GlobalValue::WeakAnyLinkage);
    b_.CreateRet(text(description, "description"));
  }

  llvm::Constant* weights() {
    const llvm::StringRef bytes(static_cast<const char*>(plan_.weights.data()),
                                static_cast<size_t>(plan_.weights.bytes()));
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

  // struct nestor_weights of runtime/artifact_rt.h.
  llvm::Constant* weights_record(bool inside) {
    llvm::Constant* null = llvm::ConstantPointerNull::get(b_.getPtrTy());
    const auto bytes = static_cast<uint64_t>(plan_.weights.bytes());
    const uint64_t hash = inside ? 0 : content_hash(plan_.weights.data(), bytes);
    return data("weights_record",
                llvm::ConstantStruct::getAnon({inside && bytes > 0 ? weights() : null,
                                               inside ? null : text(name_ + ".weights", "weights_file"),
                                               b_.getInt64(bytes), b_.getInt64(hash)}));
  }

  void add_create(bool inside) {
    llvm::Function* f = define(name_ + "_create", ptr_, {ptr_});
    b_.CreateRet(b_.CreateCall(runtime_function("nestor_instance_create"),
                               {f->getArg(0), b_.getInt64(static_cast<uint64_t>(plan_.arena_bytes)),
                                b_.getInt64(static_cast<uint64_t>(plan_.workspace_bytes)),
                                b_.getInt32(static_cast<uint32_t>(plan_.threads)), weights_record(inside)}));
  }

  void add_destroy() {
    llvm::Function* f = define(name_ + "_destroy", b_.getVoidTy(), {ptr_});
    b_.CreateCall(runtime_function("nestor_instance_destroy"), {f->getArg(0)});
    b_.CreateRetVoid();
  }

  llvm::Function* runtime_function(const std::string& name) {
    llvm::Function* f = module_.getFunction(kRuntimePrefix + name);
    NESTOR_CHECK(f) << "the runtime has no " << name;
    return f;
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

  // int32_t NAME_run(instance, const void* const* inputs, void* const* outputs).
  void add_run() {
    llvm::Function* calls = add_all_calls();
    llvm::Function* run = define(name_ + "_run", i32_, {ptr_, ptr_, ptr_});
    b_.CreateRet(b_.CreateCall(runtime_function("nestor_instance_run"),
                               {run->getArg(0), calls, run->getArg(1), run->getArg(2)}));
  }

  llvm::Function* add_all_calls() {
    constexpr size_t kMostWritten = 128;
    llvm::Function* all = define("artifact.calls", i32_, {ptr_, ptr_, ptr_});
    all->setLinkage(llvm::GlobalValue::InternalLinkage);
    size_t most = 1;
    for (const PlanCall& call : plan_.calls) most = std::max(most, call.args.size());
    llvm::Value* args = b_.CreateAlloca(llvm::ArrayType::get(ptr_, most));
    if (plan_.calls.size() <= kMostWritten)
      write_calls(all, args);
    else
      b_.CreateRet(b_.CreateCall(runtime_function("nestor_run_table"),
                                 {all->getArg(0), all->getArg(1), all->getArg(2), call_table(), args}));
    return all;
  }

  llvm::Function* kernel(int index) {
    const std::string& kernel_name = plan_.kernels[static_cast<size_t>(index)];
    llvm::Function* f = module_.getFunction(kernel_symbol(kernel_name));
    NESTOR_CHECK(f) << "no kernel " << kernel_name;
    return f;
  }

  // struct nestor_call_table of runtime/artifact_rt.h.
  llvm::Constant* call_table() {
    static_assert(kCopy == NESTOR_CALL_COPY && kCheck == NESTOR_CALL_CHECK);
    std::vector<llvm::Constant*> kernels;
    for (size_t k = 0; k < plan_.kernels.size(); ++k) kernels.push_back(kernel(static_cast<int>(k)));
    std::vector<int64_t> words;
    for (const PlanCall& call : plan_.calls) {
      words.push_back(static_cast<int64_t>(call.args.size()) << 32 | static_cast<uint32_t>(call.kernel));
      for (const Place& p : call.args) words.push_back(p.at << 2 | region_number(p.region));
      if (call.kernel == kCopy) words.push_back(call.bytes);
    }
    const std::vector<uint64_t> bits(words.begin(), words.end());
    auto* pointers = llvm::ArrayType::get(ptr_, kernels.size());
    return data("table", llvm::ConstantStruct::getAnon(
                             {data("kernels", llvm::ConstantArray::get(pointers, kernels)),
                              data("words", llvm::ConstantDataArray::get(module_.getContext(), bits)),
                              b_.getInt64(plan_.calls.size())}));
  }

  static int64_t region_number(Region r) {
    switch (r) {
      case Region::input:
        return NESTOR_INPUT;
      case Region::output:
        return NESTOR_OUTPUT;
      case Region::arena:
        return NESTOR_ARENA;
      case Region::weights:
        return NESTOR_WEIGHTS;
    }
    return 0;
  }

  // The plan as straight-line code.
  void write_calls(llvm::Function* run, llvm::Value* args) {
    llvm::Value* pool = field(run->getArg(0), 0);  // struct nestor_instance of runtime/artifact_rt.c
    arena_ = field(run->getArg(0), 1);
    llvm::Value* workspace = field(run->getArg(0), 2);
    weights_ = field(run->getArg(0), 3);
    for (const PlanCall& call : plan_.calls) {
      if (call.kernel == kCheck) {
        llvm::Value* found = b_.CreateAlignedLoad(i32_, address(run, call.args[0]), llvm::MaybeAlign(1));
        return_if(run, b_.CreateICmpNE(found, b_.getInt32(0)), b_.getInt32(NESTOR_BAD_INDEX));
        continue;
      }
      if (call.kernel == kCopy) {
        b_.CreateMemCpy(address(run, call.args[1]), llvm::MaybeAlign(1), address(run, call.args[0]),
                        llvm::MaybeAlign(1), static_cast<uint64_t>(call.bytes));
        continue;
      }
      for (size_t i = 0; i < call.args.size(); ++i)
        b_.CreateStore(address(run, call.args[i]), b_.CreateConstInBoundsGEP1_64(ptr_, args, i));
      llvm::Value* rc = b_.CreateCall(kernel(call.kernel), {args, workspace, pool});
      return_if(run, b_.CreateICmpNE(rc, b_.getInt32(0)), rc);
    }
    b_.CreateRet(b_.getInt32(0));
  }

  void return_if(llvm::Function* run, llvm::Value* failed_here, llvm::Value* rc) {
    auto* failed = llvm::BasicBlock::Create(module_.getContext(), "failed", run);
    auto* next = llvm::BasicBlock::Create(module_.getContext(), "next", run);
    b_.CreateCondBr(failed_here, failed, next);
    b_.SetInsertPoint(failed);
    b_.CreateRet(rc);
    b_.SetInsertPoint(next);
  }

  llvm::Module& module_;
  const Plan& plan_;
  std::string name_;
  bool written_out_;
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

// What is there before the interface: kernels and runtime. A kernel's name has a dot already.
void hide_all(llvm::Module& module) {
  for (llvm::GlobalValue& g : module.global_values()) {
    if (g.isDeclaration()) continue;
    g.setLinkage(llvm::GlobalValue::InternalLinkage);
    g.setVisibility(llvm::GlobalValue::DefaultVisibility);
    if (!g.getName().contains('.')) g.setName(kRuntimePrefix + g.getName().str());
  }
}

}  // namespace

std::string emit_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                          const std::string& name, bool weights_inside, ArtifactForm form) {
  const auto machine = make_target_machine(target);
  llvm::LLVMContext context;
  const auto module = build_module(lowered, target, *machine, context);
  optimize_module(*module, *machine);
  link_runtime(*module, *machine);
  hide_all(*module);
  ArtifactModule(*module, plan, name, form < ArtifactForm::object)
      .add(artifact_description(plan, name, target), weights_inside);
  llvm::ModuleAnalysisManager analyses;
  llvm::GlobalDCEPass().run(*module, analyses);
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

}  // namespace nestor
