#include "llvm_lines.h"

#include <llvm/IR/Module.h>

namespace nestor {

LineTable::LineTable(llvm::Module& module, const PrimFunc& func)
    : builder_(module), file_(builder_.createFile("lowered.nest", ".")), printed_(print_with_spans(func)) {
  builder_.createCompileUnit(llvm::dwarf::DW_LANG_C, file_, "nestor", true, "", 0, "",
                             llvm::DICompileUnit::DebugEmissionKind::LineTablesOnly);
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
}

void LineTable::begin_function(llvm::Function* f) {
  llvm::DISubroutineType* type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  f->setSubprogram(
      builder_.createFunction(file_, f->getName(), "", file_, 1, type, 1, llvm::DINode::FlagZero,
                              llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagLocalToUnit));
}

llvm::DebugLoc LineTable::at(const Stmt& s, llvm::Function* f) const {
  const auto it = printed_.spans.find(s.get());
  if (it == printed_.spans.end() || !f->getSubprogram()) return {};
  return llvm::DILocation::get(f->getContext(), static_cast<unsigned>(it->second.line), 0,
                               f->getSubprogram());
}

}  // namespace nestor
