// How many micro-operations a core can issue per cycle, from LLVM's scheduling models. So it is known for
// other machines too, and needs no table of our own.
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "llvm_module.h"

namespace nestor {

namespace {

int read_issue_width(const std::string& triple, const std::string& cpu) {
  const int kUnknown = Target().issue_width;
  // x86-64 cores whose window holds no more than this rename 4 micro-operations a cycle. Of Skylake's server
  // cores, which are among them, LLVM tells the width of the decoders (6).
  constexpr unsigned kNarrowWindow = 224, kNarrow = 4;
  if (cpu.empty() || cpu == "generic" || cpu.starts_with("x86-64")) return kUnknown;
  initialize_llvm();
  std::string why;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!target) return kUnknown;
  // The name is asked for after the fact: given to the constructor, an unknown one is complained of.
  const std::unique_ptr<llvm::MCSubtargetInfo> any(target->createMCSubtargetInfo(triple, "", ""));
  if (!any || !any->isCPUStringValid(cpu)) return kUnknown;
  const llvm::MCSchedModel& model = any->getSchedModelForCPU(cpu);
  if (!model.isOutOfOrder()) return kUnknown;  // also that there is no model
  const bool narrow = target->getName() == std::string("x86-64") && model.MicroOpBufferSize <= kNarrowWindow;
  return static_cast<int>(narrow ? std::min(model.IssueWidth, kNarrow) : model.IssueWidth);
}

}  // namespace

int issue_width(const std::string& triple, const std::string& cpu) {
  static std::mutex lock;
  static std::map<std::pair<std::string, std::string>, int> known;
  const std::lock_guard guard(lock);
  const auto [at, added] = known.try_emplace({triple, cpu}, 0);
  if (added) at->second = read_issue_width(triple, cpu);
  return at->second;
}

}  // namespace nestor
