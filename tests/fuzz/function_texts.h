// The functions that random schedules are tried on, as short texts with sizes to fill in.
#pragma once

#include <vector>

namespace nestor {

// The first line has the parameters, `alloc` temporaries, any other a nest of one block. $A is a size to
// draw; $A+2 and 2*$A are folded to a number. A block is written `NAME: S i A, R k 2*K+1 [where COND] :
// body`: a loop i in A with the iterator vi bound to it, and so on; `L r 2` is a loop that no iterator is
// bound to, `R k 10=k0*4+k1` an iterator with a binding and no loop of its own. `raw` lines are IR.
struct FunctionText {
  const char* name;
  double tolerance;  // relative; 0: exact on small integers whatever the order of sums
  const char* text;
};
const std::vector<FunctionText>& function_texts();

// The families, each its own table.
std::vector<FunctionText> product_texts();      // matrix products, convolutions and what is fused with them
std::vector<FunctionText> reduction_texts();    // sums, pooling, norms, softmax
std::vector<FunctionText> elementwise_texts();  // arithmetic, broadcasting, movement of data, gathers
std::vector<FunctionText> dependence_texts();   // in an order that matters: scans, buffers written twice

}  // namespace nestor
