// Copies in two steps, through the registers of a thread.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "nestor/ir.h"

namespace nestor::schedules {

struct Halves {
  std::vector<BufferDecl> registers;
  std::vector<Stmt> loads, stores;  // of the copies, in their order
};

// `copies` are nests of blocks that each store once. What a block stores, its loads put into registers, one
// for each iteration of the nest's loops and of the one around; its stores, which keep the block's name, take
// it from there. Names that are made join `taken`. Extents of the loops are constant.
Halves through_registers(const std::vector<Stmt>& copies, const For& around, std::set<std::string>& taken);

}  // namespace nestor::schedules
