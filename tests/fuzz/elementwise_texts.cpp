// Arithmetic and broadcasting, movement of data, gathers, integers and truth values.
#include "tests/fuzz/function_texts.h"

namespace nestor {

// clang-format off: a line each, whatever its length
std::vector<FunctionText> elementwise_texts() {
  return {
      {"transpose_add", 0, R"(
in X: f32[$M,$N], in Z: f32[$N,$M], out Y: f32[$N,$M]
alloc T: f32[$N,$M]
T: S j N, S i M : T[vj,vi] = X[vi,vj]
Y: S j N, S i M : Y[vj,vi] = T[vj,vi] + Z[vj,vi]
)"},
      {"gather", 0, R"(
in X: f32[4,$N], in I: i64[$M], out Y: f32[$M,$N]
alloc S: f32[4,$N] ; T: f32[$M,$N]
S: S i 4, S j N : S[vi,vj] = X[vi,vj] * 3.0f32
T: S i M, S j N : T[vi,vj] = S[I[vi],vj]
Y: S i M, S j N : Y[vi,vj] = T[vi,vj] - 1.0f32
)"},
      {"chain", 0, R"(
in X: f32[$M,$N], in B: f32[$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N] ; U: f32[$M,$N] ; V: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = X[vi,vj] + B[vj]
U: S i M, S j N : U[vi,vj] = T[vi,vj] * 2.0f32
V: S i M, S j N : V[vi,vj] = abs(U[vi,vj]) - T[vi,vj]
Y: S i M, S j N : Y[vi,vj] = max(V[vi,vj], 1.0f32)
)"},
      {"shifted", 0, R"(
in X: f32[$M+3,$N], out Y: f32[$M,$N]
alloc T: f32[$M+3,$N] ; U: f32[$M+1,$N]
T: S i M+3, S j N : T[vi,vj] = X[vi,vj] * 2.0f32
U: S i M+1, S j N : U[vi,vj] = T[vi+1,vj] + 1.0f32
Y: S i M, S j N : Y[vi,vj] = U[vi+1,vj] * 3.0f32
)"},
      {"blur", 0, R"(
in X: f32[$M+4,$N+2], out Y: f32[$M,$N]
alloc T: f32[$M+2,$N+2] ; U: f32[$M,$N+2]
T: S i M+2, S j N+2 : T[vi,vj] = X[vi,vj] + X[vi+1,vj] + X[vi+2,vj]
U: S i M, S j N+2 : U[vi,vj] = T[vi,vj] - T[vi+2,vj]
Y: S i M, S j N : Y[vi,vj] = U[vi,vj] + U[vi,vj+1] + U[vi,vj+2]
)"},
      {"concat", 0, R"(
in X: f32[$M,$N], in Z: f32[$K,$N], out Y: f32[$M+$K,$N]
alloc T: f32[$M+$K,$N]
T: S i M, S j N : T[vi,vj] = X[vi,vj] * 2.0f32
U: S i K, S j N : T[vi+$M,vj] = Z[vi,vj] * 3.0f32
Y: S i M+K, S j N : Y[vi,vj] = T[vi,vj] + 1.0f32
)"},
      {"scan", 0, R"(
in X: f32[$M,$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = (if 1 <= vi then T[vi-1,vj] else 0.0f32) + X[vi,vj]
Y: S i M, S j N : Y[vi,vj] = T[vi,vj] * 2.0f32
)"},
      {"upsample", 0, R"(
in X: f32[$M,$N], out Y: f32[2*$M,2*$N]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = X[vi,vj] - 1.0f32
Y: S i 2*M, S j 2*N : Y[vi,vj] = T[vi/2,vj/2] * 2.0f32
)"},
      {"add_bias_to_channels", 0, R"(
in X: f32[2,$C,$H], const B: f32[$C], out Y: f32[2,$C,$H]
alloc T: f32[2,$C,$H]
T: S n 2, S c C, S h H : T[vn,vc,vh] = X[vn,vc,vh] + B[vc]
Y: S n 2, S c C, S h H : Y[vn,vc,vh] = max(T[vn,vc,vh], 0.0f32)
)"},
      {"outer_broadcast", 0, R"(
in X: f32[$M,1], in Z: f32[$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = X[vi,0] * Z[vj]
Y: S i M, S j N : Y[vi,vj] = T[vi,vj] + X[vi,0]
)"},
      {"swish", 1e-5, R"(
in X: f32[$M,$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = sigmoid(X[vi,vj])
Y: S i M, S j N : Y[vi,vj] = X[vi,vj] * T[vi,vj]
)"},
      {"transpose_last_two", 0, R"(
in X: f32[$M,$N,$K], out Y: f32[$M,$K,$N]
alloc T: f32[$M,$K,$N]
T: S i M, S k K, S j N : T[vi,vk,vj] = X[vi,vj,vk] * 2.0f32
Y: S i M, S k K, S j N : Y[vi,vk,vj] = T[vi,vk,vj] + 1.0f32
)"},
      {"two_transposes", 0, R"(
in X: f32[$M,$N,$K], out Y: f32[$N,$M,$K]
alloc T: f32[$K,$M,$N]
T: S k K, S i M, S j N : T[vk,vi,vj] = X[vi,vj,vk]
Y: S j N, S i M, S k K : Y[vj,vi,vk] = T[vk,vi,vj] - 1.0f32
)"},
      {"gather_norm", 1e-4, R"(
in X: f32[4,$N], in I: i64[$M], const G: f32[$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N] ; U: f32[$M] ; V: f32[$M]
T: S i M, S j N : T[vi,vj] = X[I[vi],vj]
U: S i M, R k N : init { U[vi] = 0.0f32 } U[vi] += T[vi,vk]
V: S i M, R k N : init { V[vi] = 1.0f32 } V[vi] += T[vi,vk] * T[vi,vk]
Y: S i M, S j N : Y[vi,vj] = (T[vi,vj] - U[vi] * 0.125f32) / sqrt(V[vi]) * G[vj]
)"},
      {"gather_sum", 0, R"(
in X: f32[4,$N], in I: i64[$M,3], out Y: f32[$M,$N]
alloc S: f32[4,$N]
S: S i 4, S j N : S[vi,vj] = X[vi,vj] + 1.0f32
Y: S i M, S j N, R k 3 : init { Y[vi,vj] = 0.0f32 } Y[vi,vj] += S[I[vi,vk],vj]
)"},
      {"slice", 0, R"(
in X: f32[2*$M+1,$N+2], out Y: f32[$M,$N]
alloc T: f32[2*$M+1,$N+2]
T: S i 2*M+1, S j N+2 : T[vi,vj] = X[vi,vj] * 3.0f32
Y: S i M, S j N : Y[vi,vj] = T[vi*2+1,vj+1]
)"},
      {"pad", 0, R"(
in X: f32[$M,$N], out Y: f32[$M+3,$N+1]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = X[vi,vj] + 1.0f32
Y: S i M+3, S j N+1 : Y[vi,vj] = if 2 <= vi && vi < $M+2 && vj < $N then T[vi-2,vj] else 7.0f32
)"},
      {"pad_edge", 0, R"(
in X: f32[$M], out Y: f32[$M+4]
alloc T: f32[$M]
T: S i M : T[vi] = X[vi] * 2.0f32
Y: S i M+4 : Y[vi] = T[max(0, min(vi-2, $M-1))]
)"},
      {"reverse", 0, R"(
in X: f32[$M,$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = X[vi,vj] - 2.0f32
Y: S i M, S j N : Y[vi,vj] = T[$M-1-vi,vj]
)"},
      {"reshape", 0, R"(
in X: f32[$M,$N], out Y: f32[$M*$N]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = X[vi,vj] * 2.0f32
Y: S i M*N : Y[vi] = T[vi/$N,vi%$N]
)"},
      {"depth_to_space", 0, R"(
in X: f32[4,$M,$N], out Y: f32[2*$M,2*$N]
alloc T: f32[4,$M,$N]
T: S c 4, S i M, S j N : T[vc,vi,vj] = X[vc,vi,vj] + 1.0f32
Y: S i 2*M, S j 2*N : Y[vi,vj] = T[vi%2*2+vj%2,vi/2,vj/2]
)"},
      {"integers", 0, R"(
in X: i64[$M,$N], in Z: i64[$N], out Y: i64[$M,$N]
alloc T: i64[$M,$N]
T: S i M, S j N : T[vi,vj] = X[vi,vj] * 5 - Z[vj]
Y: S i M, S j N : Y[vi,vj] = T[vi,vj] / 3 + T[vi,vj] % 4
)"},
      {"compare_and_choose", 0, R"(
in X: f32[$M,$N], in Z: f32[$M,$N], out Y: f32[$M,$N]
alloc B: bool[$M,$N]
B: S i M, S j N : B[vi,vj] = X[vi,vj] < Z[vi,vj] || X[vi,vj] == 0.0f32
Y: S i M, S j N : Y[vi,vj] = if B[vi,vj] then X[vi,vj] else Z[vi,vj] * 2.0f32
)"},
      {"unit_axes", 0, R"(
in X: f32[1,$M,1], in Z: f32[1,1,$N], out Y: f32[1,$M,$N]
alloc T: f32[1,$M,1]
T: S a 1, S i M, S b 1 : T[va,vi,vb] = X[va,vi,vb] * 2.0f32
Y: S a 1, S i M, S j N : Y[va,vi,vj] = T[va,vi,0] + Z[va,0,vj]
)"},
      {"half_storage", 2e-3, R"(
in X: f16[$M,$N], const W: f16[$N], out Y: f16[$M,$N]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = f32(X[vi,vj]) * f32(W[vj])
Y: S i M, S j N : Y[vi,vj] = f16(T[vi,vj] + 1.0f32)
)"},
      {"diamond", 0, R"(
in X: f32[$M,$N], out Y: f32[$M,$N], out Z: f32[$M]
alloc A: f32[$M,$N] ; B: f32[$M,$N]
A: S i M, S j N : A[vi,vj] = X[vi,vj] + 1.0f32
B: S i M, S j N : B[vi,vj] = A[vi,vj] * 2.0f32
Z: S i M, R j N : init { Z[vi] = 0.0f32 } Z[vi] += A[vi,vj]
Y: S i M, S j N : Y[vi,vj] = A[vi,vj] - B[vi,vj]
)"},
  };
}
// clang-format on

}  // namespace nestor
