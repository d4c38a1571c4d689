// Tensorized tiles: the steps that make one, in a row.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "nestor/schedule.h"

namespace nestor {

// Those of instructions.nest, which steps then know by their names: for replays too.
void read_fuzz_instructions();

// Steps that bring a block to the form of an instruction, one by one, and at last `tensorize`; empty where no
// instruction is near. `gpu`: only instructions of CUDA and expansions, else only LLVM's; on a GPU a warp's
// loops are bound too.
std::vector<std::string> plan_tensorize(const Schedule& s, const std::string& focus, bool cpu, bool gpu,
                                        std::mt19937_64& rng);

}  // namespace nestor
