// Statements to LLVM IR: one lowered function becomes a kernel of the ABI in codegen.h.
#pragma once

#include <llvm/IR/Module.h>

#include "nestor/ir.h"
#include "nestor/target.h"

namespace nestor {

class LineTable;

// Adds the kernel and what it calls to the module. UserError where the function isn't one for a CPU. With
// `lines`, a table of this function, every instruction knows the line it was made of.
void emit_function(const PrimFunc& lowered, const Target& target, llvm::Module& module,
                   LineTable* lines = nullptr);

}  // namespace nestor
