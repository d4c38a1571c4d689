// Blocks that carry @tensorize become calls of the machine instruction: the parts of the tile go to registers
// as the instruction's description lays them out, the instruction is called on these, and its result goes
// back. Loads and stores are plain loops, so that layouts, vectors and register tiles come about as for any
// other code: where the tile lies dense in memory, a register is one load, and where the result is a `local`
// buffer, none.
//
// A tile that hangs over the end reads no element there that isn't: places of a layout's padding, or zeros.
// Its result is written where there are elements, or whole into registers, which nobody looks at there.
//
// An instruction without a lowering is an expansion: the block's loops get the kinds that the description
// wrote.
#include <algorithm>

#include "nestor/instruction.h"
#include "nestor/layout.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"
#include "src/passes/refuse.h"

namespace nestor::passes {

namespace {

const Instruction& instruction_of(const Block& b, const std::string& name) {
  const Instruction* i = find_instruction(name);
  if (!i)
    refuse("block " + b.id->name + " is to be the instruction `" + name + "`, which is not known here",
           "the step tensorize reads its file: from=FILE");
  return *i;
}

Stmt with_kinds(const Stmt& s, const std::vector<Stmt>& loops, size_t i) {
  const auto* f = s.as<For>();
  if (!f) return s;
  const ForKind kind = f->kind == ForKind::serial ? loops[i].as<For>()->kind : f->kind;
  return make::loop(f->var, f->extent, with_kinds(f->body, loops, i + 1), kind, f->thread, f->annotations);
}

class Call {
 public:
  // `facts`: the ranges of the outer block's iterators.
  Call(const PrimFunc& f, const Instruction& i, const InstructionLowering& l, const InstructionMatch& m,
       const Facts& facts, const Target& target)
      : f_(f),
        i_(i),
        l_(l),
        m_(m),
        facts_(facts),
        cuda_(target.kind == TargetKind::cuda),
        thread_(make_var(i.name + "_lane")) {
    for (const Fragment& f : l.fragments) {
      const BufferDecl& tile = i.meaning.params[f.param].decl;
      const Type t = tile.buffer->type;
      if (!cuda_ && f.places * bytes_of(t.dtype) * 8 > target.vector_bits)
        refuse("the instruction `" + i.name + "` has " + std::to_string(f.places * bytes_of(t.dtype) * 8) +
                   " bits of " + tile.buffer->name + " in a register, and " + target.name + " has " +
                   std::to_string(target.vector_bits),
               "a smaller tile, or a wider target");
      registers_.push_back(
          {make_buffer(i.name + "_" + tile.buffer->name, t), {Expr(f.places)}, Scope::local, {}});
    }
  }

  Stmt emit() const {
    std::vector<Stmt> body;
    for (const Fragment& f : l_.fragments)
      if (is_operand(f.param)) body.push_back(copy(f, true));
    body.push_back(call());
    body.push_back(copy(l_.fragments[i_.out()], false));
    Stmt out = make::seq(std::move(body));
    for (size_t p = registers_.size(); p-- > 0;) out = make::alloc(registers_[p], out);
    if (l_.threads == 1) return out;
    return make::loop(thread_, l_.threads, out, ForKind::thread, ThreadTag::thread_x);
  }

 private:
  bool is_operand(size_t param) const {
    for (const auto& o : l_.operands)
      if (std::holds_alternative<size_t>(o) && std::get<size_t>(o) == param) return true;
    return false;
  }

  // for r { register[r] = tile[map(r)] }, or back
  Stmt copy(const Fragment& f, bool in) const {
    const Var r = make_var(i_.name + "_place");  // loops of a path have names of their own
    const Expr at = f.places == 1 ? Expr(0) : Expr(r);
    VarMap of_map{{f.map.vars.back(), at}}, of_iterators;
    if (f.map.vars.size() == 2) of_map[f.map.vars[0]] = Expr(thread_);
    for (const auto& [v, e] : tile_indices(f.param)) of_iterators[v] = substitute(f.map.exprs[e], of_map);
    std::vector<Expr> place;
    for (const Expr& e : m_.operands[f.param].indices) place.push_back(substitute(e, of_iterators));
    const Buffer &tile = m_.operands[f.param].buffer, &reg = registers_[f.param].buffer;
    Facts facts = facts_;
    facts.set(r, {0, f.places - 1});
    const Expr inside = guard(f.param, of_iterators, place, facts);
    Expr value = in ? make::load(tile, place) : make::load(reg, {at});
    if (in && inside) value = make::select(inside, value, make::imm(0, value.type()));
    Stmt s = in ? make::store(reg, {at}, value) : make::store(tile, place, value);
    if (!in && inside) s = make::if_then(inside, s);
    if (f.places == 1) return s;
    Annotations annotations;
    if (!in && !m_.guards.empty())
      annotations["whole"] = int64_t{1};  // as other accesses of these registers must be
    return make::loop(r, f.places, std::move(s), cuda_ ? ForKind::unrolled : ForKind::vectorized,
                      ThreadTag::none, annotations);
  }

  // Under what condition an element of the tile may be touched; null: always.
  Expr guard(size_t param, const VarMap& of_iterators, const std::vector<Expr>& place,
             const Facts& facts) const {
    const Buffer& tile = m_.operands[param].buffer;
    const BufferDecl decl = declarations(f_).at(tile);
    const bool registers = param == i_.out() && decl.scope == Scope::local;
    const Param* p = find_param(f_, tile);
    const bool zeros = p && p->role == Role::constant && decl.layout && decl.layout->pad == 0;
    const auto indices = tile_indices(param);
    Expr out;
    for (const InstructionMatch::Guard& g : m_.guards) {
      const bool moves = std::any_of(indices.begin(), indices.end(), [&](const auto& i) {
        return std::find(g.about.begin(), g.about.end(), i.first) != g.about.end();
      });
      if (!moves || registers) continue;
      if (param != i_.out() && (!g.reduce || zeros) && in_padding(decl, place, facts)) continue;
      const Expr condition = substitute(g.condition, of_iterators);
      out = out ? logical_and(out, condition) : condition;
    }
    return out;
  }

  // Whether all these places, in the shape or not, lie in what the layout makes of it.
  static bool in_padding(const BufferDecl& d, const std::vector<Expr>& place, const Facts& facts) {
    if (!d.layout) return false;
    VarMap at;
    for (size_t k = 0; k < place.size(); ++k) at[d.layout->vars[k]] = place[k];
    const std::vector<int64_t> shape = physical_shape(d);
    for (size_t k = 0; k < shape.size(); ++k) {
      const Interval range = range_of(simplify(substitute(d.layout->exprs[k], at), facts), facts);
      if (range.lo < 0 || range.hi >= shape[k]) return false;
    }
    return true;
  }

  // Which dimension of a parameter an iterator of the meaning is.
  std::vector<std::pair<Var, size_t>> tile_indices(size_t param) const {
    std::vector<std::pair<Var, size_t>> out;
    const Buffer& b = i_.meaning.params[param].decl.buffer;
    const auto see = [&](const Buffer& seen, const std::vector<Expr>& indices) {
      for (size_t d = 0; d < indices.size(); ++d)
        if (const auto* v = indices[d].as<VarRef>(); v && seen == b) out.emplace_back(v->var, d);
    };
    for_each_expr(i_.block().body, [&](const Expr& e) {
      if (const auto* l = e.as<Load>()) see(l->buffer, l->indices);
    });
    if (const auto* u = i_.block().body.as<Update>()) see(u->buffer, u->indices);
    if (const auto* st = i_.block().body.as<Store>()) see(st->buffer, st->indices);
    return out;
  }

  Stmt call() const {
    std::vector<Expr> args;
    for (const auto& o : l_.operands) {
      if (std::holds_alternative<int64_t>(o)) {
        args.emplace_back(std::get<int64_t>(o));
        continue;
      }
      const size_t p = std::get<size_t>(o);
      args.push_back(cuda_ ? make::load(registers_[p].buffer, {Expr(0)})
                           : make::load(registers_[p].buffer, {lanes_of(p)}));
    }
    const size_t out = i_.out();
    const Type t = registers_[out].buffer->type;
    if (cuda_) return make::evaluate(make::instruction(l_.callee, t, std::move(args)));
    const Type result = t.with_lanes(static_cast<int>(l_.fragments[out].places));
    return make::store(registers_[out].buffer, {lanes_of(out)},
                       make::instruction(l_.callee, result, std::move(args)));
  }
  Expr lanes_of(size_t param) const {
    const int64_t n = l_.fragments[param].places;
    return n == 1 ? Expr(0) : make::ramp(Expr(0), Expr(1), static_cast<int>(n));
  }

  const PrimFunc& f_;
  const Instruction& i_;
  const InstructionLowering& l_;
  const InstructionMatch& m_;
  const Facts& facts_;
  bool cuda_;
  Var thread_;
  std::vector<BufferDecl> registers_;
};

struct Lowering : Rewriter {
  const PrimFunc& func;
  const Target& target;
  Lowering(const PrimFunc& f, const Target& t) : func(f), target(t) {}
  Stmt stmt(const Stmt& s) override {
    const Stmt out = children(s);
    const auto* block = out.as<Block>();
    const auto at = block ? block->annotations.find("tensorize") : Annotations::const_iterator();
    if (!block || at == block->annotations.end()) return out;
    const auto* name = std::get_if<std::string>(&at->second);
    const Instruction& i = instruction_of(*block, name ? *name : "");
    const InstructionMatch match = match_instruction(*block, i);
    if (!match.difference.empty())
      refuse("block " + block->id->name + " is to be the instruction `" + i.name +
                 "`, but no longer is: " + match.difference,
             "leave the loops inside of a tensorized block as they are");
    const InstructionLowering* lowering = lowering_for(i, target);
    Facts facts;
    for (const IterVar& v : block->iters)
      if (const auto extent = as_int(v.extent)) facts.set(v.var, {0, *extent - 1});
    Block lowered = *block;
    lowered.body = lowering ? Call(func, i, *lowering, match, facts, target).emit()
                            : with_kinds(block->body, i.loops(), 0);
    return make::block(std::move(lowered));
  }
};

}  // namespace

PrimFunc lower_instructions(const PrimFunc& f, const Target& target) {
  PrimFunc out = f;
  out.body = Lowering(f, target).stmt(f.body);
  return out;
}

}  // namespace nestor::passes
