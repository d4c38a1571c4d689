// An `if` around what its branches don't share.
#pragma once

#include "nestor/ir.h"

namespace nestor::passes {

// if (condition) yes else no. Statements that stand in both branches, at the same place, stand once; so do
// allocations of memory. The condition depends on nothing that either branch binds or stores.
//
//   if (c) { alloc T { A; B; C } } else { alloc T { A'; B; C' } }
//   ->  alloc T { if (c) A else A';  B;  if (c) C else C' }
Stmt join_branches(const Expr& condition, const Stmt& yes, const Stmt& no);

}  // namespace nestor::passes
