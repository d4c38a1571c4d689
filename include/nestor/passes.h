// Lowering: from a scheduled function to flat loops over flat memory with vector expressions, by the passes listed in
// src/passes/pipeline.cpp. What comes out still prints, parses, checks and interprets.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nestor/ir.h"
#include "nestor/target.h"

namespace nestor {

struct Pass {
  const char* name;
  const char* summary;  // one line: what holds afterwards
  PrimFunc (*run)(const PrimFunc&, const Target&);
};
const std::vector<Pass>& pipeline(TargetKind kind);

struct LowerOptions {
  std::vector<std::string> dump_after;                                       // pass names, or "all"
  std::function<void(const Pass&, const PrimFunc&, double ms, bool changed)> on_pass;  // called after each pass
  bool check = false;                                                        // check_well_formed after each pass
};
PrimFunc lower(const PrimFunc& f, const Target& target, const LowerOptions& options = {});

}  // namespace nestor
