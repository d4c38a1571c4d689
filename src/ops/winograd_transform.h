// The matrices of Winograd's short convolutions F(m, 3): m outputs of a filter of three taps by m + 2
// products instead of 3m,
//
//   y = A^T [(G g) * (B^T d)]        (Winograd 1980; Lavin and Gray, CVPR 2016; here two such, nested)
//
// They are Toom and Cook's: polynomials are evaluated at m + 1 points and at infinity, multiplied there, and
// interpolated. Exactly computed, any points do. Rounded, the points decide what is lost: F(4, 3) takes
// 0, ±5/8, ±3/2, which lose 2.5 times less than the usual 0, ±1, ±2 (mean largest error over 64 channels; 1.7
// times what the direct sum loses). F(3, 3) takes two pairs and no 0, ±3/8, ±11/8, which lose half of what
// 0, ±1, 2 do, about what the direct sum loses (0.85 times with uniform data, 1.1 to 1.3 with few channels or
// behind a ReLU); 0 costs as much as another point, a pair shares its terms. All of A and B are dyadic
// fractions of few bits, exact in f32; only G is rounded, in f64.
#pragma once

#include <cstdint>
#include <vector>

namespace nestor::ops {

struct Winograd {
  using Matrix = std::vector<std::vector<double>>;
  int64_t tile = 0;              // m
  int64_t reads = 0;             // m + 2: elements of the input under a tile, and products
  Matrix input, weight, output;  // B^T: reads x reads, G: reads x 3, A^T: tile x reads
};

// tile: 2 to 4. Points come in pairs p, -p, behind 0 where they are odd in number, infinity last.
const Winograd& winograd(int64_t tile);

// How far rounding can be amplified in two dimensions, compared with the direct sum of 9 products for each
// channel: (the largest element of |A^T| ((|G| 1) * (|B^T| 1)))^2 / 9. F(2x2): 7.1, F(3x3): 21.7, F(4x4):
// 62.7 (with the points 0, ±1, ±2 it would be 256).
double winograd_growth(int64_t tile);

}  // namespace nestor::ops
