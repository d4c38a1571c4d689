#include "tests/driver/compiled.h"

#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/proof.h"

namespace nestor {

CompileOptions checking_options(const Target& target) {
  CompileOptions options;
  options.target = target;
  options.schedules = default_schedules();
  options.lowering.check = true;
  return options;
}

CompiledModel compiled(const std::string& spec, const Target& target) {
  return compile_model(spec, checking_options(target));
}

Target to_run(const Target& scheduled_for) {
  return runs_here(scheduled_for) ? scheduled_for : host_target();
}

void check_results(const CompiledFunction& f, const Target& scheduled_for) {
  const Target target = to_run(scheduled_for);
  // An instruction's order of adding up is its own.
  const bool own_order = print(f.choice.trace).find("vdpbf16ps") != std::string::npos;
  for (const Against against : {Against::lowered, Against::oracle}) {
    if (against == Against::lowered && own_order) continue;
    for (const OutputCheck& c : check_function(f, against, target)) {
      INFO(f.func.name << " for " << target.name << ": " << describe(c.comparison, c.name, c.want));
      CHECK(c.comparison.ok());
    }
  }
}

void check_proof(const CompiledFunction& f) {
  const Proof proof = verify_schedule(f.func, f.scheduled, {.seconds = 60});
  INFO(proof.reason);
  CHECK(proof.ok());
}

void check_default(const std::string& spec, const Target& target, bool blocked_io) {
  INFO(spec);
  CompileOptions options = checking_options(target);
  options.blocked_io = blocked_io;
  for (const CompiledFunction& f : compile_model(spec, options).funcs) {
    if (blocked_io) check_proof(f);
    check_results(f, target);
  }
}

namespace {

Trace default_of(const std::string& spec, const Target& target, bool exact_conv, bool blocked_io = true) {
  CompileOptions options;
  options.target = target;
  options.blocked_io = blocked_io;
  options.exact_conv = exact_conv;
  return default_schedule(partition_model(load(spec), options).partition.funcs[0], target);
}

}  // namespace

std::string default_text(const std::string& spec, const Target& target, bool blocked_io) {
  return print(default_of(spec, target, false, blocked_io));
}

bool default_has(const std::string& spec, const std::string& step, const Target& target, bool exact_conv) {
  return print(default_of(spec, target, exact_conv)).find(step) != std::string::npos;
}

bool default_says(const std::string& spec, const std::string& text, const Target& target) {
  std::string why;
  for (const auto& step : default_of(spec, target, false).steps) why += step.why + "\n";
  return why.find(text) != std::string::npos;
}

void check_scheduled_for(const std::string& spec, const Target& target) {
  INFO(spec << " for " << target.name);
  for (const CompiledFunction& f : compiled(spec, target).funcs) check_results(f, host_target());
}

Target with_l2(const std::string& name, int64_t bytes) {
  Target t = parse_target(name);
  t.l1_bytes = 48 << 10;
  t.l1_ways = 12;
  t.l2_bytes = bytes;
  t.l3_bytes = 32 << 20;
  return t;
}

Target with_far_l3(const std::string& name, int64_t l2_bytes) {
  Target t = with_l2(name, l2_bytes);
  t.l3_bytes = 480 << 20;
  t.l3_bytes_per_cycle = 4;
  t.cores = 1;
  return t;
}

std::vector<Target> shared_targets() {
  Target shares_all = host_target();
  shares_all.parallel_us = 0;
  return {shares_all, parse_target("x86-64-v3")};
}

}  // namespace nestor
