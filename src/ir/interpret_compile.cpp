// From the IR to the interpreter's instructions: a block becomes guards around its body, loops and branches
// become jumps. Temporaries of a statement are freed when it ends, so frames stay small.
#include <utility>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "src/ir/interpret_compiler.h"

namespace nestor::interpreter {

namespace {

bool has_barrier(const Stmt& s) {
  bool found = false;
  for_each_stmt(s, [&](const Stmt& inner) {
    if (const auto* e = inner.as<Evaluate>())
      if (const auto* c = e->call.as<Call>()) found = found || c->fn == Intrinsic::sync;
  });
  return found;
}

bool is_block_thread(ThreadTag t) {
  return t >= ThreadTag::thread_x && t <= ThreadTag::thread_z;
}

}  // namespace

Code Compiler::run(const PrimFunc& f) {
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

void Compiler::stmt(const Stmt& s) {
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
          throw UserError("shared buffer " + a.decl.buffer->name +
                          " is allocated inside a thread loop: each thread "
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

void Compiler::loop(const Stmt& s, const For& f) {
  const bool concurrent = f.kind == ForKind::parallel ||
                          (f.kind == ForKind::vectorized && !reduces_lanes(f)) ||
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

void Compiler::block(const Block& b) {
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
void Compiler::update(const Update& u) {
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

Code compile(const PrimFunc& f, const InterpretOptions& options) {
  return Compiler(options).run(f);
}

}  // namespace nestor::interpreter
