// pad_einsum: pads a block's iterators to multiples, so that its tiles divide: for blockize, and for
// tensorize, because instructions have no partial tiles.
//
// The block then reads padded copies of its inputs and writes a padded output, and a last block copies the
// valid part of it. The padding must not change that part. Points that a padded S iterator adds are outside
// of it. A padded R iterator adds terms, which must be the reduction's identity. So in a sum of products each
// factor is padded with zeros (infinity times zero isn't zero). Any other reduction must be of the elements
// themselves, and is padded with its own identity (-inf for a maximum).
#include <algorithm>

#include "schedules/definition.h"
#include "schedules/examples.h"
#include "schedules/suggest.h"

namespace nestor::schedules {

namespace {

struct Padded {
  BufferDecl decl;  // of the copy
  Buffer from;
  std::vector<int> iters;       // by dimension; -1 for a constant index
  std::vector<int64_t> limits;  // what the dimensions of `from` were
};

struct Plan {
  Place place;
  BlockInfo info;
  Stmt root;
  std::vector<int64_t> extents;  // of the iterators, padded
  std::vector<Padded> inputs;
  Padded output;
  std::string trim;  // the block that copies from it
};

// A split by what was asked for: its tail has no instances, where padding would have some.
std::string split_instead(const StepContext& ctx, const Place& p) {
  const auto multiples = ctx.ints(1);
  for (size_t k = p.block().iters.size(); k-- > 0;) {
    const auto* v = p.block().iters[k].binding.as<VarRef>();
    if (!v || k >= multiples.size() || multiples[k].value_or(1) < 2) continue;
    Step s;
    s.primitive = "split";
    s.args = {p.name() + "." + v->var->name, "[_, " + std::to_string(*multiples[k]) + "]"};
    const auto legal = legal_steps(ctx.func(), Decisions{}, {s});
    if (!legal.empty()) return legal[0];
  }
  return "";
}

bool grows(const Plan& plan, size_t k) {
  return !is_const_int(plan.place.block().iters[k].extent, plan.extents[k]);
}

// Dimensions of an access by iterator; refuses indices that are anything else.
std::vector<int> iterators_of(const StepContext& ctx, const Plan& plan, const BlockAccess& a) {
  const Block& b = plan.place.block();
  std::vector<int> out;
  for (const Expr& e : a.indices) {
    int found = -1;
    for (size_t k = 0; k < b.iters.size(); ++k)
      if (e.as<VarRef>() && e.as<VarRef>()->var == b.iters[k].var) found = static_cast<int>(k);
    if (found < 0 ? !as_int(e) : std::count(out.begin(), out.end(), found) > 0)
      ctx.refuse(1, 0,
                 b.id->name + " accesses " + a.buffer->name + " at something other than distinct iterators",
                 {plan.place.stmt}, split_instead(ctx, plan.place));
    out.push_back(found);
  }
  return out;
}

void check_block(const StepContext& ctx, Plan& plan) {
  const Place& p = plan.place;
  plan.info = inspect(p.block());
  if (plan.info.kind == BlockKind::other) ctx.refuse(1, 0, plan.info.why, {p.stmt});
  const bool plain = p.block().body.as<Store>() || p.block().body.as<Update>();
  if (p.block().where) ctx.refuse(1, 0, p.name() + " has a `where`", {p.stmt});
  if (!plain) ctx.refuse(1, 0, p.name() + " is more than one statement", {p.stmt});
  for_each_expr(p.block().body, [&](const Expr& e) {
    const auto* b = e.as<Binary>();
    if (b && (b->op == BinaryOp::div || b->op == BinaryOp::mod) && !is_float(e.dtype()) && !as_int(b->b))
      ctx.refuse(1, 0, p.name() + " divides by what may be 0 in the padding", {p.stmt});
  });
  if (plan.info.kind == BlockKind::reduction && !p.block().init)
    ctx.refuse(1, 0, p.name() + " has no init in it", {p.stmt},
               "a reduction is padded together with its init, before a decompose_reduction");
}

void read_multiples(const StepContext& ctx, Plan& plan) {
  const auto given = ctx.ints(1);
  const Block& b = plan.place.block();
  if (given.size() != b.iters.size())
    ctx.refuse(2, 1,
               std::to_string(given.size()) + " multiples for the " + std::to_string(b.iters.size()) +
                   " iterators of " + b.id->name,
               {plan.place.stmt});
  constexpr int64_t kMost = int64_t{1} << 40;  // instances
  int64_t instances = 1;
  for (size_t k = 0; k < given.size(); ++k) {
    const int64_t multiple = given[k].value_or(1);
    if (multiple < 1) ctx.refuse(2, 1, std::to_string(multiple) + " is less than 1");
    const auto extent = as_int(b.iters[k].extent);
    if (!extent)
      ctx.refuse(3, 0, "the extent of " + b.iters[k].var->name + " isn't a constant", {plan.place.stmt});
    const int64_t multiples = (*extent + std::min(multiple, kMost) - 1) / std::min(multiple, kMost);
    if (multiple > kMost / std::max<int64_t>(multiples * instances, 1))
      ctx.refuse(2, 1, "with " + std::to_string(multiple) + " there are more than 2^40 instances");
    plan.extents.push_back(multiples * multiple);
    instances *= plan.extents.back();
  }
}

void check_loops(const StepContext& ctx, Plan& plan) {
  const Place& p = plan.place;
  plan.root = root_of(ctx.func(), p);
  std::vector<Var> used;
  for (const IterVar& i : p.block().iters) {
    const auto* v = i.binding.as<VarRef>();
    Stmt own;
    for (const Stmt& l : p.loops())
      if (v && as_for(l).var == v->var) own = l;
    if (!own || std::count(used.begin(), used.end(), v->var) || !same_expr(as_for(own).extent, i.extent) ||
        as_for(own).kind != ForKind::serial)
      ctx.refuse(3, 0, i.var->name + " isn't a serial loop of its own", {p.stmt},
                 "take this step before the loops are split or moved");
    used.push_back(v->var);
  }
  for (size_t i = p.depth_of(plan.root); i < p.path.size(); ++i)
    if (!p.path[i].as<For>() || !std::count(used.begin(), used.end(), as_for(p.path[i]).var))
      ctx.refuse(3, 0, "something other than these loops is around " + p.name(), {p.path[i], p.stmt},
                 "take this step before the loops are split or moved");
}

// Loads that a product is made of; none where it isn't one.
bool factors_of(const Expr& e, std::vector<const Load*>& out) {
  if (const auto* c = e.as<Cast>()) return factors_of(c->a, out);
  if (e.as<IntImm>()) return true;
  if (const auto* l = e.as<Load>()) {
    out.push_back(l);
    return true;
  }
  const auto* b = e.as<Binary>();
  return b && b->op == BinaryOp::mul && factors_of(b->a, out) && factors_of(b->b, out);
}

// What the padding of the inputs must hold.
Expr pad_value(const StepContext& ctx, const Plan& plan, const Type& type) {
  const Update* u = plan.info.update;
  const Block& b = plan.place.block();
  std::vector<size_t> padded;  // R iterators
  for (size_t k = 0; k < b.iters.size(); ++k)
    if (b.iters[k].kind == IterKind::reduce && grows(plan, k)) padded.push_back(k);
  if (!u || padded.empty()) return make::imm(0, type);
  const auto bad = [&](const std::string& why) {
    ctx.forbid(4, 0, why, {plan.place.stmt}, split_instead(ctx, plan.place));
  };
  std::vector<const Load*> factors;
  const bool elements = u->value.as<Load>() != nullptr;
  const bool product = u->op == ReduceOp::add && factors_of(u->value, factors);
  if (elements) factors = {u->value.as<Load>()};
  if (!elements && !product) bad("what " + b.id->name + " reduces is neither a product nor an element");
  for (const Load* l : factors)
    for (size_t k : padded)
      if (std::none_of(l->indices.begin(), l->indices.end(),
                       [&](const Expr& e) { return uses_var(e, b.iters[k].var); }))
        bad(l->buffer->name + " isn't read at " + b.iters[k].var->name);
  return elements ? identity_of(u->op, type) : make::imm(0, type);
}

void check_buffers(const StepContext& ctx, const Plan& plan) {
  const std::vector<Place> all = places(ctx.func().body);
  for (const Place& w : writers(ctx.func(), plan.info.out))
    if (!w.stmt.same_as(plan.place.stmt))
      ctx.refuse(5, 0, "block " + w.name() + " writes " + plan.info.out->name + " too", {w.stmt});
  for (const Padded& in : plan.inputs) {
    const Param* param = find_param(ctx.func(), in.from);
    bool whole = param && param->role != Role::out, before = true;
    for (const Place& q : all) {
      before = before && !q.under(plan.root);
      if (!writes(q.block(), in.from)) continue;
      if (!before)
        ctx.refuse(5, 0, "block " + q.name() + " writes " + in.from->name + " afterwards", {q.stmt});
      whole = whole || writes_whole(ctx.func(), q, in.from);
    }
    if (!whole)
      ctx.refuse(5, 0, "no block is seen to write the whole of " + in.from->name, {plan.place.stmt});
  }
}

Padded padded_buffer(const StepContext& ctx, const Plan& plan, const BlockAccess& a,
                     const std::string& name) {
  Padded out;
  out.from = a.buffer;
  out.iters = iterators_of(ctx, plan, a);
  out.decl = decl_of(ctx.func(), a.buffer);
  out.decl.layout.reset();
  out.decl.align.clear();
  out.decl.scope = Scope::global;
  for (const Expr& e : out.decl.shape) out.limits.push_back(as_int(e).value_or(Interval::kMax));
  for (size_t d = 0; d < out.iters.size(); ++d)
    if (out.iters[d] >= 0) out.decl.shape[d] = Expr(plan.extents[static_cast<size_t>(out.iters[d])]);
  out.decl.buffer = make_buffer(name, a.buffer->type);
  return out;
}

bool is_padded(const Plan& plan, const std::vector<int>& iters) {
  return std::any_of(iters.begin(), iters.end(),
                     [&](int k) { return k >= 0 && grows(plan, static_cast<size_t>(k)); });
}

// The padded inputs and the padded output.
void plan_buffers(const StepContext& ctx, Plan& plan, std::set<std::string>& names) {
  std::vector<BlockAccess> seen;
  std::optional<BlockAccess> out;
  for (const BlockAccess& a : accesses_of(plan.place.block())) {
    const std::vector<int> iters = iterators_of(ctx, plan, a);
    const auto before =
        std::find_if(seen.begin(), seen.end(), [&](const BlockAccess& s) { return s.buffer == a.buffer; });
    if (before != seen.end()) {
      for (size_t d = 0; d < iters.size(); ++d)
        if (!same_expr(before->indices[d], a.indices[d]))
          ctx.refuse(1, 0, plan.place.name() + " accesses " + a.buffer->name + " at several places",
                     {plan.place.stmt});
      continue;
    }
    seen.push_back(a);
    for (size_t k = 0; a.buffer == plan.info.out && k < plan.extents.size(); ++k) {
      const IterVar& i = plan.place.block().iters[k];
      if (i.kind == IterKind::spatial && grows(plan, k) &&
          std::find(iters.begin(), iters.end(), static_cast<int>(k)) == iters.end())
        ctx.refuse(1, 0, "the output has no dimension for " + i.var->name + " to be padded in",
                   {plan.place.stmt});
    }
    if (!is_padded(plan, iters)) continue;
    if (a.buffer == plan.info.out)
      out = a;
    else
      plan.inputs.push_back(
          padded_buffer(ctx, plan, a, ctx.new_name(plan.inputs.size(), a.buffer->name + "_pad", names)));
  }
  if (!out) return;
  plan.trim = ctx.new_name(plan.inputs.size(), out->buffer->name + "_trim", names);
  plan.output = padded_buffer(ctx, plan, *out, unique_name(out->buffer->name + "_pad", names));
}

// for ..., block NAME { to[v] = if v is in `from` then from[v] else pad }, or with no pad the plain copy of
// the part that both have.
Stmt copy(const Plan& plan, const std::string& name, const Padded& p, const Expr& pad) {
  const Block& block = plan.place.block();
  Block b;
  b.id = make_block_id(name);
  std::vector<NewLoop> loops;
  std::vector<Expr> place;
  Expr inside = make::bool_imm(true);
  for (size_t d = 0; d < p.iters.size(); ++d) {
    const int k = p.iters[d];
    const IterVar* iter = k < 0 ? nullptr : &block.iters[static_cast<size_t>(k)];
    const std::string stem = iter ? loop_stem(iter->var->name) : "d" + std::to_string(d);
    const Var loop = make_var(stem), v = make_var("v" + stem);
    const Expr extent = iter && !pad ? iter->extent : p.decl.shape[d];
    loops.push_back({loop, extent});
    b.iters.push_back({v, IterKind::spatial, extent, Expr(loop)});
    place.emplace_back(v);
    // A read may be guarded by a select: then the domain is more than the buffer has.
    const int64_t there = iter ? std::min(as_int(iter->extent).value_or(0), p.limits[d]) : 0;
    if (iter && there < plan.extents[static_cast<size_t>(k)])
      inside = logical_and(inside, lt(Expr(v), Expr(there)));
  }
  b.body = pad ? make::store(p.decl.buffer, place, make::select(inside, make::load(p.from, place), pad))
               : make::store(p.from, place, make::load(p.decl.buffer, place));
  return nest(loops, make::block(std::move(b)));
}

PrimFunc run(StepContext& ctx) {
  Plan plan;
  plan.place = ctx.block(0);
  check_block(ctx, plan);
  read_multiples(ctx, plan);
  check_loops(ctx, plan);
  std::set<std::string> names = block_and_buffer_names(ctx.func());
  plan_buffers(ctx, plan, names);
  check_buffers(ctx, plan);
  ctx.expect_results(plan.inputs.size() + (plan.output.from ? 1 : 0));

  BufferMap map;
  std::vector<Stmt> parts;
  PrimFunc f = ctx.func();
  for (const Padded& in : plan.inputs) {
    parts.push_back(copy(plan, in.decl.buffer->name, in, pad_value(ctx, plan, in.from->type)));
    map[in.from] = in.decl.buffer;
    f.allocs.push_back(in.decl);
  }
  if (plan.output.from) {
    map[plan.output.from] = plan.output.decl.buffer;
    f.allocs.push_back(plan.output.decl);
  }
  Block b = plan.place.own();
  for (size_t k = 0; k < b.iters.size(); ++k) b.iters[k].extent = Expr(plan.extents[k]);
  Stmt nest = make::block(std::move(b));
  for (size_t i = plan.place.path.size(); i-- > plan.place.depth_of(plan.root);) {
    const Stmt& l = plan.place.path[i];
    int64_t extent = extent_of(l);
    for (size_t k = 0; k < plan.extents.size(); ++k)
      if (plan.place.own().iters[k].binding.as<VarRef>()->var == as_for(l).var) extent = plan.extents[k];
    nest = with_extent(l, as_for(l).var, Expr(extent), nest);
  }
  parts.push_back(substitute(nest, map));
  if (plan.output.from) parts.push_back(copy(plan, plan.trim, plan.output, Expr()));
  return replace(f, plan.root, make::seq(std::move(parts)));
}

}  // namespace

Primitive pad_einsum_row() {
  return {"pad_einsum",
          "A_pad ... T_trim",
          {{ArgKind::block, "T"}, {ArgKind::ints, "[16, 16, 4]"}},
          {},
          "Pads the iterators of a block to multiples: it reads padded copies of its inputs, and the valid "
          "part of its padded output is copied back.",
          {"the block is one store or update, a map or a reduction with its init, without `where`; it "
           "accesses each buffer at one place, indexed by distinct plain iterators or constants",
           "there is a multiple of at least 1 for each iterator, and they give at most 2^40 iterations",
           "each iterator has a serial loop of its own over its constant domain, and nothing else is in "
           "these loops",
           semantic("a padded R iterator adds nothing: the terms are elements that are read at it, or "
                    "products of such elements in a sum"),
           "its inputs are parameters or completely written before, and no other block writes its output"},
          {examples::kSums, "X_pad Y_trim = pad_einsum Y [5, 24]"},
          run};
}

}  // namespace nestor::schedules
