// Matrix products and convolutions, alone and with what fusion puts after them.
#include "tests/fuzz/function_texts.h"

namespace nestor {

// clang-format off: a line each, whatever its length
std::vector<FunctionText> product_texts() {
  return {
      {"matmul", 0, R"(
in A: f32[$M,$K], const B: f32[$K,$N], out T: f32[$M,$N]
T: S i M, S j N, R k K : init { T[vi,vj] = 0.0f32 } T[vi,vj] += A[vi,vk] * B[vk,vj]
)"},
      {"matmul_bias_relu", 0, R"(
in A: f32[$M,$K], const W: f32[$N,$K], const B: f32[$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N] ; U: f32[$M,$N]
T: S i M, S j N, R k K : init { T[vi,vj] = 0.0f32 } T[vi,vj] += A[vi,vk] * W[vj,vk]
U: S i M, S j N : U[vi,vj] = T[vi,vj] + B[vj]
Y: S i M, S j N : Y[vi,vj] = max(0.0f32, U[vi,vj])
)"},
      {"conv", 0, R"(
in X: f32[1,$C,$H,$H], const W: f32[$O,$C,3,3], const B: f32[$O], out Y: f32[1,$O,$H,$H]
alloc P: f32[1,$C,$H+2,$H+2] ; T: f32[1,$O,$H,$H]
P: S n 1, S c C, S h H+2, S w H+2 : P[vn,vc,vh,vw] = if 1 <= vh && vh < $H+1 && 1 <= vw && vw < $H+1 then X[vn,vc,vh-1,vw-1] else 0.0f32
T: S n 1, S o O, S y H, S x H, R c C, R r 3, R s 3 : init { T[vn,vo,vy,vx] = 0.0f32 } T[vn,vo,vy,vx] += P[vn,vc,vy+vr,vx+vs] * W[vo,vc,vr,vs]
Y: S n 1, S o O, S y H, S x H : Y[vn,vo,vy,vx] = max(0.0f32, T[vn,vo,vy,vx] + B[vo])
)"},
      {"grouped_strided_conv", 0, R"(
in X: f32[4,2*$H+1], const W: f32[6,2,3], out Y: f32[6,$H]
alloc P: f32[4,2*$H+3]
P: S c 4, S x 2*H+3 : P[vc,vx] = if 1 <= vx && vx < 2*$H+2 then X[vc,vx-1] else 0.0f32
Y: S o 6, S x H, R c 2, R s 3 : init { Y[vo,vx] = 0.0f32 } Y[vo,vx] += P[vo/3*2+vc,vx*2+vs] * W[vo,vc,vs]
)"},
      {"depthwise", 0, R"(
in X: f32[$C,$H+2], const W: f32[$C,3], out Y: f32[$C,$H]
alloc T: f32[$C,$H]
T: S c C, S x H, R s 3 : init { T[vc,vx] = 0.0f32 } T[vc,vx] += X[vc,vx+vs] * W[vc,vs]
Y: S c C, S x H : Y[vc,vx] = min(6.0f32, T[vc,vx])
)"},
      {"two_matmuls", 0, R"(
in A: f32[$M,$K], const B: f32[$K,$N], const C: f32[$N,$M], out Y: f32[$M,$M]
alloc T: f32[$M,$N]
T: S i M, S j N, R k K : init { T[vi,vj] = 0.0f32 } T[vi,vj] += A[vi,vk] * B[vk,vj]
Y: S i M, S l M, R j N : init { Y[vi,vl] = 1.0f32 } Y[vi,vl] += T[vi,vj] * C[vj,vl]
)"},
      {"causal", 0, R"(
in X: f32[$M,$M], in Z: f32[$M,$N], out Y: f32[$M,$N]
alloc S: f32[$M,$M]
S: S i M, S k M : S[vi,vk] = X[vi,vk] * 2.0f32
Y: S i M, S j N, R k M where vk <= vi : init { Y[vi,vj] = 0.0f32 } Y[vi,vj] += S[vi,vk] * Z[vk,vj]
)"},
      {"batched_matmul", 0, R"(
in A: f32[3,$M,$K], in B: f32[3,$K,$N], out Y: f32[3,$M,$N]
Y: S b 3, S i M, S j N, R k K : init { Y[vb,vi,vj] = 0.0f32 } Y[vb,vi,vj] += A[vb,vi,vk] * B[vb,vk,vj]
)"},
      {"matmul_transposed", 0, R"(
in A: f32[$K,$M], const B: f32[$N,$K], out Y: f32[$M,$N]
alloc S: f32[$M,$K]
S: S i M, S k K : S[vi,vk] = A[vk,vi]
Y: S i M, S j N, R k K : init { Y[vi,vj] = 0.0f32 } Y[vi,vj] += S[vi,vk] * B[vj,vk]
)"},
      {"matrix_vector", 0, R"(
in A: f32[$M,$K], in B: f32[$K], out Y: f32[$M]
alloc T: f32[$M]
T: S i M, R k K : init { T[vi] = 0.0f32 } T[vi] += A[vi,vk] * B[vk]
Y: S i M : Y[vi] = T[vi] * 2.0f32
)"},
      {"unit_matmul", 0, R"(
in A: f32[1,$K], const B: f32[$K,1], out Y: f32[1,1]
alloc T: f32[1,1]
T: S i 1, S j 1, R k K : init { T[vi,vj] = 0.0f32 } T[vi,vj] += A[vi,vk] * B[vk,vj]
Y: S i 1, S j 1 : Y[vi,vj] = max(0.0f32, T[vi,vj])
)"},
      {"gemm_with_start", 0, R"(
in A: f32[$M,$K], const B: f32[$K,$N], in C: f32[$M,$N], out Y: f32[$M,$N]
Y: S i M, S j N, R k K : init { Y[vi,vj] = C[vi,vj] * 2.0f32 } Y[vi,vj] += A[vi,vk] * B[vk,vj]
)"},
      {"int8_matmul", 0, R"(
in A: i8[$M,$K], const B: i8[$K,$N], out Y: i32[$M,$N]
alloc T: i32[$M,$N]
T: S i M, S j N, R k K : init { T[vi,vj] = 0i32 } T[vi,vj] += i32(A[vi,vk]) * i32(B[vk,vj])
Y: S i M, S j N : Y[vi,vj] = T[vi,vj] - 3i32
)"},
      {"matmul_softmax", 1e-5, R"(
in A: f32[$M,$K], const B: f32[$K,$N], out Y: f32[$M,$N]
alloc T: f32[$M,$N] ; Q: f32[$M] ; E: f32[$M,$N] ; Z: f32[$M]
T: S i M, S j N, R k K : init { T[vi,vj] = 0.0f32 } T[vi,vj] += A[vi,vk] * B[vk,vj]
Q: S i M, R j N : init { Q[vi] = -inf_f32 } Q[vi] max= T[vi,vj]
E: S i M, S j N : E[vi,vj] = exp(T[vi,vj] - Q[vi])
Z: S i M, R j N : init { Z[vi] = 0.0f32 } Z[vi] += E[vi,vj]
Y: S i M, S j N : Y[vi,vj] = E[vi,vj] / Z[vi]
)"},
      {"attention", 1e-5, R"(
in Q: f32[$M,4], in K: f32[$N,4], in V: f32[$N,3], out Y: f32[$M,3]
alloc T: f32[$M,$N] ; X: f32[$M] ; E: f32[$M,$N] ; Z: f32[$M] ; U: f32[$M,3]
T: S i M, S j N, R k 4 : init { T[vi,vj] = 0.0f32 } T[vi,vj] += Q[vi,vk] * K[vj,vk]
X: S i M, R j N : init { X[vi] = -inf_f32 } X[vi] max= T[vi,vj]
E: S i M, S j N : E[vi,vj] = exp((T[vi,vj] - X[vi]) * 0.5f32)
Z: S i M, R j N : init { Z[vi] = 0.0f32 } Z[vi] += E[vi,vj]
U: S i M, S c 3, R j N : init { U[vi,vc] = 0.0f32 } U[vi,vc] += E[vi,vj] * V[vj,vc]
Y: S i M, S c 3 : Y[vi,vc] = U[vi,vc] / Z[vi]
)"},
      {"transpose_matmul", 0, R"(
in X: f32[2,$M,$K], const B: f32[$K,$N], out Y: f32[$M,2,$N]
alloc T: f32[$M,2,$K]
T: S i M, S b 2, S k K : T[vi,vb,vk] = X[vb,vi,vk]
Y: S i M, S b 2, S j N, R k K : init { Y[vi,vb,vj] = 0.0f32 } Y[vi,vb,vj] += T[vi,vb,vk] * B[vk,vj]
)"},
      {"conv_bn_relu", 0, R"(
in X: f32[$C,$H+2,$H+2], const W: f32[$O,$C,3,3], const G: f32[$O], const B: f32[$O], out Y: f32[$O,$H,$H]
alloc T: f32[$O,$H,$H] ; U: f32[$O,$H,$H]
T: S o O, S y H, S x H, R c C, R r 3, R s 3 : init { T[vo,vy,vx] = 0.0f32 } T[vo,vy,vx] += X[vc,vy+vr,vx+vs] * W[vo,vc,vr,vs]
U: S o O, S y H, S x H : U[vo,vy,vx] = T[vo,vy,vx] * G[vo] + B[vo]
Y: S o O, S y H, S x H : Y[vo,vy,vx] = max(0.0f32, U[vo,vy,vx])
)"},
      {"strided_conv", 0, R"(
in X: f32[2,2*$H,2*$H], const W: f32[$O,2,3,3], out Y: f32[$O,$H,$H]
alloc P: f32[2,2*$H+1,2*$H+1]
P: S c 2, S h 2*H+1, S w 2*H+1 : P[vc,vh,vw] = if 1 <= vh && 1 <= vw then X[vc,vh-1,vw-1] else 0.0f32
Y: S o O, S y H, S x H, R c 2, R r 3, R s 3 : init { Y[vo,vy,vx] = 0.0f32 } Y[vo,vy,vx] += P[vc,vy*2+vr,vx*2+vs] * W[vo,vc,vr,vs]
)"},
      {"dilated_conv", 0, R"(
in X: f32[$C,$H], const W: f32[$O,$C,3], out Y: f32[$O,$H]
alloc P: f32[$C,$H+4] ; T: f32[$O,$H]
P: S c C, S h H+4 : P[vc,vh] = if 2 <= vh && vh < $H+2 then X[vc,vh-2] else 0.0f32
T: S o O, S y H, R c C, R r 3 : init { T[vo,vy] = 0.0f32 } T[vo,vy] += P[vc,vy+vr*2] * W[vo,vc,vr]
Y: S o O, S y H : Y[vo,vy] = T[vo,vy] - 1.0f32
)"},
      {"grouped_conv", 0, R"(
in X: f32[4,$H+2,$H], const W: f32[6,2,3,1], const B: f32[6], out Y: f32[6,$H,$H]
alloc T: f32[2,3,$H,$H]
T: S g 2, S o 3, S y H, S x H, R c 2, R r 3 : init { T[vg,vo,vy,vx] = 0.0f32 } T[vg,vo,vy,vx] += X[vg*2+vc,vy+vr,vx] * W[vg*3+vo,vc,vr,0]
Y: S o 6, S y H, S x H : Y[vo,vy,vx] = T[vo/3,vo%3,vy,vx] + B[vo]
)"},
      {"depthwise_2d", 0, R"(
in X: f32[$C,$H,$H], const W: f32[$C,3,3], const B: f32[$C], out Y: f32[$C,$H,$H]
alloc P: f32[$C,$H+2,$H+2] ; T: f32[$C,$H,$H]
P: S c C, S h H+2, S w H+2 : P[vc,vh,vw] = if 1 <= vh && vh < $H+1 && 1 <= vw && vw < $H+1 then X[vc,vh-1,vw-1] else 0.0f32
T: S c C, S y H, S x H, R r 3, R s 3 : init { T[vc,vy,vx] = 0.0f32 } T[vc,vy,vx] += P[vc,vy+vr,vx+vs] * W[vc,vr,vs]
Y: S c C, S y H, S x H : Y[vc,vy,vx] = min(6.0f32, max(0.0f32, T[vc,vy,vx] + B[vc]))
)"},
      {"pointwise_conv_residual", 0, R"(
in X: f32[$C,$H,$H], const W: f32[$O,$C], in Z: f32[$O,$H,$H], out Y: f32[$O,$H,$H]
alloc T: f32[$O,$H,$H]
T: S o O, S y H, S x H, R c C : init { T[vo,vy,vx] = 0.0f32 } T[vo,vy,vx] += X[vc,vy,vx] * W[vo,vc]
Y: S o O, S y H, S x H : Y[vo,vy,vx] = T[vo,vy,vx] + Z[vo,vy,vx]
)"},
      {"conv_transpose", 0, R"(
in X: f32[$C,$H], const W: f32[$C,$O,3], out Y: f32[$O,2*$H+1]
Y: S o O, S x 2*H+1, R c C, R s 3 : init { Y[vo,vx] = 0.0f32 } Y[vo,vx] += if (vx-vs)%2 == 0 && 0 <= vx-vs && vx-vs < 2*$H then X[vc,(vx-vs)/2] * W[vc,vo,vs] else 0.0f32
)"},
      {"bytes_matmul", 0, R"(
in A: u8[$H,4*$C], const B: i8[4*$C,16*$O], out Y: i32[$H,16*$O]
alloc T: i32[$H,16*$O]
T: S i H, S j 16*O, R k 4*C : init { T[vi,vj] = 1i32 } T[vi,vj] += i32(A[vi,vk]) * i32(B[vk,vj])
Y: S i H, S j 16*O : Y[vi,vj] = T[vi,vj] - 3i32
)"},
      {"half_matmul", 0, R"(
in A: f16[16,16*$C], in B: f16[16*$C,16], out T: f32[16,16]
T: S i 16, S j 16, R k 16*C : init { T[vi,vj] = 1.0f32 } T[vi,vj] += f32(A[vi,vk]) * f32(B[vk,vj])
)"},
      {"even_matmul", 0, R"(
in A: f32[$M,2*$C], in B: f32[2*$C,4*$O], out T: f32[$M,4*$O]
T: S i M, S j 4*O, R k 2*C : init { T[vi,vj] = 0.0f32 } T[vi,vj] += A[vi,vk] * B[vk,vj]
)"},
  };
}
// clang-format on

}  // namespace nestor
