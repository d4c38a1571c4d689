// Rewrites straight-line code: the stores that stand next to each other in a sequence, run by run.
#pragma once

#include <algorithm>
#include <vector>

#include "src/passes/scoped.h"

namespace nestor::passes {

// The buffers that a run of stores writes, each once.
inline std::vector<Buffer> buffers_written(const std::vector<Stmt>& run) {
  std::vector<Buffer> out;
  for (const Stmt& s : run)
    if (const Buffer& b = s.as<Store>()->buffer; std::find(out.begin(), out.end(), b) == out.end())
      out.push_back(b);
  return out;
}

class StoreRunRewriter : public ScopedRewriter {
 public:
  using ScopedRewriter::ScopedRewriter;
  Stmt stmt(const Stmt& s) override {
    if (s.as<Store>()) {
      std::vector<Stmt> out;
      return rewrite({s}, out) ? make::seq(std::move(out)) : s;
    }
    const auto* seq = s.as<Seq>();
    if (!seq) return ScopedRewriter::stmt(s);
    std::vector<Stmt> out, run;
    bool changed = false;
    const auto flush = [&] {
      if (run.empty()) return;
      if (rewrite(run, out))
        changed = true;
      else
        out.insert(out.end(), run.begin(), run.end());
      run.clear();
    };
    for (const Stmt& inner : seq->stmts) {
      if (inner.as<Store>()) {
        run.push_back(inner);
        continue;
      }
      flush();
      out.push_back(stmt(inner));
      changed = changed || !out.back().same_as(inner);
    }
    flush();
    return changed ? make::seq(std::move(out)) : s;
  }

 protected:
  // Appends what stands for the run; false, and `out` as it was, where it stays as it is.
  virtual bool rewrite(const std::vector<Stmt>& run, std::vector<Stmt>& out) = 0;
};

}  // namespace nestor::passes
