// Golden cases of the passes. A case gives a function, perhaps a schedule, and the passes to run one after
// the other
// (`--- pass NAME`), or a whole pipeline (`--- lower TARGET`). Beyond the text, each result is well-formed
// and computes what its input computes.
#include "golden.h"

#include <cstring>

#include "catch.h"
#include "equivalent.h"
#include "nestor/check.h"
#include "nestor/nest_file.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/schedule.h"

using namespace nestor;

namespace {

Pass find_pass(const std::string& name) {
  for (TargetKind kind : {TargetKind::cpu, TargetKind::cuda})
    for (const Pass& p : pipeline(kind))
      if (name == p.name) return p;
  FAIL("no pass " << name);
  std::abort();
}

// Targets are spelled out, so that no case depends on the machine.
Target target_of(const std::string& name) {
  Target t;
  t.name = name;
  t.kind = name.starts_with("cuda") ? TargetKind::cuda : TargetKind::cpu;
  t.vector_bits = name == "x86-64-v3" ? 256 : 512;
  return t;
}

// Open sizes are 9, 10 ...
PrimFunc of_some_sizes(const PrimFunc& f) {
  VarMap sizes;
  for (const Var& d : f.dims) sizes[d] = Expr(static_cast<int64_t>(9 + sizes.size()));
  return with_dims(f, sizes);
}

std::string run(const GoldenCase& c) {
  PrimFunc f = parse_func(c.text("input"), "input");
  if (c.find("schedule")) f = apply(f, parse_trace(c.text("schedule"), "schedule"));
  const PrimFunc start = f;
  double tolerance = 0;
  for (const GoldenSection& s : c.sections) {
    if (s.kind == "lower") {
      LowerOptions options;
      options.check = true;
      f = lower(f, target_of(s.argument), options);
      tolerance = 1e-5;
    }
    if (s.kind != "pass") continue;
    const auto space = s.argument.find(' ');  // "pass vectorize x86-64-v3"
    const Pass p = find_pass(s.argument.substr(0, space));
    const bool cuda = s.argument.find("cuda") != std::string::npos;
    f = p.run(f, target_of(space == std::string::npos ? cuda ? "cuda" : "x86-64-v4"
                                                      : s.argument.substr(space + 1)));
    check_well_formed(f);
    if (!std::strcmp(p.name, "contract_fma") || !std::strcmp(p.name, "expand_math")) tolerance = 1e-5;
  }
  // Before its barriers are in, a kernel's threads don't compute what its text says from top to bottom.
  const bool threads = c.find("pass") && c.find("pass")->argument.starts_with("insert_barriers");
  if (!threads) check_equivalent(of_some_sizes(start), of_some_sizes(f), tolerance);
  return print(f);
}

}  // namespace

TEST_CASE("golden: passes") {
  run_golden_dir("passes", run);
}
