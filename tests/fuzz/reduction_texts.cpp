// Sums, maxima and products over each axis, pooling, norms and softmax.
#include "tests/fuzz/function_texts.h"

namespace nestor {

// clang-format off: a line each, whatever its length
std::vector<FunctionText> reduction_texts() {
  return {
      {"max_pool", 0, R"(
in X: f32[$C,2*$H], out Y: f32[$C,$H]
alloc P: f32[$C,2*$H]
P: S c C, S x 2*H : P[vc,vx] = X[vc,vx] * 2.0f32
Y: S c C, S x H, R r 3 : init { Y[vc,vx] = -inf_f32 } Y[vc,vx] max= if vx*2+vr < 2*$H then P[vc,vx*2+vr] else -inf_f32
)"},
      {"softmax", 1e-5, R"(
in X: f32[$M,$N], out Y: f32[$M,$N]
alloc Q: f32[$M] ; E: f32[$M,$N] ; Z: f32[$M]
Q: S i M, R k N : init { Q[vi] = -inf_f32 } Q[vi] max= X[vi,vk]
E: S i M, S j N : E[vi,vj] = exp(X[vi,vj] - Q[vi])
Z: S i M, R k N : init { Z[vi] = 0.0f32 } Z[vi] += E[vi,vk]
Y: S i M, S j N : Y[vi,vj] = E[vi,vj] / Z[vi]
)"},
      {"layer_norm", 1e-4, R"(
in X: f32[$M,$N], const G: f32[$N], out Y: f32[$M,$N]
alloc U: f32[$M] ; D: f32[$M,$N] ; V: f32[$M]
U: S i M, R k N : init { U[vi] = 0.0f32 } U[vi] += X[vi,vk]
D: S i M, S j N : D[vi,vj] = X[vi,vj] - U[vi] * 0.125f32
V: S i M, R k N : init { V[vi] = 1.0f32 } V[vi] += D[vi,vk] * D[vi,vk]
Y: S i M, S j N : Y[vi,vj] = D[vi,vj] / sqrt(V[vi]) * G[vj]
)"},
      {"reductions", 0, R"(
in X: f32[$M,$N,$K], out Y: f32[$M]
alloc T: f32[$M,$N]
T: S i M, S j N, R k K : init { T[vi,vj] = 0.0f32 } T[vi,vj] += X[vi,vj,vk]
Y: S i M, R j N : init { Y[vi] = -inf_f32 } Y[vi] max= T[vi,vj]
)"},
      {"started_sum", 0, R"(
in X: f32[$M,$K], in Z: f32[$M], out Y: f32[$M]
alloc T: f32[$M]
T0: S i M : T[vi] = Z[vi] * 2.0f32
T: S i M, R k K : T[vi] += X[vi,vk]
Y: S i M : Y[vi] = T[vi] - 1.0f32
)"},
      {"sum_rows", 0, R"(
in X: f32[$M,$N], out Y: f32[$M]
Y: S i M, R j N : init { Y[vi] = 0.0f32 } Y[vi] += X[vi,vj]
)"},
      {"sum_of_a_triangle", 0, R"(
in X: f32[$M,$N], in Z: f32[$N], out Y: f32[$M]
Y: S i M, R j N where vj <= vi : init { Y[vi] = 0.0f32 } Y[vi] += X[vi,vj] * Z[vj]
)"},
      {"sum_columns", 0, R"(
in X: f32[$M,$N], out Y: f32[$N]
alloc T: f32[$N]
T: S j N, R i M : init { T[vj] = 0.0f32 } T[vj] += X[vi,vj]
Y: S j N : Y[vj] = T[vj] * 0.5f32
)"},
      {"max_of_the_middle", 0, R"(
in X: f32[$M,$K,$N], out Y: f32[$M,$N]
Y: S i M, S j N, R k K : init { Y[vi,vj] = -inf_f32 } Y[vi,vj] max= X[vi,vk,vj]
)"},
      {"min_of_products", 0, R"(
in X: f32[$M,$N], in Z: f32[$N], out Y: f32[$M]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = X[vi,vj] * Z[vj]
Y: S i M, R j N : init { Y[vi] = inf_f32 } Y[vi] min= T[vi,vj]
)"},
      {"product_of_rows", 0, R"(
in X: f32[$M,$N], out Y: f32[$M]
Y: S i M, R j N : init { Y[vi] = 1.0f32 } Y[vi] *= X[vi,vj]
)"},
      {"sum_of_all", 0, R"(
in X: f32[$M,$N], out Y: f32[1]
alloc T: f32[1]
T: S u 1, R i M, R j N : init { T[vu] = 0.0f32 } T[vu] += X[vi,vj] * X[vi,vj]
Y: S u 1 : Y[vu] = T[vu] - 1.0f32
)"},
      {"sum_of_outer_axes", 0, R"(
in X: f32[$M,$N,$K], out Y: f32[$N]
Y: S j N, R i M, R k K : init { Y[vj] = 0.0f32 } Y[vj] += X[vi,vj,vk]
)"},
      {"max_pool_2d", 0, R"(
in X: f32[$C,$H,$H], out Y: f32[$C,$H,$H]
alloc P: f32[$C,$H+2,$H+2]
P: S c C, S h H+2, S w H+2 : P[vc,vh,vw] = if 1 <= vh && vh < $H+1 && 1 <= vw && vw < $H+1 then X[vc,vh-1,vw-1] else -inf_f32
Y: S c C, S y H, S x H, R r 3, R s 3 : init { Y[vc,vy,vx] = -inf_f32 } Y[vc,vy,vx] max= P[vc,vy+vr,vx+vs]
)"},
      {"average_pool", 0, R"(
in X: f32[$C,2*$H,2*$H], out Y: f32[$C,$H,$H]
alloc T: f32[$C,$H,$H]
T: S c C, S y H, S x H, R r 2, R s 2 : init { T[vc,vy,vx] = 0.0f32 } T[vc,vy,vx] += X[vc,vy*2+vr,vx*2+vs]
Y: S c C, S y H, S x H : Y[vc,vy,vx] = T[vc,vy,vx] * 0.25f32
)"},
      {"global_average", 0, R"(
in X: f32[$C,$H,$H], const G: f32[$C], out Y: f32[$C]
alloc T: f32[$C]
T: S c C, R y H, R x H : init { T[vc] = 0.0f32 } T[vc] += max(X[vc,vy,vx], 0.0f32)
Y: S c C : Y[vc] = T[vc] * 0.5f32 + G[vc]
)"},
      {"softmax_of_columns", 1e-5, R"(
in X: f32[$M,$N], out Y: f32[$M,$N]
alloc Q: f32[$N] ; E: f32[$M,$N] ; Z: f32[$N]
Q: S j N, R k M : init { Q[vj] = -inf_f32 } Q[vj] max= X[vk,vj]
E: S i M, S j N : E[vi,vj] = exp(X[vi,vj] - Q[vj])
Z: S j N, R k M : init { Z[vj] = 0.0f32 } Z[vj] += E[vk,vj]
Y: S i M, S j N : Y[vi,vj] = E[vi,vj] / Z[vj]
)"},
      {"rms_norm", 1e-4, R"(
in X: f32[$M,$N], const G: f32[$N], out Y: f32[$M,$N]
alloc V: f32[$M]
V: S i M, R k N : init { V[vi] = 1.0f32 } V[vi] += X[vi,vk] * X[vi,vk]
Y: S i M, S j N : Y[vi,vj] = X[vi,vj] / sqrt(V[vi]) * G[vj]
)"},
      {"argmax", 0, R"(
in X: f32[$M,$N], out Y: i64[$M]
alloc Q: f32[$M] ; A: i64[$M]
Q: S i M, R k N : init { Q[vi] = -inf_f32 } Q[vi] max= X[vi,vk]
A: S i M, R k N : init { A[vi] = $N } A[vi] min= if X[vi,vk] == Q[vi] then vk else $N
Y: S i M : Y[vi] = A[vi] * 2
)"},
      {"sum_and_max", 0, R"(
in X: f32[$M,$N], out Y: f32[$M], out Z: f32[$M]
alloc T: f32[$M,$N]
T: S i M, S j N : T[vi,vj] = X[vi,vj] * 2.0f32
Y: S i M, R j N : init { Y[vi] = 0.0f32 } Y[vi] += T[vi,vj]
Z: S i M, R j N : init { Z[vi] = -inf_f32 } Z[vi] max= T[vi,vj]
)"},
      {"masked_sum", 0, R"(
in X: f32[$M,$N], in I: bool[$M,$N], out Y: f32[$M]
alloc S: f32[$M,$N]
S: S i M, S j N : S[vi,vj] = if I[vi,vj] then X[vi,vj] else 0.0f32
Y: S i M, R j N : init { Y[vi] = 0.0f32 } Y[vi] += S[vi,vj]
)"},
      {"count_positive", 0, R"(
in X: f32[$M,$N], out Y: i32[$N]
alloc B: bool[$M,$N]
B: S i M, S j N : B[vi,vj] = X[vi,vj] > 0.0f32
Y: S j N, R i M : init { Y[vj] = 0i32 } Y[vj] += i32(B[vi,vj])
)"},
  };
}
// clang-format on

}  // namespace nestor
