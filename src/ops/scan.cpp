// Running results along an axis: CumSum, CumProd.
//
// An element is the one before it and one term more, which takes time linear in the extent. That recurrence
// alone waits for its own result at each step, so where elements along the axis lie side by side it goes by
// chunks of up to 8 vectors: results within 4 lanes (Groups), of the groups before in the vector (Lanes), of
// the vectors before in the chunk (Vectors), and only then of the chunk before, one wait for 128 elements.
// (Blelloch, Prefix Sums and Their Applications, 1990, calls that a scan of scans.)
#include <algorithm>

#include "src/ops/common.h"
#include "src/ops/registry.h"
#include "src/ops/rows.h"

namespace nestor::ops {

namespace {

constexpr int64_t kGroup = 4, kLanes = 16, kVectors = 8;

size_t scan_axis(const OpContext& ctx) {
  const Dims axis = ctx.ints_from(1, "axis");
  if (axis.size() != 1) ctx.fail("`axis` has " + std::to_string(axis.size()) + " elements, not one");
  return normal_axis(ctx, axis[0], ctx.input(0).shape.size());
}

std::vector<TensorType> infer_scan(const OpContext& ctx) {
  require_type(ctx, 0, {DType::f32, DType::f64, DType::i64, DType::i32});
  scan_axis(ctx);
  return {ctx.input(0)};
}

// The scan of one node: which element is the j-th term, and where the j-th result goes.
class Scan {
 public:
  Scan(const OpContext& ctx, const BuildTensor& x, const BuildTensor& y, ReduceOp op)
      : x_(x),
        y_(y),
        op_(op),
        axis_(scan_axis(ctx)),
        n_(y.shape[axis_]),
        exclusive_(ctx.get_int("exclusive", 0) != 0),
        reverse_(ctx.get_int("reverse", 0) != 0),
        rows_(y.shape, {static_cast<int64_t>(axis_)}) {}

  void build(FuncBuilder& b) const {
    int64_t first = 0;
    while (n_.known() && is_dense() && n_ - first >= kLanes) {
      const int64_t n = n_, vectors = std::min(kVectors, (n - first) / kLanes),
                    chunks = (n - first) / (vectors * kLanes);
      build_chunks(b, first, chunks, vectors);
      first += chunks * vectors * kLanes;
    }
    if (!n_.known() || first < n_) build_recurrence(b, first);
  }

 private:
  // No other axis lies denser than the one that is scanned.
  bool is_dense() const {
    return std::all_of(y_.shape.begin() + static_cast<std::ptrdiff_t>(axis_) + 1, y_.shape.end(),
                       [](const Dim& d) { return d == 1; });
  }

  // Of the elements from `first` on.
  void build_recurrence(FuncBuilder& b, int64_t first) const {
    std::vector<Axis> axes = rows_.all();
    axes[axis_].extent = n_ - first;
    const auto place = [&](const Exprs& i) { return first == 0 ? i[axis_] : i[axis_] + first; };
    b.compute(
        y_, axes,
        [&](const Exprs& i) {
          const Exprs o = rows_.outer_of(i);
          const Expr j = place(i), next = combine(result(o, j - 1), term(o, j));
          return first > 0 ? next : make::select(lt(Expr(0), j), next, term(o, j));
        },
        [&](const Exprs& i) { return at(rows_.outer_of(i), place(i)); });
  }

  // Of chunks * vectors * kLanes elements from `first` on.
  void build_chunks(FuncBuilder& b, int64_t first, int64_t chunks, int64_t vectors) const {
    std::vector<Axis> axes = rows_.outer();
    const size_t outer = axes.size();
    const auto row = [&](const Exprs& i) {
      return Exprs(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(outer));
    };
    const auto start = [&](const Exprs& i) {  // of the chunk
      const Expr j = i[outer] * (vectors * kLanes);
      return first == 0 ? j : j + first;
    };
    const auto place = [&](const Exprs& i, const Expr& lane) {
      return start(i) + i[outer + 1] * kLanes + lane;
    };
    axes.insert(axes.end(), {{"c", chunks}, {"v", vectors}, {"l", kLanes}});
    const Expr none = identity_of(op_, {y_.dtype(), 1});
    const BuildTensor groups = b.temp("Groups", type_of(axes)), lanes = b.temp("Lanes", type_of(axes));
    b.reduce(groups, axes, {{"term", kGroup}}, op_, [&](const Exprs& i, const Exprs& r) {
      const Expr& l = i.back();
      return make::select(le(r[0], l % Expr(kGroup)), term(row(i), place(i, l - r[0])), none);
    });
    const auto lane_of = [&](const BuildTensor& t, Exprs vector, const Expr& lane) {
      vector.resize(outer + 2);
      vector.push_back(lane);
      return t.at(vector);
    };
    b.compute(lanes, axes, [&](const Exprs& i) {
      Expr sum = groups.at(i);
      for (int64_t end = kGroup; end < kLanes; end += kGroup)
        sum = combine(make::select(le(Expr(end), i.back()), lane_of(groups, i, Expr(end - 1)), none), sum);
      return sum;
    });
    BuildTensor before;
    if (vectors > 1) {
      const std::vector<Axis> all(axes.begin(), axes.end() - 1);
      before = b.temp("Vectors", type_of(all));
      b.reduce(before, all, {{"vector", vectors}}, op_, [&](const Exprs& i, const Exprs& r) {
        Exprs vector = i;
        vector.back() = r[0];
        return make::select(lt(r[0], i.back()), lane_of(lanes, vector, Expr(kLanes - 1)), none);
      });
    }
    b.compute(
        y_, axes,
        [&](const Exprs& i) {
          const Expr inside =
              before ? combine(before.at({i.begin(), i.end() - 1}), lanes.at(i)) : lanes.at(i);
          const Expr behind = combine(result(row(i), start(i) - 1), inside);
          return first > 0 ? behind : make::select(lt(Expr(0), i[outer]), behind, inside);
        },
        [&](const Exprs& i) { return at(row(i), place(i, i.back())); });
  }

  Expr combine(const Expr& a, const Expr& b) const { return make::binary(binary_of(op_), a, b); }
  Exprs at(const Exprs& o, const Expr& j) const {
    return rows_.merge(o, {reverse_ ? (n_ - 1).expr() - j : j});
  }
  Expr result(const Exprs& o, const Expr& j) const { return y_.at(at(o, j)); }
  // Exclusive: the terms one place later, nothing first.
  Expr term(const Exprs& o, const Expr& j) const {
    if (!exclusive_) return x_.at(at(o, j));
    return make::select(lt(Expr(0), j), x_.at(at(o, j - 1)), identity_of(op_, {y_.dtype(), 1}));
  }
  TensorType type_of(const std::vector<Axis>& axes) const {
    Dims shape;
    for (const Axis& a : axes) shape.push_back(a.extent);
    return {y_.dtype(), shape};
  }

  const BuildTensor& x_;
  const BuildTensor& y_;
  const ReduceOp op_;
  const size_t axis_;
  const Dim n_;
  const bool exclusive_, reverse_;
  const RowView rows_;
};

template <ReduceOp op>
void build_scan(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  Scan(ctx, in[0], out[0], op).build(b);
}

}  // namespace

void register_scan(Rows& rows) {
  const auto add = [&](const char* name, int since, auto build) {
    rows.push_back({.name = name,
                    .since = since,
                    .min_inputs = 2,
                    .max_inputs = 2,
                    .infer = infer_scan,
                    .build = build,
                    .static_inputs = {1}});
  };
  add("CumSum", 11, build_scan<ReduceOp::add>);
  add("CumProd", 26, build_scan<ReduceOp::mul>);
}

}  // namespace nestor::ops
