// Functions in which the order of iterations matters much: a wrong schedule breaks them easily.
#include "tests/fuzz/function_texts.h"

namespace nestor {

// clang-format off: a line each, whatever its length
std::vector<FunctionText> dependence_texts() {
  return {
      {"reversed_scan", 0, R"(
in X: f32[$M,$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = (if 1 <= vi then T[vi-1,vj] else 0.0f32) + X[vi,vj]
Y: S i M, S j N : Y[vi,vj] = T[$M-1-vi,vj] * 2.0f32
)"},
      {"every_other_sum", 0, R"(
in X: f32[2*$M], out Y: f32[$M]
alloc T: f32[2*$M]
T: S i 2*M : T[vi] = (if 1 <= vi then T[vi-1] else 0.0f32) + X[vi]
Y: S i M : Y[vi] = T[vi*2] - 1.0f32
)"},
      {"skewed_scan", 0, R"(
in X: f32[$M,$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = (if 1 <= vi && vj+1 < $N then T[vi-1,vj+1] else 0.0f32) + X[vi,vj]
Y: S i M, S j N : Y[vi,vj] = T[vi,vj] * 2.0f32
)"},
      {"steps_in_time", 0, R"(
in X: f32[$N], out Y: f32[$N]
alloc T: f32[$M+1,$N]
Z: S j N : T[0,vj] = X[vj]
T: S i M, S j N : T[vi+1,vj] = T[vi,$N-1-vj] * 0.5f32 + (if 1 <= vj then T[vi,vj-1] else 1.0f32)
Y: S j N : Y[vj] = T[$M,vj]
)"},
      {"buffers_in_turn", 0, R"(
in X: f32[$N], out Y: f32[2,$N]
alloc T: f32[2,$N]
Z: S l 2, S j N : T[vl,vj] = X[vj]
T: S i M, S j N : T[(vi+1)%2,vj] = T[vi%2,$N-1-vj] * 0.5f32 + X[vj]
Y: S l 2, S j N : Y[vl,vj] = T[vl,vj]
)"},
      {"chunk_before", 0, R"(
in X: f32[$M,$N], out Y: f32[$M*$N]
Y: S i M, S j N : Y[vi*$N+vj] = X[vi,vj] + (if 1 <= vi then Y[vi*$N-1] * 0.5f32 else 1.0f32)
)"},
      {"written_twice", 0, R"(
in X: f32[$M,$N], out Y: f32[$M,$N], out Z: f32[$M,$N]
alloc T: f32[$M,$N] ; U: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = X[vi,vj] * 2.0f32
U: S i M, S j N : U[vi,vj] = T[vi,vj] + 1.0f32
V: S i M, S j N : T[vi,vj] = X[vi,vj] * 3.0f32
Y: S i M, S j N : Y[vi,vj] = U[vi,vj] - T[vi,vj]
Z: S i M, S j N : Z[vi,vj] = T[vi,vj] + 2.0f32
)"},
      {"summed_twice", 0, R"(
in X: f32[$M,$K], out Y: f32[$M], out Z: f32[$M]
alloc T: f32[$M] ; U: f32[$M,$K]
U: S i M, S k K : U[vi,vk] = X[vi,vk] + 1.0f32
T: S i M, R k K : init { T[vi] = 0.0f32 } T[vi] += U[vi,vk]
Y: S i M : Y[vi] = T[vi] * 2.0f32
S: S i M, R k K : init { T[vi] = 1.0f32 } T[vi] += X[vi,vk]
Z: S i M : Z[vi] = T[vi] * 3.0f32
)"},
      {"repeated_sum", 0, R"(
in X: f32[$M,$K], out Y: f32[$M]
Y: S i M, L r 2, R k K : init { Y[vi] = 0.0f32 } Y[vi] += X[vi,vk]
)"},
      {"repeated_producer", 0, R"(
in X: f32[$M,$N], out Y: f32[$N]
alloc T: f32[$M,$N]
T: S i M, L r 2, S j N : T[vi,vj] = X[vi,vj] * 2.0f32
Y: S j N, R i M : init { Y[vj] = 0.0f32 } Y[vj] += T[vi,vj]
)"},
      {"sum_from_the_middle", 0, R"(
in X: f32[$M,10], out Y: f32[$M]
Y: S i M, L k0 3, L k1 4, R k 10=k0*4+k1-2 : init { Y[vi] = 0.0f32 } Y[vi] += X[vi,vk]
)"},
      {"continued_sum", 0, R"(
in X: f32[$M,8], in Z: f32[$M], out Y: f32[$M]
Z: S i M : Y[vi] = Z[vi] * 2.0f32
Y: S i M, L k 6, R k 8=k+2 : init { Y[vi] = 0.0f32 } Y[vi] += X[vi,vk]
)"},
      {"wavefront", 0, R"(
in X: f32[$M,$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N]
raw for i in $M, j in $N {
raw block T(vi: S $M = i, vj: S $N = j) {
raw T[vi,vj] = X[vi,vj] * 2.0f32
raw }
raw block Y(vi: S $M = i, vj: S $N = j) {
raw Y[vi,vj] = T[vi,vj] + (if 1 <= vi && vj+1 < $N then T[vi-1,vj+1] else 0.0f32)
raw }
raw }
)"},
      {"running_total", 0, R"(
in X: f32[$M,$K], out Y: f32[$M+1], out Z: f32[$M]
raw for i in $M {
raw for k in $K {
raw block Y(vi: S $M = i, vk: R $K = k) {
raw init { Y[vi] = 0.0f32 }
raw Y[vi] += X[vi,vk]
raw }
raw }
raw block N(vi: S $M = i) {
raw Y[vi+1] = Y[vi] * 2.0f32
raw }
raw block Z(vi: S $M = i) {
raw Z[vi] = Y[vi+1] - 1.0f32
raw }
raw }
)"},
      {"one_late", 0, R"(
in X: f32[$M+1], out Y: f32[$M]
alloc A: f32[$M+1] ; B: f32[$M+1]
raw for i in $M+1 {
raw block B(vi: S $M+1 = i) {
raw B[vi] = X[vi] + 1.0f32
raw }
raw block A(vi: S $M+1 = i) {
raw A[vi] = X[vi] * 2.0f32
raw }
raw block Y(vi: S $M = i-1) {
raw Y[vi] = A[vi] - B[vi+1]
raw }
raw }
)"},
      {"inputs_of_one_loop", 0, R"(
in X: f32[$M,$N], out Y: f32[$M,$N]
alloc A: f32[$M,$N] ; B: f32[$M,$N]
raw for i in $M {
raw for j in $N {
raw block A(vi: S $M = i, vj: S $N = j) {
raw A[vi,vj] = X[vi,vj] * 2.0f32
raw }
raw }
raw for j in $N {
raw block B(vi: S $M = i, vj: S $N = j) {
raw B[vi,vj] = X[vi,vj] + 1.0f32
raw }
raw }
raw for j in $N {
raw block Y(vi: S $M = i, vj: S $N = j) {
raw Y[vi,vj] = A[vi,$N-1-vj] - B[vi,vj]
raw }
raw }
raw }
)"},
      {"carried_copy", 0, R"(
in X: f32[$M+1], out Y: f32[$M]
alloc P: f32[$M+1] ; S: f32[$M]
P: S i M+1 : P[vi] = X[vi] + 1.0f32
raw for i in $M {
raw block S(vi: S $M = i) {
raw S[vi] = P[vi]
raw }
raw block Y(vi: S $M = i) {
raw Y[vi] = S[vi] * 2.0f32
raw }
raw block N(vi: S $M = i) {
raw P[vi+1] = S[vi]
raw }
raw }
)"},
      {"fed_back", 0, R"(
in X: f32[$M+1], out Y: f32[$M]
alloc P: f32[$M+1] ; T: f32[$M]
P: S i M+1 : P[vi] = X[vi] + 1.0f32
T: S i M : T[vi] = X[vi] * 2.0f32
raw for i in $M {
raw block Y(vi: S $M = i) {
raw Y[vi] = T[vi] - P[vi]
raw }
raw block N(vi: S $M = i) {
raw P[vi+1] = X[vi] * 3.0f32
raw }
raw }
)"},
      {"copies_of_rows", 0, R"(
in X: f32[$M,$N], out Y: f32[$M,$N]
alloc S: f32[$M,$N] ; K: f32[$N]
raw for i in $M {
raw for j in $N {
raw block S(vi: S $M = i, vj: S $N = j) {
raw S[vi,vj] = X[vi,vj]
raw }
raw }
raw for j in $N {
raw block K(vi: S $M = i, vj: S $N = j) where vi%2 == 0 {
raw K[vj] = X[vi,vj]
raw }
raw }
raw for j in $N {
raw block Y(vi: S $M = i, vj: S $N = j) {
raw Y[vi,vj] = K[vj] * 2.0f32 + (if 2 <= vi then S[vi-2,vj] else 0.0f32)
raw }
raw }
raw }
)"},
  };
}
// clang-format on

}  // namespace nestor
