// What kernels for some sizes of a model store of its weights. Those for others prefer the same layouts and
// the same tiles of Winograd's algorithm where that costs little time, so that more weights are stored once.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "nestor/driver.h"

namespace nestor {

class StoredWeights {
 public:
  // m is compiled and has its constants.
  void add(const CompiledModel& m);
  void allow(int64_t more_bytes) { transformed_.left = more_bytes; }
  const TransformedWeights& transformed() const { return transformed_; }

  // Products of rows get the layouts that their weights have. m is partitioned, and not compiled.
  void give_layouts(CompiledModel& m, const CompileOptions& options) const;

 private:
  using Key = std::pair<size_t, std::string>;  // of the bytes; type and shape
  std::map<Key, IndexMap> layouts_;            // of matrices
  TransformedWeights transformed_;
};

}  // namespace nestor
