// KeptBoxes: of each image and class the boxes of the highest scores, without those that overlap one before
// too much. NonMaxSuppression makes its list of that (src/graph/compose_found.cpp).
#include <limits>

#include "nestor/parse.h"
#include "src/ops/common.h"
#include "src/ops/merge_sort.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// I is the boxes whose score is high enough, then these in order; J, after that, the boxes that are kept. M:
// how many are in I; how many are kept; whether a box is left out. A box is [top, left, bottom, right].
std::string text() {
  return R"(
func KeptBoxes[B, C, N, K](in Boxes: f32[B,N,4], in Scores: f32[B,C,N], in Most: i64[], in Overlap: f32[],
                           in Least: f32[], out Kept: i64[B,C,K], out Count: i64[B,C]) {
  for b in B, c in C {
    block Kept(vb: S B = b, vc: S C = c) {
      alloc M: i64[3] { alloc W: i64[3] { alloc I: i64[N] { alloc J: i64[N] {
        M[0] = 0
        for i in N {
          if Scores[vb,vc,i] > Least[] || Least[] == -inf_f32 {
            I[M[0]] = i
            M[0] = M[0] + 1
          }
        }
        let all = M[0] {)" +
         merge_sort("all", "Scores[vb,vc,{0}] >= Scores[vb,vc,{1}]") + R"(
          M[1] = 0
          for i in all {
            if M[1] < min(Most[], K) {
              let kept = M[1] { let box = I[i] {
                M[2] = 0
                for k in kept {
                  if M[2] == 0 {
                    if let of = J[k] in
                       let h = min(Boxes[vb,of,2], Boxes[vb,box,2]) - max(Boxes[vb,of,0], Boxes[vb,box,0]) in
                       let w = min(Boxes[vb,of,3], Boxes[vb,box,3]) - max(Boxes[vb,of,1], Boxes[vb,box,1]) in
                       let one = (Boxes[vb,of,2] - Boxes[vb,of,0]) * (Boxes[vb,of,3] - Boxes[vb,of,1]) in
                       let other = (Boxes[vb,box,2] - Boxes[vb,box,0]) * (Boxes[vb,box,3] - Boxes[vb,box,1]) in
                       h > 0.0f32 && w > 0.0f32 && one > 0.0f32 && other > 0.0f32 &&
                       h * w / (one + other - h * w) > Overlap[] {
                      M[2] = 1
                    }
                  }
                }
                if M[2] == 0 {
                  J[kept] = box
                  Kept[vb,vc,kept] = box
                  M[1] = kept + 1
                }
              } }
            }
          }
          Count[vb,vc] = M[1]
        }
      } } } }
    }
  }
}
)";
}

Dim most_kept(const OpContext& ctx) {
  return min(Dim(ctx.get_int("most", std::numeric_limits<int64_t>::max())), ctx.input(0).shape[1]);
}

std::vector<TensorType> infer(const OpContext& ctx) {
  require_rank(ctx, 1, 3);
  const Dims& scores = ctx.input(1).shape;
  require_shape(ctx, 0, {scores[0], scores[2], 4});
  return {{DType::i64, {scores[0], scores[1], most_kept(ctx)}}, {DType::i64, {scores[0], scores[1]}}};
}

void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  static const PrimFunc parsed = parse_func(text(), "KeptBoxes");
  const Dims& scores = ctx.input(1).shape;
  Tensors args = in;
  args.push_back(out[0]);
  args.push_back(out[1]);
  b.inlined(parsed, args, {scores[0].expr(), scores[1].expr(), scores[2].expr(), most_kept(ctx).expr()});
}

}  // namespace

void register_kept_boxes(Rows& rows) {
  rows.push_back({.name = "KeptBoxes",
                  .domain = "nestor",
                  .min_inputs = 5,
                  .max_inputs = 5,
                  .pattern = Pattern::opaque,
                  .params = "X S M O L",
                  .infer = infer,
                  .build = build});
}

}  // namespace nestor::ops
