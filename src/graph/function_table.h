// Functions that were made already, found again by structure.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "nestor/ir.h"
#include "nestor/walk.h"

namespace nestor {

class FunctionTable {
 public:
  // Adds to `funcs`, whose own are known already.
  explicit FunctionTable(std::vector<PrimFunc>& funcs) : funcs_(funcs) {
    for (size_t i = 0; i < funcs.size(); ++i) {
      names_.insert(funcs[i].name);
      by_hash_[structural_hash(funcs[i], true)].push_back(static_cast<int>(i));
    }
  }

  int add(PrimFunc f) {
    std::vector<int>& same_hash = by_hash_[structural_hash(f, true)];
    for (int i : same_hash)
      if (structural_equal(funcs_[static_cast<size_t>(i)], f, true)) return i;
    const std::string base = f.name;
    for (int k = 1; !names_.insert(f.name).second; ++k) f.name = fmt::format("{}_{}", base, k);
    same_hash.push_back(static_cast<int>(funcs_.size()));
    funcs_.push_back(std::move(f));
    return same_hash.back();
  }

 private:
  std::vector<PrimFunc>& funcs_;
  std::unordered_map<uint64_t, std::vector<int>> by_hash_;
  std::set<std::string> names_;
};

}  // namespace nestor
