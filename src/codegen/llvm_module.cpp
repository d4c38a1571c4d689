// The LLVM passes are our own short list, not -O2. The schedule has already decided what is unrolled and
// vectorized, and in which order. LLVM does what a schedule can't say: register allocation, common
// subexpressions, loop-invariant code, control flow. The standard pipeline takes twice the time and undoes
// register tiles: it unrolls, and it shares broadcasts across a tile until they spill.
#include "llvm_module.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <mutex>

#include "llvm_addresses.h"
#include "llvm_broadcasts.h"
#include "llvm_constants.h"
#include "llvm_func.h"
#include "llvm_lines.h"
#include "llvm_masked_stores.h"
#include "llvm_offsets.h"
#include "llvm_pointers.h"
#include "llvm_strength.h"
#include "llvm_subtractions.h"
#include "nestor/codegen.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/print.h"

namespace nestor {

namespace {

// One run of instcombine needn't reach its fixpoint; by name alone it would insist on it.
constexpr const char* kHoist =
    "always-inline,function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(licm))";
constexpr const char* kMerge =
    "function(gvn<no-load-pre>,dse,instcombine<no-verify-fixpoint>,simplifycfg,adce)";

}  // namespace

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
  });
}

std::string kernel_symbol(const std::string& name) {
  return "kernel." + name;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target) {
  initialize_llvm();
  if (target.kind != TargetKind::cpu)
    throw UserError("LLVM code for " + target.name + "; use the CUDA emitter");
  std::string why;
  const llvm::Target* t = llvm::TargetRegistry::lookupTarget(target.triple, why);
  if (!t) throw UserError("this LLVM has no code generator for " + target.triple + ": " + why);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.ExceptionModel = llvm::ExceptionHandling::None;
  // The thread pool's thread-local flag, linked into artifacts, then needs no symbol of the dynamic linker.
  options.EnableTLSDESC = true;
  return std::unique_ptr<llvm::TargetMachine>(
      t->createTargetMachine(target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_, {},
                             llvm::CodeGenOptLevel::Default));
}

static std::unique_ptr<llvm::Module> empty_module(const Target& target, llvm::TargetMachine& machine,
                                                  llvm::LLVMContext& context) {
  auto module = std::make_unique<llvm::Module>("nestor", context);
  module->setTargetTriple(target.triple);
  module->setDataLayout(machine.createDataLayout());
  module->setPICLevel(llvm::PICLevel::BigPIC);
  return module;
}

// Once for all functions: for each one it would take time quadratic in their number.
static void verify(const llvm::Module& module) {
  std::string why;
  llvm::raw_string_ostream out(why);
  NESTOR_CHECK(!llvm::verifyModule(module, &out)) << "LLVM refuses the module: " << why;
}

std::unique_ptr<llvm::Module> build_module_with_lines(const PrimFunc& lowered, const Target& target,
                                                      llvm::TargetMachine& machine,
                                                      llvm::LLVMContext& context) {
  auto module = empty_module(target, machine, context);
  LineTable lines(*module, lowered);
  emit_function(lowered, target, *module, &lines);
  verify(*module);
  return module;
}

std::unique_ptr<llvm::Module> build_module(const std::vector<PrimFunc>& lowered, const Target& target,
                                           llvm::TargetMachine& machine, llvm::LLVMContext& context) {
  auto module = empty_module(target, machine, context);
  for (const PrimFunc& f : lowered) emit_function(f, target, *module);
  verify(*module);
  return module;
}

void optimize_module(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager passes;
  const auto add = [&](const char* list) {
    if (auto error = builder.parsePassPipeline(passes, list))
      throw InternalError("the LLVM pass list: " + llvm::toString(std::move(error)));
  };
  add(kHoist);
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(AddOffsetsLast()));
  add(kMerge);
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(ShareAddresses()));
  // AMD's cores keep a load in its multiply-add whatever its address.
  const std::string cpu = machine.getTargetCPU().str();
  if (machine.getTargetTriple().isX86() && !cpu.starts_with("znver")) {
    Target target;
    target.issue_width = issue_width(machine.getTargetTriple().str(), cpu);
    if (target.is_narrow()) passes.addPass(llvm::createModuleToFunctionPassAdaptor(SplitBroadcasts()));
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(WalkByPointers()));
  }
  const std::string features = machine.getTargetFeatureString().str();
  const auto has = [&](const char* feature) { return features.find(feature) != std::string::npos; };
  if (machine.getTargetTriple().isX86() && has("+avx"))
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(AddNegated()));
  if (machine.getTargetTriple().isX86() && has("+avx2") && !has("+avx512vl")) {
    passes.addPass(ConstantsInMemory());
    if (cpu.starts_with("znver"))
      passes.addPass(llvm::createModuleToFunctionPassAdaptor(SplitMaskedStores()));
  }
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(ReduceStrength()));
  passes.run(module, modules);
}

std::string emit_machine_code(llvm::Module& module, llvm::TargetMachine& machine, bool assembly) {
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  const auto type = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  without_strength_reduction([&] {
    NESTOR_CHECK(!machine.addPassesToEmitFile(passes, out, nullptr, type))
        << "LLVM can't emit code for this target";
  });
  passes.run(module);
  return std::string(bytes);
}

namespace {

std::string emit(const std::vector<PrimFunc>& lowered, const Target& target, bool assembly) {
  const auto machine = make_target_machine(target);
  llvm::LLVMContext context;
  const auto module = build_module(lowered, target, *machine, context);
  optimize_module(*module, *machine);
  return emit_machine_code(*module, *machine, assembly);
}

}  // namespace

std::string emit_llvm_ir(const std::vector<PrimFunc>& lowered, const Target& target, bool optimized) {
  const auto machine = make_target_machine(target);
  llvm::LLVMContext context;
  const auto module = build_module(lowered, target, *machine, context);
  if (optimized) optimize_module(*module, *machine);
  std::string text;
  llvm::raw_string_ostream out(text);
  module->print(out, nullptr);
  return text;
}

std::string emit_asm(const std::vector<PrimFunc>& lowered, const Target& target) {
  return emit(lowered, target, true);
}
std::vector<CodeLine> emit_asm_with_lines(const PrimFunc& lowered, const Target& target) {
  const auto machine = make_target_machine(target);
  llvm::LLVMContext context;
  const auto module = build_module_with_lines(parse_func(print(lowered)), target, *machine, context);
  optimize_module(*module, *machine);
  return parse_asm(emit_machine_code(*module, *machine, true), target);
}

std::string emit_object(const std::vector<PrimFunc>& lowered, const Target& target) {
  return emit(lowered, target, false);
}

}  // namespace nestor
