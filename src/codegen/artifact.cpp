// The code of an artifact: the module of the kernels, with a few more functions. NAME_run follows the plan,
// as straight-line code or, if there are many calls or jumps among them, by a table of them. NAME_create and
// NAME_destroy call the runtime (runtime/artifact_rt.c, linked in as bitcode), and nestor_model_v2 returns
// the description.

#include "nestor/artifact.h"

#include <fmt/format.h>

#include "nestor/codegen.h"
#include "nestor/error.h"
#include "runtime/artifact_rt.h"
#include "runtime/call_words.h"
#include "src/codegen/artifact_writer.h"
#include "src/codegen/llvm_module.h"

namespace nestor {

namespace {

// Of runtime/features_rt.h, those that the target has.
uint64_t needed_features(const Target& target) {
  const std::string on = "," + target.features + ",";
  const bool x86 = target.arch() == "x86_64";
  const nestor_feature* first =
      x86 ? std::begin(nestor_x86_64_features) : std::begin(nestor_aarch64_features);
  const nestor_feature* end = x86 ? std::end(nestor_x86_64_features) : std::end(nestor_aarch64_features);
  uint64_t needed = 0;
  for (const nestor_feature* f = first; f != end; ++f)
    if (on.find(fmt::format(",+{},", f->name)) != std::string::npos) needed |= uint64_t{1} << (f - first);
  return needed;
}

// Writes the artifact's own functions into the kernels' module.
class ArtifactModule : public ArtifactWriter {
 public:
  ArtifactModule(llvm::Module& module, const Plan& plan, const std::string& name, bool written_out,
                 const Target& target)
      : ArtifactWriter(module, name, plan.weights, written_out), plan_(plan), target_(target) {}

  void add(const std::string& description, bool weights_inside) {
    add_describe(description);
    add_create(weights_inside);
    add_destroy("nestor_instance_destroy");
    add_run();
    if (plan_.sizes.any()) add_fit();
  }

 private:
  void add_create(bool inside) {
    llvm::Function* f = define(name_ + "_create", ptr_, {ptr_});
    b_.CreateRet(b_.CreateCall(runtime_function("nestor_instance_create"),
                               {f->getArg(0), b_.getInt64(static_cast<uint64_t>(plan_.arena_bytes)),
                                b_.getInt64(static_cast<uint64_t>(plan_.workspace_bytes)),
                                b_.getInt32(static_cast<uint32_t>(plan_.threads)), weights_record(inside),
                                needs_record(), sizes_record()}));
  }

  // Functions of the header for sizes that runs decide.
  void add_fit() {
    llvm::Function* fit = define(name_ + "_fit", i32_, {ptr_, ptr_, ptr_});
    b_.CreateRet(b_.CreateCall(runtime_function("nestor_instance_fit"),
                               {fit->getArg(0), fit->getArg(1), fit->getArg(2)}));
    llvm::Function* use = define(name_ + "_use_memory", i32_, {ptr_, ptr_, i64_});
    b_.CreateRet(b_.CreateCall(runtime_function("nestor_instance_use_memory"),
                               {use->getArg(0), use->getArg(1), use->getArg(2)}));
    if (plan_.sizes.made != plan_.sizes.outputs) {
      llvm::Function* made =
          define(name_ + "_made", llvm::Type::getVoidTy(module_.getContext()), {ptr_, ptr_});
      b_.CreateCall(runtime_function("nestor_instance_made"), {made->getArg(0), made->getArg(1)});
      b_.CreateRetVoid();
    }
    llvm::Function* why = define(name_ + "_why", ptr_, {ptr_});
    b_.CreateRet(b_.CreateCall(runtime_function("nestor_instance_why"), {why->getArg(0)}));
    llvm::Function* size = define(name_ + "_memory_size", i64_, {ptr_});
    b_.CreateRet(b_.CreateCall(runtime_function("nestor_memory_size"), {sizes_record(), size->getArg(0)}));
  }

  llvm::Constant* records(const std::vector<llvm::Constant*>& all, const std::string& name) {
    if (all.empty()) return llvm::ConstantPointerNull::get(b_.getPtrTy());
    return data(name, llvm::ConstantArray::get(llvm::ArrayType::get(all[0]->getType(), all.size()), all));
  }
  llvm::Constant* record(const std::string& said, const std::string& name,
                         const std::vector<int64_t>& numbers) {
    std::vector<llvm::Constant*> fields;
    if (!name.empty()) fields.push_back(text(said, name));
    for (const int64_t n : numbers) fields.push_back(b_.getInt64(static_cast<uint64_t>(n)));
    return llvm::ConstantStruct::getAnon(fields);
  }

  // struct nestor_sizes of runtime/sizes_rt.h; null where all are known.
  llvm::Constant* sizes_record() {
    const PlanSizes& s = plan_.sizes;
    if (!s.any()) return llvm::ConstantPointerNull::get(b_.getPtrTy());
    if (sizes_) return sizes_;
    std::vector<llvm::Constant*> symbols, checks, requirements, arena;
    const auto name = [](const char* kind, size_t i) { return kind + std::to_string(i); };
    for (const PlanSymbol& x : s.symbols)
      symbols.push_back(record(x.what, name("symbol", symbols.size()), {x.least, x.most, x.place}));
    for (const PlanSizes::Check& x : s.checks)
      checks.push_back(record(x.what, name("check", checks.size()), {x.place, x.number}));
    for (const PlanSizes::Requirement& x : s.requirements)
      requirements.push_back(record(x.text, name("requirement", requirements.size()), {x.number, x.after}));
    for (const PlanSizes::InArena& x : s.arena) arena.push_back(record("", "", {x.bytes, x.first, x.last}));
    llvm::Function* kernel = module_.getFunction(kernel_symbol(s.kernel));
    NESTOR_CHECK(kernel) << "no kernel " << s.kernel;
    std::vector<llvm::Constant*> fields = {kernel,
                                           records(symbols, "symbols"),
                                           records(checks, "checks"),
                                           records(requirements, "requirements"),
                                           records(arena, "in_arena"),
                                           words(s.workspaces, "workspaces"),
                                           words(s.outputs, "output_dims"),
                                           words(s.made, "made_dims")};
    for (const size_t n : {static_cast<size_t>(s.numbers), symbols.size(), checks.size(), requirements.size(),
                           arena.size(), s.workspaces.size(), s.outputs.size()})
      fields.push_back(b_.getInt64(n));
    return sizes_ = data("sizes", llvm::ConstantStruct::getAnon(fields));
  }

  // struct nestor_needs of runtime/features_rt.h.
  llvm::Constant* needs_record() {
    return data("needs", llvm::ConstantStruct::getAnon(
                             {b_.getInt64(needed_features(target_)),
                              text(target_.name == "native" ? target_.cpu : target_.name, "target")}));
  }

  llvm::Value* field(llvm::Value* base, int64_t index) {
    return b_.CreateLoad(ptr_, b_.CreateConstInBoundsGEP1_64(ptr_, base, static_cast<uint64_t>(index)));
  }

  llvm::Value* number(llvm::Value* list, int64_t index) {
    return b_.CreateLoad(i64_, b_.CreateConstInBoundsGEP1_64(i64_, list, static_cast<uint64_t>(index)));
  }

  llvm::Value* address(llvm::Function* run, const Place& p) {
    switch (p.region) {
      case Region::input:
        return field(run->getArg(1), p.at);
      case Region::output:
        return field(run->getArg(2), p.at);
      case Region::arena:
        if (plan_.sizes.any()) return b_.CreateInBoundsGEP(b_.getInt8Ty(), arena_, number(offsets_, p.at));
        return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), arena_, static_cast<uint64_t>(p.at));
      case Region::sizes:
        return b_.CreateConstInBoundsGEP1_64(i64_, numbers_, static_cast<uint64_t>(p.at));
      case Region::weights:
        return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), weights_, static_cast<uint64_t>(p.at));
      case Region::moving:
        break;  // of plans that jump, which aren't written out
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
    const auto room = [&](int64_t count) {
      return b_.CreateAlloca(llvm::ArrayType::get(ptr_, static_cast<uint64_t>(count)));
    };
    llvm::Value* args = room(most_args(plan_));
    if (plan_.calls.size() <= kMostWritten && !has_jumps(plan_))
      write_calls(all, args);
    else
      b_.CreateRet(b_.CreateCall(
          runtime_function("nestor_run_table"),
          {all->getArg(0), all->getArg(1), all->getArg(2), call_table(), args, room(plan_.pointers)}));
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
    std::vector<llvm::Constant*> kernels;
    for (size_t k = 0; k < plan_.kernels.size(); ++k) kernels.push_back(kernel(static_cast<int>(k)));
    auto* pointers = llvm::ArrayType::get(ptr_, kernels.size());
    const std::vector<int64_t> calls = call_words(plan_);
    return data("table",
                llvm::ConstantStruct::getAnon({data("kernels", llvm::ConstantArray::get(pointers, kernels)),
                                               words(calls, "words"), b_.getInt64(calls.size())}));
  }

  // The plan as straight-line code.
  void write_calls(llvm::Function* run, llvm::Value* args) {
    llvm::Value* pool = field(run->getArg(0), 0);  // struct nestor_instance of runtime/artifact_rt.c
    arena_ = field(run->getArg(0), 1);
    llvm::Value* workspace = field(run->getArg(0), 2);
    weights_ = field(run->getArg(0), 3);
    numbers_ = field(run->getArg(0), 4);
    offsets_ = field(run->getArg(0), 5);
    for (const PlanCall& call : plan_.calls) {
      if (call.kernel == kCheck) {
        llvm::Value* found = b_.CreateAlignedLoad(i32_, address(run, call.args[0]), llvm::MaybeAlign(1));
        return_if(run, b_.CreateICmpNE(found, b_.getInt32(0)), b_.getInt32(NESTOR_BAD_INDEX));
        continue;
      }
      if (call.kernel == kCopy) {
        llvm::Value* bytes = call.bytes_at < 0 ? b_.getInt64(static_cast<uint64_t>(call.bytes))
                                               : number(numbers_, call.bytes_at);
        b_.CreateMemCpy(address(run, call.args[1]), llvm::MaybeAlign(1), address(run, call.args[0]),
                        llvm::MaybeAlign(1), bytes);
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

  const Plan& plan_;
  const Target& target_;
  llvm::Value *arena_ = nullptr, *weights_ = nullptr, *numbers_ = nullptr, *offsets_ = nullptr;
  llvm::Constant* sizes_ = nullptr;
};

}  // namespace

std::string emit_artifact(const Plan& plan, const std::vector<PrimFunc>& lowered, const Target& target,
                          const std::string& name, bool weights_inside, ArtifactForm form) {
  const auto machine = make_target_machine(target);
  llvm::LLVMContext context;
  const auto module = build_module(lowered, target, *machine, context);
  optimize_module(*module, *machine);
  link_runtime(*module, *machine,
               {"features_rt", "cpus_rt", "nodes_rt", "kernel_rt", "weights_rt", "sizes_rt", "artifact_rt"});
  hide_all(*module);
  ArtifactModule(*module, plan, name, form < ArtifactForm::object, target)
      .add(artifact_description(plan, name, target), weights_inside);
  return finish_artifact(*module, *machine, form);
}

}  // namespace nestor
