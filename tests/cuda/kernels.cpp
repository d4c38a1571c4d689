#include "kernels.h"

#include "catch.h"
#include "nestor/driver.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"
#include "schedules/library/cuda.h"

namespace nestor::testing {

namespace {

struct Row {
  const char *name, *spec, *schedule;
};

const char* const kProduct = R"(func tensorized(in A: f16[32,48], in B: f16[48,16], out C: f32[32,16]) {
  for i in 32, j in 16, k in 48 {
    block C(vi: S 32 = i, vj: S 16 = j, vk: R 48 = k) {
      init { C[vi,vj] = 1.0f32 }
      C[vi,vj] += f32(A[vi,vk]) * f32(B[vk,vj])
    }
  }
}
)";
// Each warp has a tile of 16 x 8; both operands go through shared memory.
const char* const kTensorized = R"(
  i0 i1 = split C.i [_, 16]
  j0 j1 = split C.j [_, 8]
  k0 k1 = split C.k [_, 16]
  reorder C (i0 k0 j0 i1 j1 k1)
  As = cache_read C A shared
  ai ak = compute_at As C.k0
  Bs = cache_read C B shared
  bk bj = compute_at Bs C.k0
  decompose_reduction C.k0
  ag = fuse As (ai ak)
  a0 a1 = split As.ag [_, 32]
  bind As.a1 threadIdx.x
  bg = fuse Bs (bk bj)
  b0 b1 = split Bs.bg [_, 32]
  bind Bs.b1 threadIdx.x
  g = fuse C_init (i1 j1)
  g0 g1 = split C_init.g [_, 32]
  bind C_init.g1 threadIdx.x
  bind C.i0 blockIdx.x
  bind C.j0 threadIdx.y
  tensorize C.i1 mma_m16n8k16
)";

const char* const kTransposed = R"(
  r0 r1 = split Y.i [_, 16]
  c0 c1 = split Y.j [_, 16]
  reorder Y (r0 c0 r1 c1)
  T = cache_read Y X shared
  a b = compute_at T Y.c0
  bind Y.r0 blockIdx.y
  bind Y.c0 blockIdx.x
  bind Y.r1 threadIdx.y
  bind Y.c1 threadIdx.x
  bind T.a threadIdx.y
  bind T.b threadIdx.x
)";
const char* const kConvolved = R"(
  y0 y1 = split Y.y [_, 5]
  reorder Y (n o y0 c y1 x r s)
  pa pc ph pw = compute_at P Y.c
  set_scope P shared
  Ws = cache_read Y W shared
  wa wc wr ws = compute_at Ws Y.c
  bind Y.o blockIdx.x
  bind Y.y1 threadIdx.y
  bind Y.x threadIdx.x
  bind P.ph threadIdx.y
  bind P.pw threadIdx.x
  bind Ws.wr threadIdx.y
  bind Ws.ws threadIdx.x
)";
const char* const kDepthwise = R"(
  y0 y1 = split Y.y [_, 5]
  pa pc ph pw = compute_at P Y.y0
  set_scope P shared
  bind Y.o blockIdx.x
  bind Y.y1 threadIdx.y
  bind Y.x threadIdx.x
  bind P.ph threadIdx.y
  bind P.pw threadIdx.x
)";
const char* const kPooled = R"(
  pc ph pw = compute_at P Y.nc
  set_scope P shared
  bind Y.nc blockIdx.x
  bind Y.y threadIdx.y
  bind Y.x threadIdx.x
  bind P.ph threadIdx.y
  bind P.pw threadIdx.x
)";
const char* const kNormalized = R"(
  i0 i1 = split Y.i [_, 4]
  a = compute_at InvStd Y.i0
  b = compute_at Squares Y.i0
  c = compute_at Mean Y.i0
  d = compute_at Sum Y.i0
  j0 j1 = split Y.j [_, 32]
  set_scope InvStd shared
  set_scope Squares shared
  set_scope Mean shared
  set_scope Sum shared
  bind Y.i0 blockIdx.x
  bind Y.i1 threadIdx.y
  bind Y.j1 threadIdx.x
  bind InvStd.a threadIdx.x
  bind Squares.b threadIdx.y
  bind Mean.c threadIdx.x
  bind Sum.d threadIdx.y
)";
const char* const kSummed = R"(
  j0 j1 = split Y.j [_, 64]
  P = rfactor Y.j1
  reorder P (j1 j0)
  set_scope P shared
  bind Y.i blockIdx.x
  bind P.j1 threadIdx.x
)";
const char* const kTree = R"(
  j0 j1 = split Y.j [_, 64]
  reorder Y (j1 j0)
  Y_part = reduce_threads Y.j1
  bind Y_part.i blockIdx.x
)";
const char* const kScanned = R"(
  a = compute_at Vectors Y.i
  b c = compute_at Lanes Y.i
  d e = compute_at Groups Y.i
  set_scope Vectors shared
  set_scope Lanes shared
  set_scope Groups shared
  bind Y.i blockIdx.x
  bind Y.l threadIdx.x
  bind Lanes.c threadIdx.x
  bind Groups.e threadIdx.x
  bind Vectors.a threadIdx.x
)";

// The last ones by defaults that may have no threads that wait.
const Row kOperators[] = {
    {"batched MatMul", "MatMul(f32[2,100,70], f32[70,90])", ""},
    {"Gemm, B transposed", "Gemm(f32[65,33], f32[66,33], f32[66]; transB=1)", ""},
    {"MatMul, ragged", "MatMul(f32[67,70], f32[70,61])", ""},
    {"Conv", "Conv(f32[1,4,10,10], f32[3,4,3,3]; pads=[1,1,1,1])", kConvolved},
    {"depthwise Conv", "Conv(f32[1,4,10,10], f32[4,1,3,3]; pads=[1,1,1,1], group=4)", kDepthwise},
    {"MaxPool", "MaxPool(f32[1,3,9,9]; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1])", kPooled},
    {"LayerNormalization", "LayerNormalization(f32[10,70], f32[70], f32[70])", kNormalized},
    {"ReduceMax, shuffles", "ReduceMax@13(f32[5,512]; axes=[1])", kTree},
    {"ReduceSum", "ReduceSum(f32[3,512], i64[1]{1})", kSummed},
    {"Transpose", "Transpose(f32[40,50]; perm=[1,0])", kTransposed},
    {"CumSum", "CumSum(f32[10,64], i64[1]{1})", kScanned},
    {"Conv, default", "Conv(f32[1,8,10,10], f32[9,8,3,3]; pads=[1,1,1,1])", ""},
    {"depthwise, default", "Conv(f32[1,4,20,20], f32[4,1,3,3]; pads=[1,1,1,1], group=4)", ""},
    {"Softmax, default", "Softmax(f32[5,300])", ""},
    {"Softmax, long rows", "Softmax(f32[2,5000])", ""},
    {"LayerNorm, default", "LayerNormalization(f32[5,300], f32[300], f32[300])", ""},
    {"ReduceMean, default", "ReduceMean@13(f32[5,300]; axes=[1])", ""},
    {"ReduceSum, default", "ReduceSum(f32[9000])", ""},
    {"MatMul, sums in parts", "MatMul(f32[16,1024], const f32[1024,32])", ""},
    {"MatMul, few rows", "MatMul(f32[3,96], const f32[96,70])", ""},
    {"Gemm, few rows, B transposed", "Gemm(f32[3,300], const f32[20,300]; transB=1)", ""},
    {"Transpose, default", "Transpose(f32[70,90]; perm=[1,0])", ""},
};

// The tiled MatMul with further steps.
CudaCase product_with(const std::string& steps, const std::string& name) {
  auto [func, scheduled] = example("matmul");
  func.name = scheduled.name = name;
  return make_case(func, apply(scheduled, parse_trace(steps)));
}

}  // namespace

CudaCase make_operator_case(const std::string& spec, const std::string& schedule, const std::string& name) {
  CompileOptions options;
  options.target = parse_target("cuda:sm_80");
  const CompiledModel m = compile_model(spec, options);
  REQUIRE(m.partition.funcs.size() == 1);
  PrimFunc f = m.partition.funcs[0];
  f.name = name;
  return make_case(
      f, apply(f, schedule.empty() ? default_cuda_schedule(f, options.target) : parse_trace(schedule)),
      options.target);
}

std::vector<NamedCase> waiting_kernels() {
  std::vector<NamedCase> out;
  out.push_back({"MatMul", product_with("", "product")});
  out.push_back({"MatMul, 2 slots", product_with("software_pipeline C.k0 stages=2", "two_slots")});
  out.push_back({"MatMul, 3 slots", product_with("software_pipeline C.k0 stages=3", "three_slots")});
  const PrimFunc product = parse_func(kProduct);
  out.push_back({"MatMul, tensor cores", make_case(product, apply(product, parse_trace(kTensorized)))});
  const auto [softmax, scheduled] = example("softmax");
  out.push_back({"Softmax", make_case(softmax, scheduled)});
  for (const Row& r : kOperators)
    out.push_back({r.name, make_operator_case(r.spec, r.schedule, "operator_" + std::to_string(out.size()))});
  return out;
}

}  // namespace nestor::testing
