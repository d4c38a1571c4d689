// A function may read an image in blocks of channels and make a row-major one, or the other way round: it
// converts on its way. A map does that with vectors turned in registers. A sum doesn't. Where its lanes are
// channels, their row-major neighbours lie a plane apart, one to a line; where they are pixels, neighbours
// lie a block apart. If that is done for many elements, the conversion is better a function of its own, and
// the sum goes in one of the two orders: in blocks where it works by channels that fill them, else in rows.
//
// (Zen 3, 64 channels at 28x28 behind a convolution: windows of a channel each, 3x3, 657 us, in blocks and
// with a copy 23; MaxPool 2x2 81 and 10, 3x3 141 and 8; Softmax along rows 276 and 41, over channels 95 and
// 42, InstanceNormalization 179 and 24, MatMul 96 and 47.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/ops.h"
#include "nestor/simplify.h"
#include "src/graph/edit.h"
#include "src/graph/nests.h"
#include "src/graph/passes.h"
#include "src/graph/reorders.h"
#include "src/ops/products.h"

namespace nestor {

namespace {

constexpr int64_t kFew = 8;         // times as many elements elsewhere: no copy pays
constexpr int64_t kLeast = 2048;    // elements, nor a call
constexpr int64_t kLeastUses = 16;  // of an element of an image by products

bool reduces(const Nest& nest) {
  return std::any_of(nest.block.iters.begin(), nest.block.iters.end(), [](const IterVar& i) {
    return i.kind == IterKind::reduce && as_int(i.extent).value_or(2) > 1;
  });
}

// Whether the nest walks the lanes of a block of channels, as an access's last index, by which another one
// goes from plane to plane.
bool walks_both(const Nest& nest, int64_t lanes) {
  NestUses uses;
  uses.block(nest.block);
  for (const NestAccess& a : uses.accesses) {
    const auto* lane = a.indices->size() > 3 ? a.indices->back().as<VarRef>() : nullptr;
    for (const NestAccess& b : uses.accesses) {
      if (!lane || b.indices->size() < 3) continue;
      const auto channel = as_affine((*b.indices)[1]);
      if (channel && channel->terms.size() == 2 && coefficient(*channel, lane->var) == 1 &&
          std::any_of(channel->terms.begin(), channel->terms.end(),
                      [&](const auto& t) { return t.second == lanes; }))
        return true;
    }
  }
  return false;
}

// The node of the function that works by channels; null: none does.
const Node* by_channels(const Graph& g, const KernelCall& call) {
  for (const int i : call.nodes) {
    const Node& n = g.nodes[static_cast<size_t>(i)];
    if (find_op(n.domain, n.op, n.opset)->by_channels) return &n;
  }
  return nullptr;
}

ValueId made_by_channels(const Graph& g, const KernelCall& call) {
  const Node* n = by_channels(g, call);
  return n ? n->outputs[0] : -1;
}

// The images that a function reads and makes, in elements of the largest ones: neither weights, nor what has
// a number for each channel or row of one.
struct Images {
  int64_t in_blocks = 0, row_major = 0;
  bool floats = true;
};
Images images_in(const Graph& g, const Partition& p, const KernelCall& call) {
  const Node* n = by_channels(g, call);
  std::set<ValueId> images(call.args.begin(), call.args.end());
  if (n) images = images_of(g, call, {n->outputs[0]});
  Images out;
  for (const ValueId v : images) {
    const TensorType& t = value_of(g, v).type;
    const std::vector<int64_t> shape = t.shape.typical();
    if (is_constant(g, v) || shape.size() < 3 || product(shape) == shape[0] * shape[1]) continue;
    int64_t& most = p.blocked.count(v) ? out.in_blocks : out.row_major;
    most = std::max(most, product(shape));
    out.floats &= t.dtype == DType::f32;
  }
  return out;
}

int64_t typical(const Partition& p, const Expr& extent) {
  VarMap sizes;
  for (const auto& [dim, size] : p.typical) sizes[dim] = Expr(size);
  return as_int(simplify(substitute(extent, sizes))).value_or(0);
}

// Maps beside a sum are planned with it, and don't turn vectors either.
bool converts_in_sums(const Partition& p, const PrimFunc& f, const Images& images, bool makes_rows,
                      int64_t lanes) {
  if (images.in_blocks < kLeast || images.row_major == 0) return false;
  const auto nests = read_nests(f);
  if (!nests) return false;
  int64_t products = 0;
  bool both = false;
  for (const Nest& nest : *nests) {
    int64_t instances = reduces(nest);
    for (const IterVar& i : nest.block.iters) instances *= typical(p, i.extent);
    products += instances;
    both |= walks_both(nest, lanes);
  }
  if (products == 0) return false;
  if (both) return images.row_major >= std::max(kLeast, images.in_blocks / kFew);
  return makes_rows && images.floats && products >= kLeastUses * images.in_blocks;
}

// Few filters over an image in blocks: each of their results is a dot product along channels, as it is
// (tile_dots.cpp). (Zen 5, behind a convolution, the copy included: 64 channels to 3 at 56x56 68 to 45 us,
// 128 to 3 by 5x5 at 56x56 332 to 232, 128 to 4 at 7x7 5.2 to 1.8; 256 to 7 at 28x28 3 % more. By AVX2 16 to
// 3 at 28x28 9.4 to 7.3, 64 to 5 47 to 37, 64 to 7 60 to 65.)
bool sums_along_channels(const Graph& g, const KernelCall& call, int64_t lanes) {
  constexpr int64_t kMostFilters = 8, kLeastBlocks = 2;
  const Node* n = by_channels(g, call);
  if (!n || n->op != "Conv" || !n->domain.empty() || !is_constant(g, n->inputs[1])) return false;
  const ops::ConvShape s = ops::conv_shape(OpContext(g, *n), 1);
  return s.group == 1 && s.filters > 1 && s.filters <= std::min(kMostFilters, lanes / 2 + 1) &&
         s.channels >= kLeastBlocks * lanes && s.channels % lanes != 1;
}

// What the function's last node makes.
ValueId last_of(const Graph& g, const KernelCall& call) {
  return g.nodes[static_cast<size_t>(call.nodes.back())].outputs[0];
}

}  // namespace

bool separate_layouts(Graph& g, Partition& p, const PartitionOptions& how) {
  if (how.channel_block <= 1) return false;
  const auto converts = [&](const Graph& graph, const Partition& q, const KernelCall& call) {
    return !sums_along_channels(graph, call, how.channel_block) &&
           converts_in_sums(q, q.funcs[static_cast<size_t>(call.func)], images_in(graph, q, call),
                            !q.blocked.count(call.args.back()), how.channel_block);
  };
  bool any = false;
  std::set<ValueId> tried_in_blocks, tried_in_rows;
  for (;;) {
    std::set<ValueId> in_blocks, in_rows;
    for (const KernelCall& call : p.calls) {
      if (!converts(g, p, call)) continue;
      const ValueId made = made_by_channels(g, call), last = last_of(g, call);
      if (made >= 0 && !tried_in_blocks.count(made))
        in_blocks.insert(made);
      else if (!tried_in_rows.count(last))
        in_rows.insert(last);
    }
    if (in_blocks.empty() && in_rows.empty()) return any;
    const bool rows = in_blocks.empty();
    const std::set<ValueId>& chosen = rows ? in_rows : in_blocks;
    std::set<ValueId>& tried = rows ? tried_in_rows : tried_in_blocks;
    Graph changed = rows ? with_rows(g, p, chosen) : with_reorders(g, p, chosen);
    Partition q = partition(changed, how);
    bool helps = true;
    for (const KernelCall& call : q.calls) {
      const ValueId which = rows ? last_of(changed, call) : made_by_channels(changed, call);
      if (!chosen.count(which) || !converts(changed, q, call)) continue;
      helps = false;
      tried.insert(which);
    }
    if (!helps) continue;
    tried.insert(chosen.begin(), chosen.end());
    for (Node& n : changed.nodes)
      if (chosen.count(n.outputs[0]))
        n.why = fmt::format(
            "it works on {0}, the rest of the group on {1}; `Reorder` converts each element once, not at "
            "each "
            "read",
            rows ? "rows" : "blocks of channels", rows ? "blocks of channels" : "rows");
    g = std::move(changed);
    p = std::move(q);
    any = true;
  }
}

}  // namespace nestor
