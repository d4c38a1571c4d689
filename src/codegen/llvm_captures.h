// Finds the values that the task of a parallel loop needs.
#pragma once

#include <unordered_set>
#include <vector>

#include "llvm_expr.h"
#include "nestor/walk.h"

namespace nestor {

// What a parallel loop's body uses of its surroundings, in the order of first use.
class Captures : public Walker {
 public:
  Captures(const For& loop, const ExprEmitter& outside) : outside_(outside), loop_var_(loop.var) {
    stmt(loop.body);
  }
  std::vector<Var> vars;
  std::vector<Buffer> buffers;

 private:
  void expr(const Expr& e) override {
    if (const auto* v = e.as<VarRef>())
      if (outside_.is_bound(v->var) && v->var != loop_var_ && seen_.insert(v->var.get()).second)
        vars.push_back(v->var);
    if (const auto* l = e.as<Load>()) buffer(l->buffer);
    if (const auto* l = e.as<Let>()) seen_.insert(l->var.get());
    children(e);
  }
  void stmt(const Stmt& s) override {
    if (const auto* st = s.as<Store>()) buffer(st->buffer);
    if (const auto* l = s.as<For>()) seen_.insert(l->var.get());
    if (const auto* l = s.as<LetStmt>()) seen_.insert(l->var.get());
    if (const auto* a = s.as<Alloc>()) seen_.insert(a->decl.buffer.get());
    children(s);
  }
  void buffer(const Buffer& b) {
    if (seen_.insert(b.get()).second) buffers.push_back(b);
  }

  const ExprEmitter& outside_;
  Var loop_var_;
  std::unordered_set<const void*> seen_;
};

}  // namespace nestor
