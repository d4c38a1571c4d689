// The start of tests of default schedules: a model compiled with every check on, and its functions compared
// with the interpreter, the oracle and the proof.
#pragma once

#include <string>
#include <vector>

#include "nestor/driver.h"

namespace nestor {

CompileOptions checking_options(const Target& target);  // default schedules; lowering checks each pass
CompiledModel compiled(const std::string& spec, const Target& target);

// What to generate code for, to run schedules for a target: this machine where it can't run the target's
// code.
Target to_run(const Target& scheduled_for);

// The machine's results are the interpreted lowered function's, bit for bit, and the oracle's within their
// bound.
void check_results(const CompiledFunction& f, const Target& scheduled_for);
void check_proof(const CompiledFunction& f);

// Each function of the model's default; proved too where its tensors lie in blocks of channels.
void check_default(const std::string& spec, const Target& target, bool blocked_io = false);

// The default schedule of the model's first function.
std::string default_text(const std::string& spec, const Target& target, bool blocked_io);

// Whether the default schedule of the model's first function has the step, convolutions as inside a network.
bool default_has(const std::string& spec, const std::string& step, const Target& target,
                 bool exact_conv = false);

// Whether a reason for one of that schedule's steps says so.
bool default_says(const std::string& spec, const std::string& text, const Target& target);

// The default schedules for `target`, run on this machine.
void check_scheduled_for(const std::string& spec, const Target& target);

// A portable target with a second-level cache of so many bytes, a first of 48 KB and a third of 32 MB; and
// the same with a third level that is spread over a large chip.
Target with_l2(const std::string& name, int64_t bytes);
Target with_far_l3(const std::string& name, int64_t l2_bytes);

// This machine, with all work worth threads, and AVX2.
std::vector<Target> shared_targets();

}  // namespace nestor
