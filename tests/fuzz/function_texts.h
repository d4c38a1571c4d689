// The functions that random schedules are tried on, as short texts with sizes to fill in.
#pragma once

#include <vector>

namespace nestor {

// `NAME(params | temporaries ; ... | block | block ...)`. $A is a size to draw, 2*$A+3 is folded to a number.
// A block is written `NAME: S i A, R k 2*K+1 [where COND] : body`: a loop i in A with the iterator vi bound
// to it, and so on.
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

}  // namespace nestor
