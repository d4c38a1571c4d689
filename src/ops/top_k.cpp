// TopK, place by place: what comes next in the order of a row is the largest of what comes behind the last
// one that was found. Two operators do that, on integers:
//
//  - OrderKey gives an integer for each element, the larger the earlier it comes, in chunks of `size`, the
//    last one filled up with the least integer. NaN is the largest number, as in NumPy and PyTorch; 0 and -0
//    are equal.
//  - NextInOrder knows the largest key M that is left in each chunk: it finds the first chunk that has the
//    largest of all, V, looks there for its index I, and for the largest that is then left. V and I of the
//    one before tell which of equal ones come next. A step takes as many comparisons as there are chunks and
//    elements of one. A chunk of which nothing is left has the least integer, which no key is but of i64: of
//    that type there must be one chunk.
#include "src/ops/top_k.h"

#include <fmt/format.h>

#include <limits>

#include "src/ops/common.h"
#include "src/ops/registry.h"
#include "src/ops/rows.h"

namespace nestor::ops {

namespace {

constexpr int64_t kLongestRow = int64_t{1} << 30;

// No key of a float, or of a narrower integer, is the least number of its type.
DType key_type(DType t) {
  return bytes_of(t) == 8 || t == DType::i32 || t == DType::u32 ? DType::i64 : DType::i32;
}

std::vector<TensorType> infer_top_k(const OpContext& ctx) {
  const TopKShape s = top_k_shape(ctx);
  Dims shape = ctx.input(0).shape;
  shape[s.axis] = s.count;
  return {{ctx.input(0).dtype, shape}, {DType::i64, shape}};
}

std::vector<TensorType> infer_key(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  Dims shape = ctx.input(0).shape;
  const int64_t size = ctx.get_int("size", 1);
  shape.back() = ceil_div(shape.back(), size);
  shape.push_back(size);
  return {{key_type(ctx.input(0).dtype), shape}};
}

Expr least(const Type& type) {
  return identity_of(ReduceOp::max, type);
}

// The bits of a positive float are in order as integers; those of a negative one, without the sign, are in
// the opposite order.
Expr key_of(const Expr& x) {
  const Type type{key_type(x.dtype()), 1};
  if (x.dtype() == DType::u64)  // the lowest number has the lowest word
    return make::binary(BinaryOp::bit_xor, make::cast(type, x), make::int_imm(least_word(type.dtype), type));
  if (!is_float(x.dtype())) return make::cast(type, x);
  const bool wide = type.dtype == DType::i64;
  const int64_t most = wide ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
  const auto imm = [&](int64_t v) { return make::int_imm(v, type); };
  const Expr zero = make::imm(0, x.type());
  const Expr bits = make::bitcast(type, make::select(eq(x, zero), zero, x));
  const Expr magnitude = bits + imm(1) + imm(most);  // of a negative one; never beyond the type
  const Expr key = make::select(lt(bits, imm(0)), imm(0) - magnitude, bits);
  return make::select(make::call(Intrinsic::is_nan, {x}), imm(most - 1), key);
}

void build_key(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const bool largest = ctx.get_int("largest", 1) != 0;
  const int64_t size = out[0].shape.back();
  const Dim n = in[0].shape.back();
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Exprs at(i.begin(), i.end() - 2);
    const Expr place = i[i.size() - 2] * Expr(size) + i.back();
    at.push_back(place);
    Expr key = key_of(in[0].at(at));
    if (!largest) key = make::int_imm(-1, key.type()) - key;
    return n % size == 0 ? key : make::select(lt(place, n.expr()), key, least(key.type()));
  });
}

std::vector<TensorType> infer_next(const OpContext& ctx) {
  require_type(ctx, 0, {DType::i32, DType::i64});
  Dims chunks = ctx.input(0).shape, one = chunks;
  chunks.pop_back();
  one.pop_back();
  one.back() = 1;
  return {{ctx.input(0).dtype, one}, {DType::i32, one}, {ctx.input(0).dtype, chunks}};
}

void build_next(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor &keys = in[0], &most = in[1];
  const Dim chunks = most.shape.back(), size = keys.shape.back();
  const RowView rows(most.shape, {most.rank() - 1});
  const Type key_type{keys.dtype(), 1}, index_type{DType::i32, 1};
  const auto i32 = [&](const Expr& e) { return make::cast(index_type, e); };
  const auto number = [&](const Dim& n) { return n.known() ? make::int_imm(n, index_type) : i32(n.expr()); };
  const auto last = [&](int i, const Exprs& o) { return in[static_cast<size_t>(i)].at(rows.kept(o)); };
  const auto found = [&](const char* name, DType type, ReduceOp op, const std::vector<Axis>& along,
                         const FuncBuilder::ReduceBody& body) {
    const BuildTensor t = b.temp(name, {type, rows.outer_shape()});
    b.reduce(t, rows.outer(), along, op, body);
    return t;
  };
  const std::vector<Axis> inside = {{"s", size}};

  BuildTensor best, chunk;  // of one chunk these are M, and 0
  if (chunks != 1) {
    best = found("Best", key_type.dtype, ReduceOp::max, rows.inner(),
                 [&](const Exprs& o, const Exprs& r) { return most.at(rows.merge(o, r)); });
    chunk = found("Chunk", DType::i32, ReduceOp::min, rows.inner(), [&](const Exprs& o, const Exprs& r) {
      return make::select(eq(most.at(rows.merge(o, r)), best.at(o)), i32(r[0]), number(chunks));
    });
  }
  const auto next = [&](const Exprs& o) { return best ? best.at(o) : most.at(rows.kept(o)); };
  const auto in_chunk = [&](const Exprs& o) { return chunk ? chunk.at(o) : number(0); };
  const auto key = [&](const Exprs& o, const Exprs& r) {
    Exprs at = rows.merge(o, {chunk ? make::cast({DType::i64, 1}, chunk.at(o)) : Expr(0)});
    at.push_back(r[0]);
    return keys.at(at);
  };
  const auto place = [&](const Exprs& o, const Exprs& r) { return in_chunk(o) * number(size) + i32(r[0]); };
  const BuildTensor index =
      found("Index", DType::i32, ReduceOp::min, inside, [&](const Exprs& o, const Exprs& r) {
        Expr is_next = eq(key(o, r), next(o));
        if (in.size() > 2)
          is_next = logical_and(is_next, logical_or(lt(next(o), last(2, o)), lt(last(3, o), place(o, r))));
        return make::select(is_next, place(o, r), number(chunks * size));
      });
  const auto give = [&](int i, const FuncBuilder::Body& body) {
    const auto to = static_cast<size_t>(i);
    if (ctx.has_output(i))
      b.compute(out[to], rows.outer(), body, [&](const Exprs& o) { return rows.kept(o); });
  };
  give(0, next);
  give(1, [&](const Exprs& o) { return index.at(o); });
  if (!ctx.has_output(2)) return;
  const BuildTensor rest =
      found("Rest", key_type.dtype, ReduceOp::max, inside, [&](const Exprs& o, const Exprs& r) {
        const Expr k = key(o, r), behind = logical_and(eq(k, next(o)), lt(index.at(o), place(o, r)));
        return make::select(logical_or(lt(k, next(o)), behind), k, least(key_type));
      });
  b.compute(out[2], rows.all(), [&](const Exprs& i) {
    const Exprs o = rows.outer_of(i);
    return make::select(eq(i32(i.back()), in_chunk(o)), rest.at(o), most.at(i));
  });
}

}  // namespace

TopKShape top_k_shape(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  const Dims& x = ctx.input(0).shape;
  if (x.empty()) ctx.fail("input 0 is a scalar, it must have a dimension to choose along");
  TopKShape s;
  s.axis = static_cast<size_t>(normal_axis(ctx, ctx.get_int("axis", -1), x.size()));
  s.largest = ctx.get_int("largest", 1) != 0;
  ctx.get_int("sorted", 1);  // they are in any case
  const bool attribute = ctx.node().opset < 10;
  if (attribute && !ctx.has_attr("k")) ctx.fail("attribute `k` is missing");
  const Dims k = attribute ? Dims{ctx.get_int("k", 0)} : ctx.ints_from(1, "k");
  if (k.size() != 1) ctx.fail(fmt::format("`k` has {} elements, it must have one", k.size()));
  s.count = k[0];
  if (!must_be_at_most(0, s.count) || !must_be_at_most(s.count, x[s.axis], "TopK has so many to choose from"))
    ctx.fail(
        fmt::format("`k` is {}, along an axis of {} elements", to_string(s.count), to_string(x[s.axis])));
  if (x[s.axis] > kLongestRow)
    ctx.fail(fmt::format("an axis of {} elements", to_string(x[s.axis])), "up to 2^30 are supported");
  return s;
}

void register_top_k(Rows& rows) {
  rows.push_back({.name = "TopK",
                  .since = 1,
                  .until = 9,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .infer = infer_top_k,
                  .spelled_out = true,
                  .note = "in order; NaN is the largest number"});
  rows.push_back({.name = "TopK",
                  .since = 10,
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .infer = infer_top_k,
                  .spelled_out = true,
                  .static_inputs = {1},
                  .note = "in order; NaN is the largest number"});
  rows.push_back({.name = "OrderKey",
                  .domain = "nestor",
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::injective,
                  .infer = infer_key,
                  .build = build_key,
                  .note = "integers in the order of TopK; made by the compiler, not by models"});
  rows.push_back({.name = "NextInOrder",
                  .domain = "nestor",
                  .min_inputs = 2,
                  .max_inputs = 4,
                  .params = "K M V I",
                  .infer = infer_next,
                  .build = build_next,
                  .note = "the next of TopK; made by the compiler, not by models"});
}

}  // namespace nestor::ops
