// Compares a block's body with what an instruction computes: loop by loop, iterator by iterator, and the one
// statement node by node. Names, buffers and their strides may differ. The first difference is reported with
// both texts.
#include <algorithm>

#include "nestor/instruction.h"
#include "nestor/print.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

struct Differs {
  std::string why;
};

std::string quoted(const std::string& s) {
  return "`" + s + "`";
}
std::string plural(size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::vector<Var> vars_in(const Expr& e) {
  std::vector<Var> out;
  for_each_expr(e, [&](const Expr& inner) {
    if (const auto* v = inner.as<VarRef>(); v && std::find(out.begin(), out.end(), v->var) == out.end())
      out.push_back(v->var);
  });
  return out;
}

class Matcher {
 public:
  Matcher(const Block& outer, const Instruction& instruction) : outer_(outer), instruction_(instruction) {}

  void run(InstructionMatch& m) {
    operands_.resize(instruction_.meaning.params.size());
    match_loops();
    match_iterators();
    match_statement();
    const Buffer& out = operands_[instruction_.out()].buffer;
    for (size_t p = 0; p < operands_.size(); ++p)
      if (p != instruction_.out() && operands_[p].buffer == out)
        throw Differs{"the block reads " + out->name + " as " +
                      instruction_.meaning.params[p].decl.buffer->name + ", and writes it"};
    check_guards();
    m.operands = std::move(operands_);
    m.guards = std::move(guards_);
  }

 private:
  void match_loops() {
    std::vector<Stmt> loops;
    Stmt at = outer_.body;
    for (; at.as<For>(); at = at.as<For>()->body) loops.push_back(at);
    block_ = at.as<Block>();
    if (!block_) throw Differs{"the block's body isn't loops around one block"};
    const std::vector<Stmt> wanted = instruction_.loops();
    if (loops.size() != wanted.size())
      throw Differs{"the instruction has " + plural(wanted.size(), "loop") + ", the block " +
                    plural(loops.size(), "loop")};
    for (size_t i = 0; i < loops.size(); ++i) {
      const For &have = *loops[i].as<For>(), &want = *wanted[i].as<For>();
      if (as_int(have.extent) != as_int(want.extent))
        throw Differs{"loop " + want.var->name + " of the instruction has extent " + print(want.extent) +
                      ", loop " + have.var->name + " of the block " + print(have.extent)};
      if (have.kind == ForKind::parallel || have.kind == ForKind::thread)
        throw Differs{"loop " + have.var->name + " of the block is bound or parallel"};
      iterator_of_[have.var] = instruction_.block().iters[i].var;
    }
  }

  // Whether the value is an iterator of the outer block that runs so far, which may be open.
  bool is_outer(const Expr& value, const Expr& extent) const {
    return std::any_of(outer_.iters.begin(), outer_.iters.end(), [&](const IterVar& o) {
      const auto* v = value.as<VarRef>();
      return v && v->var == o.var && same_expr(o.extent, extent);
    });
  }

  // The inner block's iterators over the instruction's: each of these in one, with step 1.
  void match_iterators() {
    if (block_->init)
      throw Differs{"block " + block_->id->name +
                    " has an init, an instruction has none: decompose_reduction first"};
    if (block_->where) throw Differs{"block " + block_->id->name + " has a `where`"};
    VarMap to_instruction;
    Facts facts;
    for (const auto& [loop, iterator] : iterator_of_) to_instruction[loop] = Expr(iterator);
    for (const IterVar& i : instruction_.block().iters) facts.set(i.var, {0, *as_int(i.extent) - 1});
    for (const IterVar& i : outer_.iters)
      if (const auto extent = as_int(i.extent)) facts.set(i.var, {0, *extent - 1});
    std::vector<Var> used;
    for (const IterVar& i : block_->iters) {
      const Expr value = simplify(substitute(i.binding, to_instruction), facts);
      const Interval range = range_of(value, facts);
      const auto extent = as_int(i.extent);
      if (!extent && is_outer(value, i.extent)) {
        iterators_[i.var] = value;
        continue;
      }
      if (!extent || range.lo < 0)
        throw Differs{"not all instances of the tile lie in the domain of " + i.var->name + " = " +
                      print(i.binding)};
      if (range.hi >= *extent) guards_.push_back({lt(value, *extent), {}, i.kind == IterKind::reduce});
      iterators_[i.var] = value;
      for (const IterVar& want : instruction_.block().iters) {
        if (!uses_var(value, want.var)) continue;
        if (want.kind != i.kind || std::find(used.begin(), used.end(), want.var) != used.end())
          throw Differs{"iterator " + i.var->name + " = " + print(i.binding) + " isn't " + want.var->name +
                        " of the instruction alone, or not of its kind"};
        used.push_back(want.var);
        if (range.hi >= *extent) guards_.back().about.push_back(want.var);
      }
    }
    for (const IterVar& want : instruction_.block().iters)
      if (!is_const_int(want.extent, 1) && std::find(used.begin(), used.end(), want.var) == used.end())
        throw Differs{"no iterator of the block runs with " + want.var->name + " of the instruction"};
  }

  void match_statement() {
    const auto *have = block_->body.as<Update>(), *want = instruction_.block().body.as<Update>();
    if (have && want) {
      if (have->op != want->op)
        throw Differs{std::string("the instruction updates by ") + symbol(want->op) + ", the block by " +
                      symbol(have->op)};
      access(want->buffer, want->indices, have->buffer, have->indices);
      return expr(want->value, have->value);
    }
    const auto *store = block_->body.as<Store>(), *stored = instruction_.block().body.as<Store>();
    if (!store || !stored)
      throw Differs{std::string("the instruction is one ") + (want ? "update" : "store") +
                    ", the block's statement isn't"};
    access(stored->buffer, stored->indices, store->buffer, store->indices);
    expr(stored->value, store->value);
  }

  // What hangs over the end of a reduction must add nothing: it is a sum of products of elements that are
  // read there, and zeros take their places.
  void check_guards() const {
    const auto* u = instruction_.block().body.as<Update>();
    for (const InstructionMatch::Guard& g : guards_) {
      if (!g.reduce) continue;
      const std::string where = "the last tile is partial, where " + print(g.condition) + " fails, and ";
      if (!u || u->op != ReduceOp::add || !is_product(u->value))
        throw Differs{where + "the instruction isn't a sum of products"};
      for_each_expr(u->value, [&](const Expr& e) {
        const auto* l = e.as<Load>();
        for (const Var& v : g.about)
          if (l && std::none_of(l->indices.begin(), l->indices.end(),
                                [&](const Expr& i) { return uses_var(i, v); }))
            throw Differs{where + l->buffer->name + " of the instruction isn't read at " + v->name};
      });
    }
  }
  static bool is_product(const Expr& e) {
    if (const auto* c = e.as<Cast>()) return is_product(c->a);
    const auto* b = e.as<Binary>();
    return e.as<Load>() || (b && b->op == BinaryOp::mul && is_product(b->a) && is_product(b->b));
  }

  void access(const Buffer& param, const std::vector<Expr>& wanted, const Buffer& b,
              const std::vector<Expr>& indices) {
    if (param->type != b->type)
      throw Differs{"the instruction has " + param->name + ": " + std::string(name_of(param->type.dtype)) +
                    " where the block has " + b->name + ": " + std::string(name_of(b->type.dtype))};
    size_t p = 0;
    while (instruction_.meaning.params[p].decl.buffer != param) ++p;
    std::vector<Expr> here;
    for (const Expr& e : indices) here.push_back(simplify(substitute(e, iterators_)));
    for (const IterVar& i : instruction_.block().iters) {
      const auto uses = [&](const std::vector<Expr>& all) {
        return std::any_of(all.begin(), all.end(), [&](const Expr& e) { return uses_var(e, i.var); });
      };
      if (is_const_int(i.extent, 1) || uses(wanted) == uses(here)) continue;
      const std::string here_text = print(make::load(b, indices)),
                        there = param->name + " of the instruction";
      throw Differs{uses(wanted) ? there + " moves with " + i.var->name + ", " + here_text + " doesn't"
                                 : here_text + " moves with " + i.var->name + ", " + there + " doesn't"};
    }
    InstructionMatch::Operand& o = operands_[p];
    if (!o.buffer) {
      o = {b, here};
      // As its places in a register are over the parameter's dimensions, these must be the iterators in
      // order.
      return;
    }
    bool same = o.buffer == b && o.indices.size() == here.size();
    for (size_t d = 0; same && d < here.size(); ++d)
      same = structural_equal(o.indices[d], here[d]) && vars_in(o.indices[d]) == vars_in(here[d]);
    if (!same)
      throw Differs{param->name +
                    " of the instruction is several places of the block: " + print(make::load(b, indices))};
  }

  void expr(const Expr& want, const Expr& have) {
    const auto differ = [&]() -> void {
      const auto text = [&](const Expr& e) {
        const bool by_type = want.type() != have.type();
        return quoted(print(e)) + (by_type ? ", " + std::string(name_of(e.dtype())) : "");
      };
      throw Differs{"the instruction has " + text(want) + " where the block has " + text(have)};
    };
    if (const auto* l = want.as<Load>(), *x = have.as<Load>(); l && x)
      return access(l->buffer, l->indices, x->buffer, x->indices);
    if (want.type() != have.type() || want->v.index() != have->v.index()) return differ();
    if (const auto* v = want.as<VarRef>()) {
      const auto it = iterators_.find(have.as<VarRef>()->var);
      if (it == iterators_.end() || !it->second.as<VarRef>() || it->second.as<VarRef>()->var != v->var)
        differ();
      return;
    }
    if (const auto* b = want.as<Binary>()) {
      const auto* x = have.as<Binary>();
      if (b->op != x->op) return differ();
      expr(b->a, x->a);
      return expr(b->b, x->b);
    }
    if (const auto* u = want.as<Unary>())
      return u->op == have.as<Unary>()->op ? expr(u->a, have.as<Unary>()->a) : differ();
    if (const auto* c = want.as<Cast>()) return expr(c->a, have.as<Cast>()->a);
    if (const auto* s = want.as<Select>()) {
      const auto* x = have.as<Select>();
      expr(s->cond, x->cond);
      expr(s->a, x->a);
      return expr(s->b, x->b);
    }
    if (const auto* c = want.as<Call>()) {
      const auto* x = have.as<Call>();
      if (c->fn != x->fn || c->args.size() != x->args.size()) return differ();
      for (size_t i = 0; i < c->args.size(); ++i) expr(c->args[i], x->args[i]);
      return;
    }
    if (!structural_equal(want, have)) differ();  // immediates
  }

  const Block& outer_;
  const Instruction& instruction_;
  const Block* block_ = nullptr;
  std::unordered_map<Var, Var> iterator_of_;  // loops of the block to the instruction's iterators
  VarMap iterators_;                          // the inner block's
  std::vector<InstructionMatch::Operand> operands_;
  std::vector<InstructionMatch::Guard> guards_;
};

}  // namespace

InstructionMatch match_instruction(const Block& outer, const Instruction& instruction) {
  InstructionMatch m;
  try {
    Matcher(outer, instruction).run(m);
  } catch (const Differs& d) {
    m.difference = d.why;
  }
  return m;
}

}  // namespace nestor
