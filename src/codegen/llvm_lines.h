// From machine code back to the loop nest: LLVM debug locations whose lines are those of the printed lowered
// function. They cost nothing and change no instruction (a test compares), but they are only made when
// someone wants to look.
#pragma once

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>

#include "nestor/print.h"

namespace nestor {

class LineTable {
 public:
  // `func` must hold no node twice, as a parsed function does: a node has one line.
  LineTable(llvm::Module& module, const PrimFunc& func);

  // Makes f one whose instructions have lines.
  void begin_function(llvm::Function* f);
  // The place of a statement in f; null where it has none.
  llvm::DebugLoc at(const Stmt& s, llvm::Function* f) const;
  void finish() { builder_.finalize(); }

 private:
  llvm::DIBuilder builder_;
  llvm::DIFile* file_;
  Printed printed_;
};

}  // namespace nestor
