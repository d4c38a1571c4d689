// Random well-formed functions for property tests; a seed gives one function (per compiler, since the order
// in which arguments are evaluated is its own). They use every node kind, hard literals and names that clash
// or are no identifiers; they needn't make sense (indices may lie outside their buffers), so they are for
// what only looks at structure: printing, parsing, checking, rewriting.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "nestor/half.h"
#include "nestor/ir.h"

namespace nestor {

struct RandomIrOptions {
  bool vectors = true;  // lowered forms: ramps, masks, vector registers
  int depth = 5;        // of statements
  int expr_depth = 4;
};

class RandomIr {
 public:
  explicit RandomIr(uint64_t seed, RandomIrOptions options = {}) : options_(options), state_(seed) {}

  PrimFunc func() {
    PrimFunc f;
    f.name = pick<std::string>({"f", "main", "layer/1:0", "func"});
    for (int i = below(3); i > 0; --i) bind(f.dims.emplace_back(make_var(name())));
    for (int i = 1 + below(3); i > 0; --i)
      f.params.push_back({chance(50) ? Role::in : Role::constant, declare(decl(f.dims, false), false)});
    for (int i = 1 + below(2); i > 0; --i)
      f.params.push_back({Role::out, declare(decl(f.dims, false), true)});
    for (int i = below(3); i > 0; --i) f.allocs.push_back(declare(decl(f.dims, true), true));
    f.body = stmts(options_.depth);
    return f;
  }

  Expr expr(Type type, int depth) {
    if (depth <= 0) return leaf(type);
    switch (below(12)) {
      case 0:
      case 1:
        return leaf(type);
      case 2:
        return make::select(condition(chance(50) ? type.lanes : 1, depth - 1), expr(type, depth - 1),
                            expr(type, depth - 1));
      case 3: {
        const Type from = any_scalar().with_lanes(type.lanes);
        return make::cast(type, expr(from, depth - 1));
      }
      case 4:
        return call(type, depth - 1);
      case 5: {
        Var v = make_var(name(), any_scalar());
        Expr value = expr(v->type, depth - 1);
        bind(v);
        Expr body = expr(type, depth - 1);
        unbind();
        return make::let(v, std::move(value), std::move(body));
      }
      case 6:
        return load(type, depth - 1);
      case 7:
        if (type.is_vector()) return vector_only(type, depth - 1);
        if (!options_.vectors) return leaf(type);
        return make::vector_reduce(pick({ReduceOp::add, ReduceOp::mul, ReduceOp::max, ReduceOp::min}),
                                   expr(type.with_lanes(lanes()), depth - 1));
      case 8:
        if (is_bool(type.dtype)) return make::unary(UnaryOp::logical_not, expr(type, depth - 1));
        return make::unary(UnaryOp::neg, expr(type, depth - 1));
      default:
        return binary(type, depth - 1);
    }
  }

 private:
  struct Declared {
    BufferDecl decl;
    bool writable;
  };

  // splitmix64 (Steele, Lea, Flood 2014)
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  T pick(std::initializer_list<T> items) {
    return items.begin()[below(static_cast<int>(items.size()))];
  }
  template <class T>
  T pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(below(static_cast<int>(items.size())))];
  }
  std::string name() {
    return pick<std::string>(
        {"i", "j", "k", "i", "x", "x_1", "for", "mask", "f32", "a b", "exp", "S", "9", ""});
  }
  int lanes() { return pick({2, 8, 16}); }
  Type any_scalar() { return {static_cast<DType>(below(kDTypes.size())), 1}; }

  // ---- Scope

  void bind(const Var& v) { scope_.push_back(v); }
  void unbind(size_t n = 1) { scope_.resize(scope_.size() - n); }
  BufferDecl declare(BufferDecl d, bool writable) {
    buffers_.push_back({d, writable});
    return d;
  }

  BufferDecl decl(const std::vector<Var>& dims, bool temporary) {
    BufferDecl d;
    const bool registers = temporary && options_.vectors && chance(30);
    d.buffer = make_buffer(pick<std::string>({"T", "X", "T_1", "mask", "alloc", "init", "0", "W/b"}),
                           any_scalar().with_lanes(registers ? lanes() : 1));
    for (int i = below(4); i > 0; --i) {
      const bool symbolic = !dims.empty() && chance(30);
      d.shape.push_back(symbolic ? Expr(pick(dims)) + below(3) : Expr(below(100)));
    }
    if (temporary) d.scope = registers ? Scope::local : pick({Scope::global, Scope::shared, Scope::local});
    if (chance(25)) {
      IndexMap map;
      for (size_t i = 0; i < d.shape.size(); ++i) map.vars.push_back(make_var(name()));
      for (const Var& v : map.vars)
        map.exprs.push_back(make::binary(pick({BinaryOp::div, BinaryOp::mod}), v, 16));
      map.pad = pick({0.0, -0.0, 1.5, -1e300, std::numeric_limits<double>::infinity(), std::nan("")});
      d.layout = std::move(map);
    }
    const int physical = static_cast<int>(d.layout ? d.layout->exprs.size() : d.shape.size());
    if (temporary && physical > 0 && chance(20)) d.align.push_back({below(physical), 32, below(32)});
    return d;
  }

  // ---- Expressions

  Expr literal(DType t) {
    if (is_float(t)) {
      const double special =
          pick({0.0, -0.0, 1.0, -1.0, 0.1, 65504.0, 1e-40, 5e-324, std::nan(""),
                std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()});
      const auto random = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(next())));
      return make::float_imm(chance(50)        ? special
                             : t == DType::f64 ? std::bit_cast<double>(next())
                                               : random,
                             {t, 1});
    }
    if (is_bool(t)) return make::bool_imm(chance(50));
    const int shift = 64 - 8 * bytes_of(t);
    const uint64_t bits = pick<uint64_t>({0, 1, ~0ULL, 1ULL << 63, ~0ULL >> 1, next()});
    const uint64_t magnitude =
        chance(50) ? static_cast<uint64_t>(below(100)) << shift : bits;
    const int64_t value = static_cast<int64_t>(magnitude) >> shift;
    return make::int_imm(is_unsigned(t) ? value & greatest_word(t) : value, {t, 1});
  }

  Expr leaf(Type type) {
    if (type.is_vector()) return vector_only(type, 0);
    std::vector<Var> fitting;
    for (const Var& v : scope_)
      if (v->type == type) fitting.push_back(v);
    return fitting.empty() || chance(30) ? literal(type.dtype) : Expr(pick(fitting));
  }

  Expr vector_only(Type type, int depth) {
    const Type scalar = type.with_lanes(1);
    if (chance(30)) {
      const Type from = type.with_lanes(lanes());
      std::vector<int64_t> picked;
      for (int i = 0; i < type.lanes; ++i) picked.push_back(below(2 * from.lanes));
      Expr a = expr(from, depth);
      return make::shuffle(std::move(a), expr(from, depth), std::move(picked));
    }
    const bool can_ramp = !is_bool(type.dtype) && chance(50);
    if (can_ramp) return make::ramp(expr(scalar, depth), expr(scalar, depth), type.lanes);
    return make::broadcast(expr(scalar, depth), type.lanes);
  }

  Expr condition(int n, int depth) { return expr({DType::boolean, n}, depth); }

  Expr binary(Type type, int depth) {
    using enum BinaryOp;
    if (is_bool(type.dtype)) {
      const BinaryOp op = pick({logical_and, logical_or, eq, ne, lt, le, gt, ge, bit_xor});
      const bool compares = op >= eq && op <= ge;
      const Type operands = compares ? any_scalar().with_lanes(type.lanes) : type;
      return make::binary(op, expr(operands, depth), expr(operands, depth));
    }
    const BinaryOp op = is_float(type.dtype)
                            ? pick({add, sub, mul, div, min, max})
                            : pick({add, sub, mul, div, mod, min, max, bit_and, bit_or, bit_xor, shl, shr});
    return make::binary(op, expr(type, depth), expr(type, depth));
  }

  Expr call(Type type, int depth) {
    if (is_bool(type.dtype)) return make::call(Intrinsic::is_nan, {expr({DType::f32, type.lanes}, depth)});
    if (chance(20)) {
      for (int i = below(10);; i = (i + 1) % 10)
        if (const Type from{static_cast<DType>(i), type.lanes}; bytes_of(from.dtype) == bytes_of(type.dtype))
          return make::bitcast(type, expr(from, depth));
    }
    if (!is_float(type.dtype)) return make::call(Intrinsic::tdiv, {expr(type, depth), expr(type, depth)});
    const auto fn = static_cast<Intrinsic>(below(static_cast<int>(Intrinsic::fma) + 1));
    std::vector<Expr> args;
    for (int i = 0; i < info(fn).arity; ++i) args.push_back(expr(type, depth));
    return make::call(fn, std::move(args));
  }

  // Indices into d that make an access of `n` lanes out of a scalar buffer's element.
  std::vector<Expr> indices(const BufferDecl& d, int n, int depth) {
    std::vector<Expr> out;
    for (size_t i = 0; i < d.shape.size(); ++i) out.push_back(expr({DType::i64, i == 0 ? n : 1}, depth));
    return out;
  }

  Expr load(Type type, int depth) {
    for (const Declared& b : buffers_) {
      const Type element = b.decl.buffer->type;
      const bool by_index = element == type.with_lanes(1) && (!type.is_vector() || !b.decl.shape.empty());
      if ((!by_index && !(element == type)) || chance(30)) continue;
      Expr mask = type.is_vector() && chance(40) ? condition(type.lanes, depth) : Expr();
      return make::load(b.decl.buffer, indices(b.decl, by_index ? type.lanes : 1, depth), std::move(mask));
    }
    return leaf(type);
  }

  // ---- Statements

  Stmt stmts(int depth) {
    std::vector<Stmt> out;
    for (int i = below(4); i > 0; --i) out.push_back(stmt(depth - 1));
    return make::seq(std::move(out));
  }

  Stmt stmt(int depth) {
    if (depth <= 0) return write();
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
        return loop(depth);
      case 3:
      case 4:
        return block(depth);
      case 5:
        return make::if_then(condition(1, options_.expr_depth), stmts(depth),
                             chance(50) ? stmts(depth) : Stmt());
      case 6: {
        BufferDecl d = declare(decl({}, true), true);
        Stmt body = stmts(depth);
        buffers_.pop_back();
        return make::alloc(std::move(d), std::move(body));
      }
      case 7: {
        const Type type = any_scalar().with_lanes(options_.vectors && chance(30) ? lanes() : 1);
        Var v = make_var(name(), type);
        Expr value = expr(type, options_.expr_depth);
        bind(v);
        lets_.insert(v.get());
        Stmt body = stmts(depth);
        unbind();
        return make::let_stmt(v, std::move(value), std::move(body));
      }
      case 8:
        return effect();
      default:
        return write();
    }
  }

  Stmt effect() {
    const Expr l = load(buffers_[0].decl.buffer->type, 1);
    if (!l.as<Load>() || chance(50)) return make::evaluate(make::call(Intrinsic::sync, {}));
    return make::evaluate(make::call(Intrinsic::prefetch, {l}));
  }

  Stmt loop(int depth) {
    const ForKind kind = static_cast<ForKind>(below(5));
    const ThreadTag tag = kind == ForKind::thread ? static_cast<ThreadTag>(1 + below(7)) : ThreadTag::none;
    Annotations notes;
    if (chance(15)) notes["tail"] = pick<std::string>({"peel", "\"\\\n\t\xc3\xa9", ""});
    if (chance(10)) notes["odd key"] = std::numeric_limits<int64_t>::min();
    std::string unique = name();  // of a loop: unique on its path
    for (int i = 0; unique.empty() || loop_names_.contains(unique); ++i) unique = "l" + std::to_string(i);
    Var v = make_var(unique);
    Expr extent = chance(70) ? Expr(below(64)) : expr({}, 2);
    if (const auto n = as_int(extent); n && *n < 0) extent = 3;
    bind(v);
    loop_names_.insert(unique);
    Stmt body = chance(40) ? stmt(depth - 1) : stmts(depth - 1);
    loop_names_.erase(unique);
    unbind();
    return make::loop(v, std::move(extent), std::move(body), kind, tag, std::move(notes));
  }

  // Inside, only the block's own iterators are visible: loop variables from outside may not be used there.
  Stmt block(int depth) {
    Block b;
    b.id = make_block_id("B" + std::to_string(blocks_++));
    std::vector<Var> visible;
    for (const Var& v : scope_)
      if (v->type == Type{} && !lets_.contains(v.get())) visible.push_back(v);
    std::vector<Var> iters, spatial;
    for (int i = below(4); i > 0; --i) {
      IterVar iter{make_var(name()), chance(70) ? IterKind::spatial : IterKind::reduce, Expr(below(64)),
                   Expr(0)};
      if (!visible.empty())
        iter.binding = make::binary(pick({BinaryOp::add, BinaryOp::mul}), pick(visible), pick(visible));
      if (iter.kind == IterKind::spatial) spatial.push_back(iter.var);
      iters.push_back(iter.var);
      b.iters.push_back(std::move(iter));
    }
    const auto outer = std::move(scope_);
    scope_ = iters;
    if (chance(20)) b.where = condition(1, 2);
    if (chance(20)) b.annotations["kind"] = "reduce";
    scope_ = spatial;
    if (chance(40)) b.init = chance(60) ? write() : stmts(1);
    scope_ = iters;
    b.body = stmts(depth - 1);
    scope_ = outer;
    return make::block(std::move(b));
  }

  Stmt write() {
    std::vector<BufferDecl> writable;
    for (const Declared& b : buffers_)
      if (b.writable) writable.push_back(b.decl);
    const BufferDecl d = pick(writable);
    const Type element = d.buffer->type;
    const bool vector_index = options_.vectors && !element.is_vector() && !d.shape.empty() && chance(25);
    const int n = vector_index ? lanes() : 1;
    const Type value = vector_index ? element.with_lanes(n) : element;
    std::vector<Expr> at = indices(d, n, 2);
    if (chance(30)) {
      const ReduceOp op = pick({ReduceOp::add, ReduceOp::mul, ReduceOp::max, ReduceOp::min});
      return make::update(op, d.buffer, std::move(at), expr(value, options_.expr_depth));
    }
    Expr mask = value.is_vector() && chance(40) ? condition(value.lanes, 2) : Expr();
    Expr stored = expr(value, options_.expr_depth);
    return make::store(d.buffer, std::move(at), std::move(stored), std::move(mask), chance(10));
  }

  RandomIrOptions options_;
  uint64_t state_;
  std::vector<Var> scope_;
  std::vector<Declared> buffers_;
  std::set<std::string> loop_names_;
  std::set<const VarNode*> lets_;
  int blocks_ = 0;
};

inline PrimFunc random_func(uint64_t seed, RandomIrOptions options = {}) {
  return RandomIr(seed, options).func();
}

}  // namespace nestor
