// Transposes vectors in registers, by exchanges between pairs of vectors.
#pragma once

#include <cstdint>
#include <vector>

namespace nestor::passes {

// v[a], v[b] = shuffle(v[a], v[b], first), shuffle(v[a], v[b], second)
struct Exchange {
  int a, b;
  std::vector<int64_t> first, second;
};

// Turns `width` vectors of `lanes`, both powers of two, width <= lanes, as lanes/width squares side by side:
// square p of vector i holds row p*width + i of a matrix of `lanes` rows and `width` columns. Afterwards
// vector v holds the column `column[v]` whole, row by row. Done to the columns instead, the same exchanges
// leave in square p of vector v the row p*width + column[v].
struct TransposeNetwork {
  std::vector<Exchange> exchanges;
  std::vector<int> column;
};
// `bytes` of an element decide which exchanges are cheap.
TransposeNetwork transpose_network(int lanes, int width, int bytes);

}  // namespace nestor::passes
