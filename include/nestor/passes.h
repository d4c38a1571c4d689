// Lowering: from a scheduled function to flat loops over flat memory with vector expressions, by the passes
// listed in src/passes/pipeline.cpp. What comes out still prints, parses, checks and interprets.
//
// After the CPU pipeline only Seq, For (serial, parallel), Store, If, Alloc, LetStmt and Evaluate are left;
// buffers are 1-D and without layouts; vectors have native lanes. After the CUDA pipeline the same holds,
// with thread loops kept, no vectors, and barriers as `sync`.
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
  std::vector<std::string> dump_after;  // pass names, or "all"
  // Called after each pass; `changed` is false where the function stayed structurally the same.
  std::function<void(const Pass&, const PrimFunc&, double ms, bool changed)> on_pass;
  // Called for each pass named in `dump_after`, with the printed function or "(unchanged)"; absent: written
  // to stderr.
  std::function<void(const Pass&, const std::string& text)> on_dump;
  bool check = false;  // check_well_formed after each pass
};
PrimFunc lower(const PrimFunc& f, const Target& target, const LowerOptions& options = {});

}  // namespace nestor
