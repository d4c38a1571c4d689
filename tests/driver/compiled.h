// What tests of default schedules begin with: a model compiled with every check on, and its functions held
// against the interpreter, the oracle and the proof.
#pragma once

#include <string>
#include <vector>

#include "nestor/driver.h"

namespace nestor {

CompileOptions checking_options(const Target& target);  // default schedules; lowering checks each pass
CompiledModel compiled(const std::string& spec, const Target& target);

// The machine's results are the interpreted lowered function's, bit for bit, and the oracle's within their
// bound.
void check_results(const CompiledFunction& f, const Target& target);
void check_proof(const CompiledFunction& f);

// Each function of the model's default; proved too where its tensors lie in blocks of channels.
void check_default(const std::string& spec, const Target& target, bool blocked_io = false);

// Whether the default schedule of the model's first function has the step, convolutions as inside a network.
bool default_has(const std::string& spec, const std::string& step, const Target& target,
                 bool exact_conv = false);

// This machine, with all work worth threads, and AVX2.
std::vector<Target> shared_targets();

}  // namespace nestor
