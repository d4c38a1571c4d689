// Col2Im: blocks of an image lie in columns, [N, C * elements of a block, blocks], and are added up where
// they overlap. Written as sums over what an output reads: output o of a dimension takes tap r of block (o +
// pad - dilation * r) / stride, where that is a whole number of a block that there is. Along the last
// dimension outputs are counted by whole strides and residues: for each residue lanes read what lies side by
// side, and what is written is interleaved. Along the others quotients are scalars, so that one nest serves
// all residues, however many.
//
// nestor.Col2Im adds a bias for each channel: ConvTranspose with few filters is a product of matrices and
// this (use_col2im).
#include <numeric>
#include <tuple>

#include "nestor/error.h"
#include "nestor/simplify.h"
#include "src/ops/products.h"
#include "src/ops/registry.h"
#include "src/ops/transposed.h"
#include "src/ops/window.h"

namespace nestor::ops {

namespace {

struct Col2ImShape {
  Dim n, channels;
  int64_t taps;                      // of a block
  std::vector<TransposedWindow> at;  // by dimension: `input` blocks in it
};

Col2ImShape col2im_shape(const OpContext& ctx) {
  require_rank(ctx, 0, 3);
  const Dims &x = ctx.input(0).shape, image = ctx.ints_from(1, "image_shape"),
             block = ctx.ints_from(2, "block_shape");
  const size_t rank = image.size();
  if (rank < 1 || rank > 3)
    ctx.fail("`image_shape` has " + std::to_string(rank) + " dimensions; one to three are supported");
  require_kernel(ctx, block, rank);
  const Dims pads = spatial_list(ctx, "pads", 2 * rank, 0, 0),
             strides = spatial_list(ctx, "strides", rank, 1, 1),
             dilations = spatial_list(ctx, "dilations", rank, 1, 1);
  Col2ImShape s{x[0], 0, 1, {}};
  Dim blocks = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (image[d] > kMostElements)
      ctx.fail("`image_shape` contains " + to_string(image[d]) + ", which is too large");
    const int64_t reach = extent_of(ctx, block[d], dilations[d], d);
    const Dim padded = image[d] + pads[d] + pads[d + rank];
    if (image[d] < 1 || padded < reach)
      ctx.fail("blocks of " + std::to_string(reach) + " elements don't fit into the " + to_string(padded) +
               " of the padded image (spatial dimension " + std::to_string(d) + ")");
    const Dim count = (padded - reach) / strides[d] + 1;
    if (mul_overflows(blocks, count, blocks) ||
        __builtin_mul_overflow(s.taps, static_cast<int64_t>(block[d]), &s.taps))
      ctx.fail("there are too many blocks, or they have too many elements");
    s.at.push_back({count, block[d], strides[d], dilations[d], pads[d], image[d]});
  }
  if (!must_equal(x[1] % s.taps, 0, "columns hold whole blocks") || !must_equal(x[2], blocks))
    ctx.fail("the input is " + to_string(ctx.input(0)) + "; blocks have " + std::to_string(s.taps) +
             " elements, which must divide its second dimension, and the image is of " + to_string(blocks) +
             " blocks, which must be its third");
  s.channels = x[1] / s.taps;
  return s;
}

// What tap t reads of the blocks along a dimension.
struct Place {
  Expr row, block;  // element of the block; which block
  Expr inside;      // whether there are such, where any tap reaches the output
};

// The i with i * d = 1 modulo s, which share no divisor.
int64_t inverse(int64_t d, int64_t s) {
  int64_t a = s, b = d % s, of_a = 0, of_b = 1;  // of_a * d = a modulo s
  while (b > 0) std::tie(a, b, of_a, of_b) = std::tuple(b, a % b, of_b, of_a - a / b * of_b);
  return (of_a % s + s) % s;
}

// Whether taps reach output stride * a + j; where stride and dilation share a divisor, they pass most by.
Expr is_reached(const TransposedWindow& w, const Expr& j) {
  const int64_t g = std::gcd(w.stride, w.dilation);
  return g == 1 ? make::bool_imm(true) : eq((j + Expr(w.pad)) % Expr(g), 0);
}

// Of output stride * a + j, tap 0 <= t < taps_of(w). With g the divisor that stride and dilation share, s and
// d what is left of them, and q = (j + pad) / g: d * r = q modulo s, which r = q / d modulo s solves, and r +
// s, and so on.
Place place_of(const TransposedWindow& w, const Expr& a, const Expr& j, const Expr& t) {
  const int64_t g = std::gcd(w.stride, w.dilation), s = w.stride / g, d = w.dilation / g;
  const Expr shifted = j + Expr(w.pad), q = g == 1 ? shifted : shifted / Expr(g);
  const Expr lowest = s == 1 ? Expr(0) : q * Expr(inverse(d, s)) % Expr(s);
  const Expr first = d == 1 ? q / Expr(s) : (q - lowest * Expr(d)) / Expr(s);
  Place p{lowest + t * Expr(s), a + first - t * Expr(d), make::bool_imm(true)};
  if (w.kernel % s != 0) p.inside = logical_and(p.inside, lt(p.row, w.kernel));
  p.inside = logical_and(p.inside, logical_and(le(0, p.block), lt(p.block, w.input.expr())));
  return p;
}

int64_t taps_of(const TransposedWindow& w) {
  return ceil_div(w.kernel, w.stride / std::gcd(w.stride, w.dilation));
}

// n o z y p x | taps: outputs first + stride * x + p of the last dimension, 0 <= x < count, 0 <= p <
// residues.
class OutputNest {
 public:
  OutputNest(const Col2ImShape& s, DType sums, const Dim& first, const Dim& residues, const Dim& count)
      : s_(s), sums_{sums, 1}, first_(first), rank_(s.at.size()) {
    static const std::vector<std::vector<const char*>> at = {{}, {"x"}, {"y", "x"}, {"z", "y", "x"}};
    static const std::vector<std::vector<const char*>> tap = {{}, {"s"}, {"r", "s"}, {"q", "r", "s"}};
    axes_ = {{"n", s.n}, {"o", s.channels}};
    for (size_t d = 0; d + 1 < rank_; ++d) axes_.push_back({at[rank_][d], s.at[d].output});
    axes_.push_back({"p", residues});
    axes_.push_back({"x", count});
    for (size_t d = 0; d < rank_; ++d) reduced_.push_back({tap[rank_][d], taps_of(s.at[d])});
  }

  const std::vector<Axis>& axes() const { return axes_; }
  const std::vector<Axis>& reduced() const { return reduced_; }
  static Expr channel(const Exprs& i) { return i[1]; }

  Exprs output(const Exprs& i) const {
    Exprs out(i.begin(), i.end() - 2);
    const Expr whole = i[rank_ + 2] * Expr(s_.at.back().stride) + first_.expr();
    out.push_back(axes_[rank_ + 1].extent == 1 ? whole : whole + i[rank_ + 1]);
    return out;
  }

  // One tap of each dimension, by number.
  Expr term(const BuildTensor& x, const Exprs& i, const Exprs& r) const {
    Expr row = channel(i), block(0), inside = reached(i);
    for (size_t d = 0; d < rank_; ++d) {
      const Place p = place(i, d, r[d]);
      row = row * Expr(s_.at[d].kernel) + p.row;
      block = block * s_.at[d].input.expr() + p.block;
      inside = logical_and(inside, p.inside);
    }
    return where(inside, read(x, i, row, block, facts(i, r)), facts(i, r));
  }

  // All taps. What a dimension decides is asked once for all taps of those inside of it: along lines each
  // question is a branch. (Cascade Lake, 4x4x4 taps, dilated, on 8x8x5: 3.5 to 0.7 ms.)
  Expr sum(const BuildTensor& x, const Exprs& i) const {
    return where(reached(i), sum_from(0, x, i, channel(i), Expr(0)), facts(i, {}));
  }

 private:
  Facts facts(const Exprs& i, const Exprs& r) const {
    Facts out;
    const auto know = [&](const Expr& e, const Dim& extent) {
      if (const auto* v = e.as<VarRef>()) out.set(v->var, {0, extent.range().hi - 1});
    };
    for (size_t k = 0; k < axes_.size(); ++k) know(i[k], axes_[k].extent);
    for (size_t d = 0; d < r.size(); ++d) know(r[d], reduced_[d].extent);
    return out;
  }

  // The place inside of a stride, or of all along a dimension whose strides aren't counted.
  Expr residue(const Exprs& i, size_t d) const {
    return d + 1 < rank_ ? i[d + 2] : i[rank_ + 1] + first_.expr();
  }
  Expr reached(const Exprs& i) const {
    Expr out = make::bool_imm(true);
    for (size_t d = 0; d < rank_; ++d) out = logical_and(out, is_reached(s_.at[d], residue(i, d)));
    return out;
  }
  Place place(const Exprs& i, size_t d, const Expr& tap) const {
    return place_of(s_.at[d], d + 1 < rank_ ? Expr(0) : i[rank_ + 2], residue(i, d), tap);
  }
  Expr read(const BuildTensor& x, const Exprs& i, const Expr& row, const Expr& block,
            const Facts& facts) const {
    return make::cast(sums_, x.at({i[0], simplify(row, facts), simplify(block, facts)}));
  }
  Expr where(const Expr& condition, const Expr& value, const Facts& facts) const {
    const Expr holds = simplify(condition, facts);
    return is_const_int(holds, 1) ? value : make::select(holds, value, make::imm(0, sums_));
  }
  Expr sum_from(size_t d, const BuildTensor& x, const Exprs& i, const Expr& row, const Expr& block) const {
    if (d == rank_) return read(x, i, row, block, facts(i, {}));
    Expr sum;
    for (int64_t t = 0; t < reduced_[d].extent; ++t) {
      const Place p = place(i, d, Expr(t));
      const Expr term = where(
          p.inside,
          sum_from(d + 1, x, i, row * Expr(s_.at[d].kernel) + p.row, block * s_.at[d].input.expr() + p.block),
          facts(i, {}));
      sum = sum ? sum + term : term;
    }
    return sum;
  }

  const Col2ImShape& s_;
  Type sums_;
  Dim first_;
  size_t rank_;
  std::vector<Axis> axes_, reduced_;
};

// Whole strides of the last dimension, and what is left over.
std::vector<OutputNest> nests_of(const Col2ImShape& s, DType sums) {
  const TransposedWindow& w = s.at.back();
  const Dim whole = w.output / w.stride, rest = w.output % w.stride;
  std::vector<OutputNest> out;
  if (whole != 0) out.emplace_back(s, sums, 0, w.stride, whole);
  if (rest != 0) out.emplace_back(s, sums, whole * w.stride, rest, 1);
  return out;
}

std::vector<TensorType> infer(const OpContext& ctx) {
  require_type(ctx, 0, kFactors);
  const Col2ImShape s = col2im_shape(ctx);
  if (ctx.has_input(3)) {
    require_same_type(ctx, 0, 3);
    if (!must_be(ctx.input(3).shape, {s.channels}))
      ctx.fail("the bias is " + to_string(ctx.input(3)) + ", the image has " + to_string(s.channels) +
               " channels");
  }
  Dims out = {s.n, s.channels};
  for (const TransposedWindow& w : s.at) out.push_back(w.output);
  return {{ctx.input(0).dtype, out}};
}

// Few taps are a sum in one expression, whose result is written once; many are a reduction. Of three
// dimensions more are few: lanes of a reduction would be short, and each asks for all three where it lies.
// (Cascade Lake, 5x5x5 taps on 16x8x12, dilated as far as strides go, 3.4 to 0.19 ms, on 16x8x8 without
// strides 1.0 to 0.4; 10x10 taps on 32x32 0.11, as one expression 0.14.) Floats of 16 bits are added up in
// f32 and rounded once.
void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Col2ImShape s = col2im_shape(ctx);
  const int64_t few = s.at.size() > 2 ? 128 : 64;
  const BuildTensor &x = in[0], bias = in.size() > 3 ? in[3] : BuildTensor{};
  const Type type{out[0].dtype(), 1}, sums{is_half(type.dtype) ? DType::f32 : type.dtype, 1};
  for (const OutputNest& nest : nests_of(s, sums.dtype)) {
    const auto start = [&](const Exprs& i) {
      return bias ? make::cast(sums, bias(nest.channel(i))) : make::imm(0, sums);
    };
    int64_t terms = 1;
    for (const Axis& r : nest.reduced()) terms *= r.extent;
    const auto at = [&](const Exprs& i) { return nest.output(i); };
    if (terms <= few) {
      b.compute(
          out[0], nest.axes(),
          [&](const Exprs& i) {
            const Expr sum = nest.sum(x, i);
            return make::cast(type, bias ? start(i) + sum : sum);
          },
          at);
      continue;
    }
    Dims shape;
    for (const Axis& a : nest.axes()) shape.push_back(a.extent);
    const BuildTensor t = b.temp("T", {sums.dtype, shape});
    b.reduce(t, nest.axes(), nest.reduced(), ReduceOp::add,
             [&](const Exprs& i, const Exprs& r) { return nest.term(x, i, r); });
    b.compute(
        out[0], nest.axes(),
        [&](const Exprs& i) { return make::cast(type, bias ? t.at(i) + start(i) : t.at(i)); }, at);
  }
}

}  // namespace

void register_col2im(Rows& rows) {
  rows.push_back({.name = "Col2Im",
                  .since = 18,
                  .min_inputs = 3,
                  .max_inputs = 3,
                  .pattern = Pattern::reduction,
                  .params = "X Image Block",
                  .infer = infer,
                  .build = build,
                  .static_inputs = {1, 2},
                  .note = "f16 and bf16 are summed in f32 and rounded once"});
  OpDef with_bias = rows.back();
  with_bias.domain = "nestor";
  with_bias.since = 1;
  with_bias.max_inputs = 4;
  with_bias.params = "X Image Block B";
  with_bias.note = "Col2Im and a bias for each channel; made by the compiler, not by models.";
  rows.push_back(std::move(with_bias));
}

}  // namespace nestor::ops
