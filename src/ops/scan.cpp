// Running results along an axis: CumSum, CumProd.
//
// An element is the one before it and one term more, which takes time linear in the extent. That recurrence
// alone waits for its own result at each step, so where elements along the axis lie side by side it goes by
// chunks of 8 vectors of 8 lanes: results within a vector (Lanes), of the vectors before in the chunk
// (Vectors), and only then of the chunk before, one wait for 64 elements. (Blelloch, Prefix Sums and Their
// Applications, 1990, calls that a scan of scans.)
#include <algorithm>

#include "src/ops/common.h"
#include "src/ops/registry.h"
#include "src/ops/rows.h"

namespace nestor::ops {

namespace {

constexpr int64_t kLanes = 8, kVectors = 8, kChunk = kLanes * kVectors;

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

  // No other axis lies denser than the one that is scanned.
  bool is_dense() const {
    return std::all_of(y_.shape.begin() + static_cast<std::ptrdiff_t>(axis_) + 1, y_.shape.end(),
                       [](int64_t d) { return d == 1; });
  }

  void build_recurrence(FuncBuilder& b) const {
    b.compute(
        y_, rows_.all(),
        [&](const Exprs& i) {
          const Exprs o = rows_.outer_of(i);
          const Expr& j = i[axis_];
          return make::select(lt(Expr(0), j), combine(result(o, j - 1), term(o, j)), term(o, j));
        },
        [&](const Exprs& i) { return at(rows_.outer_of(i), i[axis_]); });
  }

  void build_chunks(FuncBuilder& b) const {
    const int64_t chunks = ceil_div(n_, kChunk);
    std::vector<Axis> axes = rows_.outer();
    axes.insert(axes.end(), {{"c", chunks}, {"v", kVectors}});
    const BuildTensor before = b.temp("Vectors", type_of(axes));
    axes.push_back({"l", kLanes});
    const BuildTensor lanes = b.temp("Lanes", type_of(axes));
    const Expr none = identity_of(op_, {y_.dtype(), 1});
    b.reduce(lanes, axes, {{"term", kLanes}}, op_, [&](const Exprs& i, const Exprs& r) {
      const size_t k = rows_.outer().size();
      const Exprs o(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(k));
      const Expr j = i[k] * kChunk + i[k + 1] * kLanes + r[0];
      Expr adds = le(r[0], i[k + 2]);
      if (n_ % kChunk != 0) adds = logical_and(adds, lt(j, Expr(n_)));
      return make::select(adds, term(o, j), none);
    });
    axes.pop_back();
    b.reduce(before, axes, {{"vector", kVectors}}, op_, [&](const Exprs& i, const Exprs& r) {
      Exprs last = i;
      last.back() = r[0];
      last.emplace_back(kLanes - 1);
      return make::select(lt(r[0], i.back()), lanes.at(last), none);
    });
    b.compute(
        y_, rows_.all(),
        [&](const Exprs& i) {
          const Exprs o = rows_.outer_of(i);
          const Expr j = i[axis_], c = j / Expr(kChunk), v = j / Expr(kLanes) % Expr(kVectors);
          Exprs vector = o;
          vector.insert(vector.end(), {c, v});
          Exprs lane = vector;
          lane.push_back(j % Expr(kLanes));
          const Expr inside = combine(before.at(vector), lanes.at(lane));
          return make::select(le(Expr(kChunk), j), combine(result(o, c * kChunk - 1), inside), inside);
        },
        [&](const Exprs& i) { return at(rows_.outer_of(i), i[axis_]); });
  }

 private:
  Expr combine(const Expr& a, const Expr& b) const { return make::binary(binary_of(op_), a, b); }
  Exprs at(const Exprs& o, const Expr& j) const { return rows_.merge(o, {reverse_ ? Expr(n_ - 1) - j : j}); }
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
  const int64_t n_;
  const bool exclusive_, reverse_;
  const RowView rows_;
};

template <ReduceOp op>
void build_scan(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Scan scan(ctx, in[0], out[0], op);
  if (scan.is_dense())
    scan.build_chunks(b);
  else
    scan.build_recurrence(b);
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
