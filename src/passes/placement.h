// Where a temporary lives and how large it is there: the decision behind `compact`.
#pragma once

#include "src/passes/region.h"

namespace nestor::passes {

// Elements of a dimension that are reached: coefficient * (0 to extent-1) of each digit, in all combinations.
struct Digit {
  int64_t coefficient, extent;
  bool operator==(const Digit&) const = default;
};

struct Placement {
  BufferDecl decl;                         // with its new shape
  std::vector<Expr> offsets;               // subtracted from the indices
  std::vector<Expr> ends;                  // of each offset that isn't a constant: above all its values
  std::vector<std::vector<Digit>> digits;  // largest first, of each dimension; none where it has no gaps
  const For* loop = nullptr;               // whose body it lives in; null: the function
  bool in_kernel = false;                  // bound loops enclose all its uses (CUDA)
};

// `accesses` are all there are, in program order; `inside` loops are around the allocation already; `loops`
// has the range of every loop variable. Throws ScheduleError where a CUDA scope can't hold what the accesses
// ask of it.
Placement place(const BufferDecl& decl, size_t inside, const std::vector<Access>& accesses,
                const Facts& loops, bool cuda);

}  // namespace nestor::passes
