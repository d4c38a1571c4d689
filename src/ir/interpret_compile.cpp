// From the IR to the interpreter's instructions: every value gets its place, laziness becomes jumps, a block becomes
// guards around its body. Temporaries of a statement are freed when it ends, so frames stay small.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "src/ir/interpret_code.h"
#include "nestor/error.h"
#include "nestor/walk.h"

namespace nestor::interpreter {

namespace {

constexpr int32_t kConstantBase = 1 << 28;  // places of constants until the frame's size is known

bool has_barrier(const Stmt& s) {
  bool found = false;
  for_each_stmt(s, [&](const Stmt& inner) {
    if (const auto* e = inner.as<Evaluate>())
      if (const auto* c = e->call.as<Call>()) found = found || c->fn == Intrinsic::sync;
  });
  return found;
}

bool is_block_thread(ThreadTag t) { return t >= ThreadTag::thread_x && t <= ThreadTag::thread_z; }

class Compiler {
 public:
  explicit Compiler(const InterpretOptions& options) : options_(options) {}

  Code run(const PrimFunc& f) {
    out_.sites.push_back({});
    for (const Var& d : f.dims) {
      const int32_t place = fresh(1);
      out_.dims.push_back(place);
      vars_[d] = place;
    }
    for (size_t i = 0; i < f.params.size(); ++i) bind(f.params[i].decl, static_cast<int>(i), f.params[i].role);
    for (const BufferDecl& d : f.allocs) bind(d, -1, Role::out);
    stmt(f.body);
    emit({.op = Op::halt});
    place_constants();
    return std::move(out_);
  }

 private:
  int32_t fresh(int lanes) {
    const int32_t place = top_;
    top_ += lanes;
    out_.frame_size = std::max(out_.frame_size, top_);
    return place;
  }
  int32_t here() const { return static_cast<int32_t>(out_.code.size()); }
  int32_t emit(Instruction i) {
    out_.code.push_back(i);
    out_.site_of.push_back(site_);
    return here() - 1;
  }
  void land(int32_t jump) { out_.code[static_cast<size_t>(jump)].target = here(); }
  void compute(Handler fn, int32_t dst, int lanes, int32_t a, int32_t b = -1, int32_t c = -1) {
    NESTOR_CHECK(fn) << "the interpreter lacks an operation";
    Instruction i{.op = Op::compute, .lanes = static_cast<uint16_t>(lanes), .dst = dst, .a = a, .b = b, .c = c};
    i.fn = fn;
    emit(i);
  }

  int32_t constant(Word w, int lanes) {
    const auto [it, is_new] = constants_.try_emplace({w, lanes}, constant_words_);
    if (is_new) constant_words_ += lanes;
    return kConstantBase + it->second;
  }
  // Constants lie behind everything else in the frame.
  void place_constants() {
    const int32_t base = out_.frame_size;
    for (const auto& [key, offset] : constants_)
      for (int l = 0; l < key.second; ++l) out_.constants.emplace_back(base + offset + l, key.first);
    const auto move = [&](int32_t& place) {
      if (place >= kConstantBase) place += base - kConstantBase;
    };
    for (Instruction& i : out_.code)
      for (int32_t* place : {&i.a, &i.b, &i.c, &i.d}) move(*place);
    for (BufferSlot& b : out_.buffers)
      for (int32_t& place : b.shape) move(place);
    out_.frame_size = base + constant_words_;
  }

  // ---- Expressions: the place of the value -----------------------------------------------------------------------

  int32_t expr(const Expr& e) {
    const Type t = e.type();
    const int n = t.lanes;
    return match(
        e, [&](const IntImm& i) { return constant(i.value, 1); },
        [&](const FloatImm& f) {
          return constant(t.dtype == DType::f64 ? put<double>(f.value) : put<float>(static_cast<float>(f.value)), 1);
        },
        [&](const VarRef& r) {
          const auto it = vars_.find(r.var);
          NESTOR_CHECK(it != vars_.end()) << "variable " << r.var->name << " is not bound here";
          return it->second;
        },
        [&](const Load& l) { return load(l, n); }, [&](const Binary& b) { return binary(b, t); },
        [&](const Unary& u) {
          const int32_t a = expr(u.a), dst = fresh(n);
          compute(unary_handler(u.op, t.dtype), dst, n, a);
          wrap(t, dst);
          return dst;
        },
        [&](const Select& s) { return select(s, n); },
        [&](const Cast& c) {
          const int32_t a = expr(c.a), dst = fresh(n);
          compute(cast_handler(c.a.dtype(), t.dtype), dst, n, a);
          return dst;
        },
        [&](const Call& c) { return call(c, t); },
        [&](const Let& l) {
          const int32_t value = expr(l.value);
          vars_[l.var] = value;
          return expr(l.body);
        },
        [&](const Ramp& r) {
          const int32_t base = expr(r.base), stride = expr(r.stride), dst = fresh(n);
          compute(ramp_handler(), dst, n, base, stride);
          wrap(t, dst);
          return dst;
        },
        [&](const Broadcast& b) { return broadcast(b.a, n); },
        [&](const VectorReduce& v) {
          const int lanes = v.a.type().lanes;
          const int32_t a = expr(v.a), scratch = fresh(lanes), dst = fresh(1);
          compute(reduce_handler(), dst, lanes, a, scratch);
          out_.code.back().extra = static_cast<int32_t>(v.op);
          out_.code.back().dtype = t.dtype;
          return dst;
        });
  }

  void wrap(Type t, int32_t place) {
    if (Handler fn = wrap_handler(t.dtype)) compute(fn, place, t.lanes, place);
  }

  int32_t broadcast(const Expr& scalar, int n) {
    if (const auto* i = scalar.as<IntImm>()) return constant(i->value, n);
    const int32_t a = expr(scalar), dst = fresh(n);
    compute(broadcast_handler(), dst, n, a);
    return dst;
  }

  int32_t binary(const Binary& b, Type t) {
    const bool lazy = b.op == BinaryOp::logical_and || b.op == BinaryOp::logical_or;
    const int32_t a = expr(b.a), n = t.lanes;
    if (lazy && n == 1) {
      const int32_t dst = fresh(1);
      compute(move_handler(), dst, 1, a);
      const int32_t skip = emit({.op = b.op == BinaryOp::logical_and ? Op::jump_if_not : Op::jump_if, .a = dst});
      compute(move_handler(), dst, 1, expr(b.b));
      land(skip);
      return dst;
    }
    const int32_t rhs = expr(b.b), dst = fresh(n);
    const Handler fn = binary_handler(b.op, b.a.dtype());
    if (!fn)
      throw UserError(std::string("the interpreter has no `") + symbol(b.op) + "` of " +
                      std::string(name_of(b.a.dtype())));
    compute(fn, dst, n, a, rhs);
    const bool comparison = b.op >= BinaryOp::eq && b.op <= BinaryOp::ge;
    if (!comparison && b.op != BinaryOp::min && b.op != BinaryOp::max) wrap(t, dst);
    return dst;
  }

  int32_t select(const Select& s, int n) {
    const int32_t cond = expr(s.cond);
    const int32_t dst = fresh(n);
    if (s.cond.type().lanes > 1) {
      const int32_t a = expr(s.a), b = expr(s.b);
      compute(select_handler(), dst, n, a, b, cond);
      return dst;
    }
    const int32_t to_else = emit({.op = Op::jump_if_not, .a = cond});
    compute(move_handler(), dst, n, expr(s.a));
    const int32_t to_end = emit({.op = Op::jump});
    land(to_else);
    compute(move_handler(), dst, n, expr(s.b));
    land(to_end);
    return dst;
  }

  int32_t call(const Call& c, Type t) {
    NESTOR_CHECK(!c.args.empty()) << info(c.fn).name << " stands in an expression";
    int32_t places[3] = {-1, -1, -1};
    for (size_t i = 0; i < c.args.size(); ++i) places[i] = expr(c.args[i]);
    const int32_t dst = fresh(t.lanes);
    const DType from = c.args[0].dtype();
    const Handler fn =
        c.fn == Intrinsic::bitcast ? bitcast_handler(from, t.dtype) : call_handler(c.fn, from);
    if (!fn)
      throw UserError(std::string("the interpreter has no ") + info(c.fn).name + " of " + std::string(name_of(from)));
    compute(fn, dst, t.lanes, places[0], places[1], places[2]);
    if (c.fn != Intrinsic::bitcast && c.fn != Intrinsic::is_nan) wrap(t, dst);
    return dst;
  }

  // ---- Memory ----------------------------------------------------------------------------------------------------

  int32_t slot_of(const Buffer& b) const {
    const auto it = buffers_.find(b);
    NESTOR_CHECK(it != buffers_.end()) << "buffer " << b->name << " is not bound here";
    return it->second;
  }

  // The row-major element index, checked dimension by dimension.
  int32_t flat_index(int32_t buffer, const std::vector<Expr>& indices, int32_t mask) {
    const BufferSlot& slot = out_.buffers[static_cast<size_t>(buffer)];
    NESTOR_CHECK(slot.shape.size() == indices.size())
        << slot.buffer->name << " has rank " << slot.shape.size() << ", not " << indices.size();
    int lanes = 1;
    for (const Expr& i : indices) lanes = std::max(lanes, i.type().lanes);
    const std::vector<int32_t> shape = slot.shape;
    if (indices.empty()) return constant(0, 1);
    int32_t flat = -1;
    for (size_t d = 0; d < indices.size(); ++d) {
      const bool scalar = indices[d].type().lanes == 1;
      const int32_t index = scalar ? broadcast_if(lanes, indices[d]) : expr(indices[d]);
      Instruction i{.op = Op::index, .lanes = static_cast<uint16_t>(lanes), .a = flat, .b = index, .c = shape[d]};
      i.dst = fresh(lanes);
      i.d = mask;
      i.buffer = buffer;
      i.extra = static_cast<int32_t>(d);
      emit(i);
      flat = i.dst;
    }
    return flat;
  }
  int32_t broadcast_if(int lanes, const Expr& e) { return lanes == 1 ? expr(e) : broadcast(e, lanes); }

  Instruction access(Op op, int32_t buffer, int32_t flat, int lanes, int32_t mask) {
    Instruction i{.op = op, .lanes = static_cast<uint16_t>(lanes), .a = flat};
    i.b = out_.buffers[static_cast<size_t>(buffer)].place;
    i.d = mask;
    i.buffer = buffer;
    return i;
  }

  int32_t load(const Load& l, int n) {
    const int32_t buffer = slot_of(l.buffer);
    const int32_t mask = l.mask ? expr(l.mask) : -1;
    Instruction i = access(Op::load, buffer, flat_index(buffer, l.indices, mask), n, mask);
    i.dst = fresh(n);
    emit(i);
    return i.dst;
  }

  void store(const Buffer& b, const std::vector<Expr>& indices, const Expr& value, const Expr& mask_expr) {
    const int32_t buffer = slot_of(b);
    const int32_t place = expr(value);
    const int32_t mask = mask_expr ? expr(mask_expr) : -1;
    int lanes = b->type.lanes;
    for (const Expr& i : indices) lanes = std::max(lanes, i.type().lanes);
    NESTOR_CHECK(lanes == value.type().lanes)
        << value.type().lanes << " lanes stored to " << lanes << " elements of " << b->name;
    Instruction i = access(Op::store, buffer, flat_index(buffer, indices, mask), lanes, mask);
    i.c = place;
    emit(i);
  }

  void bind(const BufferDecl& d, int param, Role role) {
    BufferSlot slot{d.buffer, role, param, {}, -1};
    for (const Expr& e : d.shape) slot.shape.push_back(expr(e));
    slot.place = fresh(1);
    const auto index = static_cast<int32_t>(out_.buffers.size());
    buffers_[d.buffer] = index;
    emit({.op = Op::alloc, .dst = slot.place, .buffer = index});
    out_.buffers.push_back(std::move(slot));
  }

  // ---- Statements ------------------------------------------------------------------------------------------------

  void stmt(const Stmt& s) {
    const int32_t outer_top = top_, outer_site = site_;
    site_ = static_cast<int32_t>(out_.sites.size());
    out_.sites.push_back({s.get(), loop_});
    match(
        s,
        [&](const Seq& q) {
          for (const Stmt& inner : q.stmts) stmt(inner);
        },
        [&](const For& f) { loop(s, f); }, [&](const Block& b) { block(b); },
        [&](const Store& st) { store(st.buffer, st.indices, st.value, st.mask); },
        [&](const Update& u) { update(u); },
        [&](const If& i) {
          const int32_t to_else = emit({.op = Op::jump_if_not, .a = expr(i.cond)});
          stmt(i.then_case);
          if (!i.else_case) return land(to_else);
          const int32_t to_end = emit({.op = Op::jump});
          land(to_else);
          stmt(i.else_case);
          land(to_end);
        },
        [&](const Alloc& a) {
          if (a.decl.scope == Scope::shared && in_threads_)
            throw UserError("shared buffer " + a.decl.buffer->name + " is allocated inside a thread loop: each thread "
                            "would have its own; allocate it around the loops bound to threadIdx");
          bind(a.decl, -1, Role::out);
          const int32_t buffer = slot_of(a.decl.buffer);
          stmt(a.body);
          emit({.op = Op::release, .buffer = buffer});
        },
        [&](const LetStmt& l) {
          vars_[l.var] = expr(l.value);
          stmt(l.body);
        },
        [&](const Evaluate& e) {
          const auto* c = e.call.as<Call>();
          if (c && c->fn == Intrinsic::sync) {
            emit({.op = Op::barrier});
          } else if (!c || c->fn != Intrinsic::prefetch) {
            expr(e.call);  // a prefetch may point anywhere and changes nothing
          }
        });
    top_ = outer_top;
    site_ = outer_site;
  }

  void loop(const Stmt& s, const For& f) {
    const bool concurrent = f.kind == ForKind::parallel || f.kind == ForKind::vectorized ||
                            (f.kind == ForKind::thread && f.thread != ThreadTag::vthread);
    const bool shuffled = concurrent && f.kind != ForKind::vectorized && options_.order != LoopOrder::forward;
    const int32_t extent = expr(f.extent);
    const int32_t var = fresh(1);
    vars_[f.var] = var;
    const int outer = loop_;
    loop_ = static_cast<int>(out_.loops.size());
    out_.loops.push_back({f.var->name, s.get(), var, outer});

    Instruction begin{.op = Op::loop_begin, .dst = var, .a = extent};
    begin.extra = loop_;
    if (f.kind == ForKind::thread && is_block_thread(f.thread) && has_barrier(f.body)) {
      begin.op = Op::fork;
      const int32_t at = emit(begin);
      const bool outer_threads = std::exchange(in_threads_, true);
      stmt(f.body);
      in_threads_ = outer_threads;
      emit({.op = Op::fork_end});
      land(at);
    } else {
      const bool any = concurrent && (shuffled || options_.check_races);
      if (any) {
        begin.op = Op::any_begin;
        begin.b = fresh(2);
        begin.vector_loop = f.kind == ForKind::vectorized;
      }
      const int32_t at = emit(begin);
      stmt(f.body);
      Instruction next = begin;
      next.op = any ? Op::any_next : Op::loop_next;
      next.target = at + 1;
      emit(next);
      land(at);
    }
    loop_ = outer;
  }

  void block(const Block& b) {
    std::vector<int32_t> guards;
    for (const IterVar& i : b.iters) {
      const int32_t value = expr(i.binding);
      vars_[i.var] = value;
      guards.push_back(emit({.op = Op::jump_outside, .a = value, .b = expr(i.extent)}));
    }
    if (b.where) guards.push_back(emit({.op = Op::jump_if_not, .a = expr(b.where)}));
    if (b.init) {
      std::vector<int32_t> skips;
      for (const IterVar& i : b.iters)
        if (i.kind == IterKind::reduce) skips.push_back(emit({.op = Op::jump_if, .a = vars_[i.var]}));
      stmt(b.init);
      for (int32_t jump : skips) land(jump);
    }
    stmt(b.body);
    for (int32_t jump : guards) land(jump);
  }

  // buffer[indices] = buffer[indices] op value
  void update(const Update& u) {
    const int32_t buffer = slot_of(u.buffer);
    const int n = u.value.type().lanes;
    const Type t{u.buffer->type.dtype, n};
    const int32_t value = expr(u.value);
    const int32_t flat = flat_index(buffer, u.indices, -1);
    Instruction old = access(Op::load, buffer, flat, n, -1);
    old.dst = fresh(n);
    emit(old);
    const int32_t sum = fresh(n);
    const Handler fn = binary_handler(binary_of(u.op), t.dtype);
    compute(fn, sum, n, old.dst, value);
    wrap(t, sum);
    Instruction st = access(Op::store, buffer, flat, n, -1);
    st.c = sum;
    emit(st);
  }

  const InterpretOptions& options_;
  Code out_;
  std::unordered_map<Var, int32_t> vars_;
  std::unordered_map<Buffer, int32_t> buffers_;
  std::map<std::pair<Word, int>, int32_t> constants_;
  int32_t constant_words_ = 0;
  int32_t top_ = 0, site_ = 0;
  int loop_ = -1;
  bool in_threads_ = false;  // inside a thread loop that has barriers
};

}  // namespace

Code compile(const PrimFunc& f, const InterpretOptions& options) { return Compiler(options).run(f); }

}  // namespace nestor::interpreter
