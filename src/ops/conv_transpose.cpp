// ConvTranspose in one to three spatial dimensions: input element i and tap r add to output
// stride * i + dilation * r - pad. Written as sums over what an output reads, it is a convolution for each
// residue of (output + pad) modulo the stride, over the taps that reach such outputs: nothing is multiplied
// by zeros that a stride leaves out. Neighbouring residues that have as many taps, begin at the same input
// and run as long share one nest, with an iterator for them, so that a dimension has few classes (four, say)
// where nothing is dilated, and one where the stride divides kernel and padding. What no tap reaches is
// filled, as few boxes of it as there are. Where there are fewer filters than lanes, and rows fill these much
// better, one iterator stands for filters and residues: neither alone would be rows enough of a tile. (Zen 3,
// 8 filters in 8 lanes, by an iterator each: 5x5x5/4 of 64 channels on 14x10x12 11.8 to 3.7 ms, 4x4/4 of 16
// on 64x64 1.1 to 0.28.) Where rows are short, constant filters fill the lanes. (Zen 5: 18 of 39 works that
// had one iterator take two thirds of the time and less, the worst one 15 % more; others take 10 to 38 more.)
//
// nestor.ConvTranspose has its weights in Conv's order, filters first: constant ones can then lie in blocks
// of filters (flip_convolutions). Its attribute `lanes` is how many f32 the target's vectors have.
#include <algorithm>

#include "src/ops/products.h"
#include "src/ops/registry.h"
#include "src/ops/transposed.h"

namespace nestor::ops {

namespace {

// The nests of one class in each dimension.
class ClassNest {
 public:
  ClassNest(const TransposedShape& s, const ResidueClasses& classes, int64_t lanes)
      : s_(s), classes_(classes) {
    static const std::vector<std::vector<const char*>> at = {{}, {"x"}, {"y", "x"}, {"z", "y", "x"}};
    static const std::vector<std::vector<const char*>> tap = {{}, {"s"}, {"r", "s"}, {"q", "r", "s"}};
    axes_ = {{"n", s.n}, {"o", s.filters}};
    const size_t rank = classes.size();
    joined_ = s.filters.typical() < lanes && !empty() && rows_fill_better(lanes);
    for (size_t d = 0; d < rank; ++d) {  // what chooses the weights stands outside
      residue_.push_back(axes_.size());
      if (classes[d].residues == 1) continue;
      if (joined_)
        axes_[1].extent *= classes[d].residues;
      else
        axes_.push_back({std::string("p") + at[rank][d], classes[d].residues});
    }
    for (size_t d = 0; d < rank; ++d) {
      position_.push_back(axes_.size());
      axes_.push_back({at[rank][d], classes[d].count});
      reduced_.push_back({tap[rank][d], classes[d].taps});
    }
    reduced_.push_back({"c", s.channels / s.group});
  }

  // The element of the output (n, o, spatial...) that an iteration writes.
  Exprs output(const Exprs& i) const {
    Exprs out = {i[0], filter(i)};
    for (size_t d = 0; d < classes_.size(); ++d)
      out.push_back(i[position_[d]] * Expr(classes_[d].stride) + residue(i, d) * Expr(classes_[d].apart) +
                    Expr(classes_[d].first));
    return out;
  }

  // P, the input with zeros around it as far as the sums reach, and T: n o p... y x | r s c.
  BuildTensor sum(FuncBuilder& b, const BuildTensor& x, const BuildTensor& w, DType type) const {
    const Window window = input_window();
    const BuildTensor p = padded_input(b, window, x, constant_like(x, 0));
    const Expr channels = (s_.channels / s_.group).expr(), filters = (s_.filters / s_.group).expr();
    const Factor widen = widened(type);
    Dims shape;
    for (const Axis& a : axes_) shape.push_back(a.extent);
    const BuildTensor t = b.temp("T", {type, shape});
    b.reduce(t, axes_, reduced_, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
      const Expr c = r.back();
      const Expr o = filter(i), channel = s_.group == 1 ? c : group(i) * channels + c;
      Exprs p_at = {i[0], channel}, w_at = {channel, s_.group == 1 ? o : o % filters};
      if (s_.filters_first) w_at = {o, c};
      for (size_t d = 0; d < classes_.size(); ++d) {
        const ResidueClass& k = classes_[d];
        p_at.push_back(i[position_[d]] + r[d] * Expr(k.input_step) + Expr(k.from + window.pad_begin[d]));
        w_at.push_back(residue(i, d) + Expr(k.tap) - r[d] * Expr(k.tap_step));
      }
      return widen(p.at(p_at), i) * widen(w.at(w_at), i);
    });
    return t;
  }

  // Whether no tap reaches these outputs.
  bool empty() const {
    return std::any_of(classes_.begin(), classes_.end(), [](const ResidueClass& c) { return c.taps == 0; });
  }
  const std::vector<Axis>& axes() const { return axes_; }
  Expr filter(const Exprs& i) const { return joined_ ? divided(i[1], residues_from(0)) : i[1]; }

 private:
  Window input_window() const {
    Window w;
    w.input = s_.input;
    w.kernel = w.stride = w.dilation = Dims(classes_.size(), 1);
    for (const ResidueClass& c : classes_) {
      w.pad_begin.push_back(std::max<int64_t>(-c.from, 0));
      w.output.push_back(c.from + w.pad_begin.back() + c.count + (c.taps - 1) * c.input_step);
    }
    return w;
  }
  // Whether vectors along rows waste much less than vectors of filters, which only constants are laid out
  // for.
  bool rows_fill_better(int64_t lanes) const {
    constexpr double kBetter = 1.5;
    const int64_t row =
        std::max<int64_t>(1, s_.output.back().typical() / s_.stride.back());  // of most residues
    if (!s_.filters_first) return true;
    if (s_.filters == s_.group) return row >= lanes;
    const double rows = static_cast<double>(row) / static_cast<double>(ceil_div(row, lanes) * lanes);
    return rows > kBetter * static_cast<double>(s_.filters.typical()) / static_cast<double>(lanes);
  }
  static Expr divided(const Expr& e, const Dim& by) { return by == 1 ? e : e / by.expr(); }
  // Of the dimensions from d on.
  int64_t residues_from(size_t d) const {
    int64_t out = 1;
    for (; d < classes_.size(); ++d) out *= classes_[d].residues;
    return out;
  }
  Expr group(const Exprs& i) const {
    return divided(i[1], s_.filters / s_.group * (joined_ ? residues_from(0) : 1));
  }
  Expr residue(const Exprs& i, size_t d) const {
    if (classes_[d].residues == 1) return Expr(0);
    if (!joined_) return i[residue_[d]];
    return divided(i[1], residues_from(d + 1)) % Expr(classes_[d].residues);
  }

  const TransposedShape& s_;
  ResidueClasses classes_;
  bool joined_ = false;  // one iterator for filters and residues
  std::vector<Axis> axes_, reduced_;
  std::vector<size_t> residue_, position_;  // where a dimension's iterators stand
};

std::vector<TensorType> infer_conv_transpose(const OpContext& ctx) {
  require_type(ctx, 0, kConvolved);
  const DType type = product_type(ctx, 0, 1);
  const TransposedShape s = transposed_shape(ctx);
  require_bias(ctx, s.filters);
  Dims out = {s.n, s.filters};
  out.insert(out.end(), s.output.begin(), s.output.end());
  return {{type, out}};
}

// For each choice of classes the sum, if taps reach it, and a block that puts it where it belongs, the bias
// added.
void build_conv_transpose(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const TransposedShape s = transposed_shape(ctx);
  const bool has_bias = in.size() > 2 && in[2];
  const DType type = out[0].dtype(), sums = is_half(type) ? DType::f32 : type;
  const int64_t lanes = ctx.get_int("lanes", kWidestVector);
  for (const ResidueClasses& classes : classes_of(s)) {
    const ClassNest nest(s, classes, lanes);
    const BuildTensor t = nest.empty() ? BuildTensor{} : nest.sum(b, in[0], in[1], sums);
    b.compute(
        out[0], nest.axes(),
        [&](const Exprs& i) {
          Expr y = t ? t.at(i) : has_bias ? Expr{} : make::imm(0, Type{sums, 1});
          if (has_bias) {
            const Expr bias = make::cast({sums, 1}, in[2](nest.filter(i)));
            y = y ? y + bias : bias;
          }
          return make::cast({type, 1}, y);
        },
        [&](const Exprs& i) { return nest.output(i); });
  }
}

}  // namespace

void register_conv_transpose(Rows& rows) {
  rows.push_back({.name = "ConvTranspose",
                  .since = 1,
                  .min_inputs = 2,
                  .max_inputs = 3,
                  .pattern = Pattern::anchor,
                  .by_channels = true,
                  .params = "X W B",
                  .infer = infer_conv_transpose,
                  .build = build_conv_transpose,
                  .note = "one convolution for each residue of the stride; f16 and bf16 are summed in f32 "
                          "and rounded once"});
  OpDef filters_first = rows.back();
  filters_first.domain = "nestor";
  filters_first.note = "ConvTranspose with its weights in Conv's order; made by the compiler, not by models.";
  rows.push_back(std::move(filters_first));
}

}  // namespace nestor::ops
