// KeptBoxes: of each image and class the boxes of the highest scores, without those that overlap one before
// too much. NonMaxSuppression makes its list of that (src/graph/compose_found.cpp).
#include <limits>

#include "nestor/parse.h"
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// I and V are the boxes that are left and their scores. M: how many these are, which one is the best, how
// many of them stay, and how many boxes are kept. A box is [top, left, bottom, right].
constexpr const char* kText = R"(
func KeptBoxes[B, C, N, K](in Boxes: f32[B,N,4], in Scores: f32[B,C,N], in Most: i64[], in Overlap: f32[],
                           in Least: f32[], out Kept: i64[B,C,K], out Count: i64[B,C]) {
  for b in B, c in C {
    block Kept(vb: S B = b, vc: S C = c) {
      alloc M: i64[4] { alloc I: i64[N] { alloc V: f32[N] {
        M[0] = 0
        M[1] = 0
        for i in N {
          if Scores[vb,vc,i] > Least[] || Least[] == -inf_f32 {
            I[M[0]] = i
            V[M[0]] = Scores[vb,vc,i]
            if V[M[0]] > V[M[1]] { M[1] = M[0] }
            M[0] = M[0] + 1
          }
        }
        M[3] = 0
        let most = max(min(min(Most[], K), M[0]), 0) {
          for k in most {
            if M[0] > 0 {
              let best = I[M[1]] { let left = M[0] {
                Kept[vb,vc,k] = best
                M[1] = 0
                M[2] = 0
                M[3] = k + 1
                for j in left {
                  let box = I[j] {
                    if box != best && !(
                        let h = min(Boxes[vb,best,2], Boxes[vb,box,2]) - max(Boxes[vb,best,0], Boxes[vb,box,0]) in
                        let w = min(Boxes[vb,best,3], Boxes[vb,box,3]) - max(Boxes[vb,best,1], Boxes[vb,box,1]) in
                        let one = (Boxes[vb,best,2] - Boxes[vb,best,0]) * (Boxes[vb,best,3] - Boxes[vb,best,1]) in
                        let other = (Boxes[vb,box,2] - Boxes[vb,box,0]) * (Boxes[vb,box,3] - Boxes[vb,box,1]) in
                        h > 0.0f32 && w > 0.0f32 && one > 0.0f32 && other > 0.0f32 &&
                        h * w / (one + other - h * w) > Overlap[]) {
                      I[M[2]] = box
                      V[M[2]] = V[j]
                      if V[M[2]] > V[M[1]] { M[1] = M[2] }
                      M[2] = M[2] + 1
                    }
                  }
                }
                M[0] = M[2]
              } }
            }
          }
        }
        Count[vb,vc] = M[3]
      } } }
    }
  }
}
)";

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
  static const PrimFunc parsed = parse_func(kText, "KeptBoxes");
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
