// Barriers between threads of a block that touch one element of shared (or global) memory, one of them
// writing it.
//
// The walk follows a kernel's program, which all threads run, and remembers what was touched since the last
// barrier. A statement that conflicts with it gets a barrier in front, as far out as the conflict reaches:
// before a whole loop, if what conflicts came before the loop. A loop's body is walked a second time with its
// own end as its past, for conflicts between iterations. Accesses that each thread makes to elements of its
// own don't conflict (same_thread.h).
//
// All threads must reach a barrier. Where one is needed inside of a condition that threads may decide
// differently, the condition is moved inward, around the statements before and after it.
//
// Runs before `flatten_buffers`, while indices still have dimensions to tell threads apart by.
#include <algorithm>

#include "nestor/error.h"
#include "nestor/print.h"
#include "src/passes/passes.h"
#include "src/passes/refuse.h"
#include "src/passes/region.h"
#include "src/passes/same_thread.h"

namespace nestor::passes {

namespace {

Stmt barrier() {
  return make::evaluate(make::call(Intrinsic::sync, {}));
}

bool is_barrier(const Stmt& s) {
  const auto* e = s.as<Evaluate>();
  const auto* c = e ? e->call.as<Call>() : nullptr;
  return c && c->fn == Intrinsic::sync;
}

bool has_barrier(const Stmt& s) {
  bool found = false;
  for_each_stmt(s, [&](const Stmt& inner) { found = found || is_barrier(inner); });
  return found;
}

bool is_write(const Access& a) {
  return a.kind != AccessKind::read;
}

// An access since the last barrier. `carried` are loops whose iteration may have been another one then.
struct Touch {
  Buffer buffer;
  Access access;
  const StmtNode* where;  // the statement it was found in
  std::vector<Var> carried;
};

class BarrierInserter {
 public:
  BarrierInserter(std::vector<const For*> threads, const std::unordered_map<Buffer, BufferDecl>& decls,
                  Facts facts)
      : threads_(std::move(threads)), decls_(decls), facts_(std::move(facts)) {}

  Stmt run(const Stmt& body) {
    Past past;
    return walk(body, past);
  }

 private:
  using Past = std::vector<Touch>;

  Past touched(const Stmt& s) const {
    Past out;
    for (auto& [buffer, list] :
         find_accesses(s, facts_)) {  // in any order: it is only asked whether one conflicts
      const BufferDecl& decl = decls_.at(buffer);
      if (decl.scope == Scope::local) continue;
      for (const Access& a : list) {
        out.push_back({buffer, a, s.get(), {}});
        if (const Expr place = place_of(a, decl)) out.back().access.indices.push_back(place);
      }
    }
    return out;
  }

  // The element as one number: it often says simply what the indices say by quotients and remainders.
  static Expr place_of(const Access& a, const BufferDecl& decl) {
    if (decl.shape.size() < 2) return {};
    Expr place = a.indices[0];
    for (size_t d = 1; d < decl.shape.size(); ++d) {
      const auto extent = as_int(decl.shape[d]);
      if (!extent) return {};
      place = place * *extent + a.indices[d];
    }
    return simplify(place, a.facts);
  }

  // Handles a statement as a whole: a barrier in front if it conflicts with the past, then its inside.
  Stmt walk(const Stmt& s, Past& past) {
    if (is_barrier(s)) {
      past.clear();
      return s;
    }
    const Past mine = touched(s);
    if (mine.empty()) return s;
    bool in_front = conflict(past, mine);
    // In a sequence the barrier can wait until the statement that needs it.
    const bool waits = s.as<Seq>() && in_front;
    if (waits) in_front = false;
    if (in_front) past.clear();
    Stmt inner = s;
    if (waits || conflict(mine, mine))
      inner = inside(s, past);
    else
      remember(mine, past);
    return in_front && !starts_with_barrier(inner) ? make::seq({barrier(), inner}) : inner;
  }

  // True if threads do nothing that others see before a barrier.
  bool starts_with_barrier(const Stmt& s) const {
    if (const auto* seq = s.as<Seq>()) {
      const auto seen = [&](const Stmt& inner) { return has_barrier(inner) || !touched(inner).empty(); };
      const auto first = std::find_if(seq->stmts.begin(), seq->stmts.end(), seen);
      return first != seq->stmts.end() && starts_with_barrier(*first);
    }
    if (const auto* a = s.as<Alloc>()) return starts_with_barrier(a->body);
    if (const auto* l = s.as<LetStmt>()) return starts_with_barrier(l->body);
    if (const auto* loop = s.as<For>())
      return as_int(loop->extent).value_or(0) > 0 && starts_with_barrier(loop->body);
    return is_barrier(s);
  }

  // A loop's second walk meets the same statements again.
  static void remember(const Past& mine, Past& past) {
    if (mine.empty()) return;
    const auto known = [&](const Touch& t) { return t.where == mine[0].where; };
    if (std::none_of(past.begin(), past.end(), known)) past.insert(past.end(), mine.begin(), mine.end());
  }

  Stmt inside(const Stmt& s, Past& past) {
    if (const auto* seq = s.as<Seq>()) {
      std::vector<Stmt> out;
      for (const Stmt& next : seq->stmts) out.push_back(walk(next, past));
      return make::seq(std::move(out));
    }
    if (const auto* loop = s.as<For>()) return in_loop(s, *loop, past);
    if (const auto* branch = s.as<If>()) return in_branch(*branch, past);
    if (const auto* a = s.as<Alloc>()) return make::alloc(a->decl, walk(a->body, past));
    if (const auto* l = s.as<LetStmt>()) return make::let_stmt(l->var, l->value, walk(l->body, past));
    remember(touched(s), past);
    return s;
  }

  Stmt in_loop(const Stmt& s, const For& loop, Past& past) {
    const Facts outer = facts_;
    facts_.set(loop.var, {0, std::max<int64_t>(range_of(loop.extent, facts_).hi - 1, 0)});
    const auto leave_iteration = [&] {
      for (Touch& t : past)
        if (std::find(t.carried.begin(), t.carried.end(), loop.var) == t.carried.end())
          t.carried.push_back(loop.var);
    };
    Stmt body = walk(loop.body, past);
    leave_iteration();
    if (!is_const_int(loop.extent, 1)) {
      body = walk(loop.body, past);  // the end of one iteration is the past of the next
      leave_iteration();
    }
    facts_ = outer;
    if (has_barrier(body) && diverges(loop.extent))
      refuse("loop `" + loop.var->name + "` needs a barrier inside, but its extent " + print(loop.extent) +
                 " may differ between threads",
             "make the extent the same for all threads: use tail=guard");
    if (body.same_as(loop.body)) return s;
    return make::loop(loop.var, loop.extent, std::move(body), loop.kind, loop.thread, loop.annotations);
  }

  Stmt in_branch(const If& branch, Past& past) {
    const auto walk_case = [&](const Stmt& s, const Expr& condition, Past& p) {
      const Facts outer = facts_;
      facts_.assume(condition);
      Stmt out = walk(s, p);
      facts_ = outer;
      return out;
    };
    Past after_then = past, after_else = past;
    Stmt then_case = walk_case(branch.then_case, branch.cond, after_then), else_case;
    if (branch.else_case) else_case = walk_case(branch.else_case, logical_not(branch.cond), after_else);
    const bool synchronizes = has_barrier(then_case) || (else_case && has_barrier(else_case));
    if (synchronizes && diverges(branch.cond)) return walk_pushed_inward(branch, past);
    past = after_then;
    for (Touch& t : after_else) {
      const auto known = [&](const Touch& other) { return other.where == t.where; };
      if (std::none_of(after_then.begin(), after_then.end(), known)) past.push_back(std::move(t));
    }
    return make::if_then(branch.cond, std::move(then_case), std::move(else_case));
  }

  // The condition goes around the parts of the branch, and each part is walked anew.
  Stmt walk_pushed_inward(const If& branch, Past& past) {
    if (has_load(branch.cond))
      refuse("a barrier is needed where threads may disagree: inside of `if (" + print(branch.cond) + ")`",
             "move the condition into the blocks, or bind the loop to blocks instead of threads");
    std::vector<Stmt> parts;
    if (branch.else_case)
      parts = {make::if_then(branch.cond, branch.then_case),
               make::if_then(logical_not(branch.cond), branch.else_case)};
    else
      parts = {push(branch.cond, branch.then_case)};
    return inside(make::seq(std::move(parts)), past);
  }
  static Stmt push(const Expr& cond, const Stmt& s) {
    if (const auto* seq = s.as<Seq>()) {
      std::vector<Stmt> out;
      for (const Stmt& inner : seq->stmts) out.push_back(make::if_then(cond, inner));
      return make::seq(std::move(out));
    }
    if (const auto* f = s.as<For>())
      return make::loop(f->var, f->extent, make::if_then(cond, f->body), f->kind, f->thread, f->annotations);
    if (const auto* a = s.as<Alloc>()) return make::alloc(a->decl, make::if_then(cond, a->body));
    if (const auto* i = s.as<If>()) {
      Stmt out = make::if_then(logical_and(cond, i->cond), i->then_case);
      if (!i->else_case) return push(logical_and(cond, i->cond), i->then_case);
      return make::seq({out, make::if_then(logical_and(cond, logical_not(i->cond)), i->else_case)});
    }
    throw InternalError("a barrier inside of a statement without parts");
  }

  // True where threads of one block may see different values.
  bool diverges(const Expr& e) const {
    return has_load(e) ||
           std::any_of(threads_.begin(), threads_.end(), [&](const For* t) { return uses_var(e, t->var); });
  }

  bool conflict(const Past& past, const Past& now) const {
    for (const Touch& x : past)
      for (const Touch& y : now)
        if (x.buffer == y.buffer && (is_write(x.access) || is_write(y.access)) && !same_thread(x, y))
          return true;
    return false;
  }

  // True if no two different threads reach one element by these two accesses. What runs in between: the loops
  // inside of the two statements, and those that went on since the earlier one. Blocks and the loops around
  // both stand still.
  bool same_thread(const Touch& x, const Touch& y) const {
    std::vector<Var> running = x.carried, threads;
    for (const Touch* t : {&x, &y})
      for (const For* l : t->access.loops) running.push_back(l->var);
    for (const For* t : threads_) threads.push_back(t->var);
    return only_same_thread(x.access, y.access, threads, running);
  }

  std::vector<const For*> threads_;
  const std::unordered_map<Buffer, BufferDecl>& decls_;
  Facts facts_;
};

// Finds the innermost thread loop of each kernel.
class KernelFinder : public Rewriter {
 public:
  explicit KernelFinder(const PrimFunc& f) : decls_(declarations(f)) {}

  Stmt stmt(const Stmt& s) override {
    const auto* loop = s.as<For>();
    if (!loop || loop->kind != ForKind::thread) return children(s);
    facts_.set(loop->var, {0, std::max<int64_t>(range_of(loop->extent, facts_).hi - 1, 0)});
    const bool is_thread = loop->thread >= ThreadTag::thread_x && loop->thread <= ThreadTag::thread_z;
    if (is_thread) threads_.push_back(loop);
    bool more = false;
    for_each_stmt(loop->body, [&](const Stmt& inner) {
      more = more || (inner.as<For>() && inner.as<For>()->kind == ForKind::thread);
    });
    Stmt body = more || threads_.empty() ? stmt(loop->body)
                                         : BarrierInserter(threads_, decls_, facts_).run(loop->body);
    if (is_thread) threads_.pop_back();
    if (body.same_as(loop->body)) return s;
    return make::loop(loop->var, loop->extent, std::move(body), loop->kind, loop->thread, loop->annotations);
  }

 private:
  std::unordered_map<Buffer, BufferDecl> decls_;
  std::vector<const For*> threads_;
  Facts facts_;
};

}  // namespace

PrimFunc insert_barriers(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = KernelFinder(f).stmt(f.body);
  return out;
}

}  // namespace nestor::passes
