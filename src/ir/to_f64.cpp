// The f64 version of a function, and random arguments for trying functions.
#include "nestor/error.h"
#include "nestor/interpret.h"
#include "nestor/print.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

Type widen(Type t) {
  return is_float(t.dtype) ? Type{DType::f64, t.lanes} : t;
}

// Rebuilds every node, since a node's type follows from its children's.
class Widener {
 public:
  Var var(const Var& v) {
    if (v->type == widen(v->type)) return v;
    Var& out = vars_[v];
    if (!out) out = make_var(v->name, widen(v->type));
    return out;
  }
  Buffer buffer(const Buffer& b) {
    if (b->type == widen(b->type)) return b;
    Buffer& out = buffers_[b];
    if (!out) out = make_buffer(b->name, widen(b->type));
    return out;
  }
  BufferDecl decl(const BufferDecl& d) { return {buffer(d.buffer), d.shape, d.scope, d.layout, d.align}; }

  Expr expr(const Expr& e) {
    if (!e) return e;
    return match(
        e, [&](const IntImm&) { return e; },
        [&](const FloatImm& f) { return make::float_imm(f.value, {DType::f64}); },
        [&](const VarRef& r) { return Expr(var(r.var)); },
        [&](const Load& l) { return make::load(buffer(l.buffer), all(l.indices), expr(l.mask)); },
        [&](const Binary& b) { return make::binary(b.op, expr(b.a), expr(b.b)); },
        [&](const Unary& u) { return make::unary(u.op, expr(u.a)); },
        [&](const Select& s) { return make::select(expr(s.cond), expr(s.a), expr(s.b)); },
        [&](const Cast& c) { return make::cast(widen(e.type()), expr(c.a)); },
        [&](const Call& c) {
          if (c.fn == Intrinsic::instruction)
            throw UserError(
                "a function with hardware instructions has no f64 form; use the function before lowering");
          if (c.fn == Intrinsic::scalef || c.fn == Intrinsic::lookup)
            throw UserError(
                "a function whose `exp` etc. are polynomials of f32 has no f64 form; use the function before "
                "lowering, where they are still calls");
          if (c.fn != Intrinsic::bitcast) return make::call(c.fn, all(c.args));
          if (is_float(e.dtype()))
            throw UserError(
                "a function that composes floats from bits has no f64 form; use the function before "
                "lowering, where `exp` etc. are still calls");
          // Bits that are asked for are those of its own type.
          return make::bitcast(e.type(), make::cast(c.args[0].type(), expr(c.args[0])));
        },
        [&](const Let& l) { return make::let(var(l.var), expr(l.value), expr(l.body)); },
        [&](const Ramp& r) { return make::ramp(expr(r.base), expr(r.stride), e.type().lanes); },
        [&](const Broadcast& b) { return make::broadcast(expr(b.a), e.type().lanes); },
        [&](const VectorReduce& v) { return make::vector_reduce(v.op, expr(v.a)); },
        [&](const Shuffle& s) { return make::shuffle(expr(s.a), expr(s.b), s.lanes); });
  }

  Stmt stmt(const Stmt& s) {
    if (!s) return s;
    return match(
        s,
        [&](const Seq& q) {
          std::vector<Stmt> out;
          for (const Stmt& inner : q.stmts) out.push_back(stmt(inner));
          return make::seq(std::move(out));
        },
        [&](const For& f) {
          return make::loop(f.var, expr(f.extent), stmt(f.body), f.kind, f.thread, f.annotations);
        },
        [&](const Block& b) {
          Block out = b;
          for (IterVar& i : out.iters) {
            i.extent = expr(i.extent);
            i.binding = expr(i.binding);
          }
          out.where = expr(b.where);
          out.init = stmt(b.init);
          out.body = stmt(b.body);
          return make::block(std::move(out));
        },
        [&](const Store& st) {
          return make::store(buffer(st.buffer), all(st.indices), expr(st.value), expr(st.mask), st.streaming);
        },
        [&](const Update& u) { return make::update(u.op, buffer(u.buffer), all(u.indices), expr(u.value)); },
        [&](const If& i) { return make::if_then(expr(i.cond), stmt(i.then_case), stmt(i.else_case)); },
        [&](const Alloc& a) { return make::alloc(decl(a.decl), stmt(a.body)); },
        [&](const LetStmt& l) { return make::let_stmt(var(l.var), expr(l.value), stmt(l.body)); },
        [&](const Evaluate& e) { return make::evaluate(expr(e.call)); });
  }

 private:
  std::vector<Expr> all(const std::vector<Expr>& in) {
    std::vector<Expr> out;
    for (const Expr& e : in) out.push_back(expr(e));
    return out;
  }
  std::unordered_map<Var, Var> vars_;
  std::unordered_map<Buffer, Buffer> buffers_;
};

int64_t extent(const Expr& e, const std::unordered_map<Var, int64_t>& dims) {
  if (const auto i = as_int(e)) return *i;
  if (const auto* r = e.as<VarRef>())
    if (const auto it = dims.find(r->var); it != dims.end()) return it->second;
  if (const auto* b = e.as<Binary>()) {
    const Expr x = extent(b->a, dims), y = extent(b->b, dims);
    const Expr folded = b->op == BinaryOp::add   ? x + y
                        : b->op == BinaryOp::sub ? x - y
                        : b->op == BinaryOp::mul ? x * y
                        : b->op == BinaryOp::div ? x / y
                        : b->op == BinaryOp::mod ? x % y
                        : b->op == BinaryOp::min ? min(x, y)
                        : b->op == BinaryOp::max ? max(x, y)
                                                 : e;
    if (const auto i = as_int(folded)) return *i;
  }
  throw UserError("an extent of a parameter isn't arithmetic on constants and dimensions: " + print(e));
}

}  // namespace

PrimFunc to_f64(const PrimFunc& f) {
  Widener w;
  PrimFunc out{f.name, f.dims, {}, {}, {}};
  for (const Param& p : f.params) out.params.push_back({p.role, w.decl(p.decl)});
  for (const BufferDecl& d : f.allocs) out.allocs.push_back(w.decl(d));
  out.body = w.stmt(f.body);
  return out;
}

std::vector<Tensor> random_args(const PrimFunc& f, uint64_t seed, const std::vector<int64_t>& dims) {
  if (dims.size() != f.dims.size())
    throw UserError(f.name + " has " + std::to_string(f.dims.size()) + " symbolic dimensions, " +
                    std::to_string(dims.size()) + " values were given");
  std::unordered_map<Var, int64_t> values;
  for (size_t i = 0; i < dims.size(); ++i) values[f.dims[i]] = dims[i];
  std::vector<Tensor> out;
  for (const Param& p : f.params) {
    std::vector<int64_t> shape;
    for (const Expr& e : p.decl.shape) shape.push_back(extent(e, values));
    const DType t = p.decl.buffer->type.dtype;
    ++seed;
    out.push_back(p.role == Role::out ? Tensor(t, shape)
                                      : Tensor::random(t, shape, seed * 0x9e3779b97f4a7c15ULL));
  }
  return out;
}

}  // namespace nestor
