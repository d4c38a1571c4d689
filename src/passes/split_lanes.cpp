// A GPU's threads have no vector arithmetic, so each lane of a vector statement becomes a statement of its
// own. But one instruction can load or store up to 16 bytes of neighbouring elements in device or shared
// memory, if the address is a multiple of the size:
//
//   Y[ramp(4*i, 1, 4)] = X[ramp(4*i, 1, 4)] * x4(2.0)
//   ->  let v = X[ramp(4*i, 1, 4)]           one load
//       Y[ramp(4*i, 1, 4)] = {v.0 * 2.0, v.1 * 2.0, v.2 * 2.0, v.3 * 2.0}    one store
//
// After this pass there are three kinds of vectors: such a load bound to a variable, perhaps under a
// condition (else zeros); lanes of it or shuffles; and the operand of such a store, lanes joined by shuffles.
// Buffers begin at multiples of 16 bytes. If the alignment isn't known, or the lanes aren't neighbours, each
// lane loads or stores by itself.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "nestor/error.h"
#include "src/passes/linear.h"
#include "src/passes/passes.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

namespace {

constexpr int64_t kWidest = 16;  // bytes that one instruction moves for a thread

// Whether two conditions, of two lanes, are known to hold at the same time: by how far apart the values are
// that a sum of multiples may take. 4*i < n and 4*i + 3 < n, for example, where n is a multiple of 4.
bool agree(const Expr& x, const Expr& y, const Facts& facts) {
  if (same_expr(x, y)) return true;
  const auto *a = x.as<Binary>(), *b = y.as<Binary>();
  if (!a || !b || a->op != b->op) return false;
  if (a->op == BinaryOp::logical_and || a->op == BinaryOp::logical_or)
    return agree(a->a, b->a, facts) && agree(a->b, b->b, facts);
  const bool less = a->op == BinaryOp::lt || a->op == BinaryOp::le,
             more = a->op == BinaryOp::gt || a->op == BinaryOp::ge;
  if ((!less && !more) || a->a.type() != Type{}) return false;
  const auto negative = [&](const Binary& c) {  // where it holds
    Linear d = linear(simplify(less ? c.a - c.b : c.b - c.a, facts));
    d.constant -= c.op == BinaryOp::le || c.op == BinaryOp::ge;
    return d;
  };
  const Linear d = negative(*a), e = negative(*b);
  int64_t g = 0;
  for (const auto& [atom, coefficient] : d.terms) g = std::gcd(g, coefficient);
  if (g == 0 || !same_expr(to_expr({d.terms, 0}), to_expr({e.terms, 0}))) return false;
  const int64_t at = (d.constant % g + g) % g + (e.constant - d.constant);
  return at >= 0 && at < g;
}

class Splitter : public ScopedRewriter {
 public:
  explicit Splitter(const PrimFunc& f) {
    for (const BufferDecl& d : f.allocs) scopes_[d.buffer] = d.scope;
  }

  // What is one value made of a vector's lanes.
  Expr expr(const Expr& e) override {
    if (const auto* r = e.as<VectorReduce>()) return reduced(*r);
    return children(e);
  }

  Stmt stmt(const Stmt& s) override {
    if (const auto* a = s.as<Alloc>()) return allocation(*a);
    if (const auto* l = s.as<LetStmt>(); l && l->value.type().is_vector()) return let(*l);
    if (const auto* st = s.as<Store>()) return store(*st);
    return ScopedRewriter::stmt(s);
  }

 private:
  // A vector's elements one after the other. What a thread allocates is its own.
  Stmt allocation(const Alloc& a) {
    BufferDecl d = a.decl;
    if (d.scope == Scope::global) d.scope = Scope::local;
    if (const Type t = d.buffer->type; t.is_vector()) {
      d.buffer = make_buffer(d.buffer->name, t.with_lanes(1));
      d.shape[0] = d.shape[0] * t.lanes;
      of_elements_[a.decl.buffer] = d.buffer;
    }
    scopes_[d.buffer] = d.scope;
    Stmt body = stmt(a.body);
    return body ? make::alloc(std::move(d), std::move(body)) : Stmt();
  }

  Stmt let(const LetStmt& l) {
    std::vector<Var> vars;
    std::vector<Expr> values;
    const Loads loads = loads_of(l.value);
    for (int i = 0; i < l.value.type().lanes; ++i) {
      vars.push_back(make_var(l.var->name, l.var->type.with_lanes(1)));
      values.push_back(lane(l.value, i));
    }
    lanes_of_[l.var] = vars;
    Stmt out = stmt(l.body);
    if (!out) return {};
    return behind(loads, with_lets(vars, values, std::move(out)));
  }
  static Stmt with_lets(const std::vector<Var>& vars, const std::vector<Expr>& values, Stmt s) {
    for (size_t i = vars.size(); i-- > 0;) s = make::let_stmt(vars[i], values[i], std::move(s));
    return s;
  }

  Stmt store(const Store& s) {
    const Expr& index = s.indices[0];
    if (!s.value.type().is_vector()) {
      const Loads loads = loads_of(s.value);
      return behind(loads, make::store(s.buffer, {expr(index)}, expr(s.value), {}, s.streaming));
    }
    const int64_t width = of_elements_.count(s.buffer) ? 1 : width_of(s.buffer, index);
    const Expr same = width > 1 ? guard_of(s.mask, s.value.type().lanes) : Expr();
    if (!same && width > 1 && s.mask && !has_load(s.mask)) return where_all_run(s, width);
    if (!same) return lane_by_lane(s);
    return is_const_int(same, 1) ? together(s, width)
                                 : make::if_then(same, assuming(same, [&] { return together(s, width); }));
  }

  Stmt together(const Store& s, int64_t width) {
    const Loads loads = loads_of(s.value);
    std::vector<Expr> values = lanes_of(s.value);
    const std::vector<Var> names = names_for(s, values);
    std::vector<Stmt> out;
    for (size_t l = 0; l < values.size(); l += static_cast<size_t>(width)) {
      std::vector<Expr> some;
      for (size_t i = l; i < l + static_cast<size_t>(width); ++i)
        some.push_back(names.empty() ? values[i] : Expr(names[i]));
      const Expr place = make::ramp(lane(s.indices[0], static_cast<int64_t>(l)), 1, static_cast<int>(width));
      out.push_back(make::store(s.buffer, {place}, joined(some), {}, s.streaming));
    }
    return behind(loads, with_lets(names, values, make::seq(std::move(out))));
  }

  // Lanes go by themselves only where some don't run.
  Stmt where_all_run(const Store& s, int64_t width) {
    const Expr all = simple(conjunction(lanes_of(s.mask)));
    if (is_const_int(all, 0)) return lane_by_lane(s);
    Store unmasked = s;
    unmasked.mask = {};
    Stmt whole = assuming(all, [&] { return together(unmasked, width); });
    return make::if_then(all, std::move(whole), lane_by_lane(s));
  }

  Stmt lane_by_lane(const Store& s) {
    const auto elements = of_elements_.find(s.buffer);
    const Buffer& to = elements == of_elements_.end() ? s.buffer : elements->second;
    const Loads loads = s.mask ? Loads() : loads_of(s.value);
    const std::vector<Expr> values = lanes_of(s.value);
    const std::vector<Var> names = names_for(s, values);
    std::vector<Stmt> out;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto l = static_cast<int64_t>(i), lanes = static_cast<int64_t>(values.size());
      const Expr place = &to == &s.buffer ? lane(s.indices[0], l) : simple(expr(s.indices[0]) * lanes + l);
      const Expr runs = s.mask ? simple(lane(s.mask, l)) : make::bool_imm(true);
      Stmt one = make::store(to, {place}, names.empty() ? values[i] : Expr(names[i]), {}, s.streaming);
      if (is_const_int(runs, 0)) continue;
      out.push_back(is_const_int(runs, 1) ? one : make::if_then(runs, one));
    }
    return behind(loads, with_lets(names, values, make::seq(std::move(out))));
  }

  // For the values, where one store might change what another one's value reads.
  static std::vector<Var> names_for(const Store& s, const std::vector<Expr>& values) {
    bool reads = false;
    for_each_expr(s.value, [&](const Expr& e) {
      const auto* l = e.as<Load>();
      reads |= l && l->buffer == s.buffer && !same_expr(l->indices[0], s.indices[0]);
    });
    std::vector<Var> out;
    for (size_t i = 0; reads && i < values.size(); ++i)
      out.push_back(make_var("lane" + std::to_string(i), values[i].type()));
    return out;
  }

  // How many elements one instruction moves from or to neighbours at `index`: 1 where lanes go by
  // themselves.
  int64_t width_of(const Buffer& b, const Expr& index) const {
    const auto* r = index.as<Ramp>();
    const auto scope = scopes_.find(b);
    const bool local = scope != scopes_.end() && scope->second == Scope::local;
    if (!r || !is_const_int(simple(r->stride), 1) || local) return 1;
    const Linear base = linear(simple(r->base));
    const auto fits = [&](int64_t w) {
      return index.type().lanes % w == 0 && w * bytes_of(b->type.dtype) <= kWidest &&
             base.constant % w == 0 && std::all_of(base.terms.begin(), base.terms.end(), [&](const auto& t) {
               return t.second % w == 0;
             });
    };
    int64_t width = 1;
    while (fits(2 * width)) width *= 2;
    return width;
  }

  // The mask as one condition for all lanes; null where they differ.
  Expr guard_of(const Expr& mask, int lanes) {
    if (!mask) return make::bool_imm(true);
    if (!mask.type().is_vector()) return expr(mask);
    const Expr first = simple(lane(mask, 0));
    for (int l = 1; l < lanes; ++l)
      if (!agree(first, simple(lane(mask, l)), facts())) return {};
    return first;
  }

  // ---- Loads of neighbours

  using Loads = std::vector<std::pair<Var, Expr>>;  // in order, before the statement that needs them

  Loads loads_of(const Expr& e) {
    Loads out;
    loaded_.clear();
    find_loads(e, make::bool_imm(true), out);
    return out;
  }
  Stmt behind(const Loads& loads, Stmt s) {
    loaded_.clear();
    for (size_t i = loads.size(); i-- > 0;) s = make::let_stmt(loads[i].first, loads[i].second, std::move(s));
    return s;
  }

  // `guard`: where the value of e is needed.
  void find_loads(const Expr& e, const Expr& guard, Loads& out) {
    if (const auto* s = e.as<Select>()) {
      find_loads(s->cond, guard, out);
      const Expr same = guard_of(s->cond, e.type().lanes);
      if (!same) return;
      find_loads(s->a, logical_and(guard, same), out);
      find_loads(s->b, logical_and(guard, logical_not(same)), out);
    } else if (const auto* l = e.as<Let>()) {
      find_loads(l->value, guard, out);  // what the body loads may depend on it
    } else if (const auto* b = e.as<Binary>();
               b && (b->op == BinaryOp::logical_and || b->op == BinaryOp::logical_or)) {
      find_loads(b->a, guard, out);
    } else if (const auto* load = e.as<Load>()) {
      const int64_t width = e.type().is_vector() ? width_of(load->buffer, load->indices[0]) : 1;
      const Expr same = width > 1 ? guard_of(load->mask, e.type().lanes) : Expr();
      if (same) add_load(*load, width, logical_and(guard, same), out);
    } else {
      struct Children : Walker {
        std::function<void(const Expr&)> f;
        bool inside = false;
        void expr(const Expr& x) override {
          if (inside) return f(x);
          inside = true;
          children(x);
        }
      } walker;
      walker.f = [&](const Expr& x) { find_loads(x, guard, out); };
      walker.expr(e);
    }
  }
  void add_load(const Load& l, int64_t width, const Expr& guard, Loads& out) {
    std::vector<Var> parts;
    const Type t = l.buffer->type.with_lanes(static_cast<int>(width));
    for (int64_t i = 0; i < l.indices[0].type().lanes; i += width) {
      Expr value = make::load(l.buffer, {make::ramp(lane(l.indices[0], i), 1, t.lanes)});
      if (!is_const_int(guard, 1)) value = make::select(guard, value, make::imm(0, t));
      const auto known = std::find_if(out.begin(), out.end(),
                                      [&](const auto& have) { return same_expr(have.second, value); });
      const Var v = known == out.end() ? make_var(l.buffer->name + "v", t) : known->first;
      if (known == out.end()) out.emplace_back(v, value);
      parts.push_back(v);
    }
    // One node may stand in two places: where these aren't under the same conditions, lanes go by themselves.
    if (const auto [it, first] = loaded_.try_emplace(&l, parts); !first && it->second != parts)
      it->second.clear();
  }

  // ---- One lane

  Expr simple(const Expr& e) const { return simplify(e, facts()); }

  std::vector<Expr> lanes_of(const Expr& e) {
    std::vector<Expr> out;
    for (int i = 0; i < e.type().lanes; ++i) out.push_back(lane(e, i));
    return out;
  }

  Expr lane(const Expr& e, int64_t i) {
    if (!e.type().is_vector()) return expr(e);
    const Type t = e.type().with_lanes(1);
    return match(
        e, [&](const IntImm& v) { return make::int_imm(v.value, t); },
        [&](const FloatImm& v) { return make::float_imm(v.value, t); },
        [&](const VarRef& v) { return Expr(lanes_of_.at(v.var).at(static_cast<size_t>(i))); },
        [&](const Load& l) { return load(l, i); },
        [&](const Binary& b) { return make::binary(b.op, lane(b.a, i), lane(b.b, i)); },
        [&](const Unary& u) { return make::unary(u.op, lane(u.a, i)); },
        [&](const Select& s) {
          if (is_loaded_or_zero(s)) return lane(s.a, i);
          return make::select(lane(s.cond, i), lane(s.a, i), lane(s.b, i));
        },
        [&](const Cast& c) { return make::cast(t, lane(c.a, i)); },
        [&](const Call& c) {
          std::vector<Expr> args;
          for (const Expr& a : c.args) args.push_back(lane(a, i));
          return c.fn == Intrinsic::bitcast ? make::bitcast(t, args[0]) : make::call(c.fn, std::move(args));
        },
        [&](const Let& l) {
          const Expr value = lane(l.value, i);
          if (!l.var->type.is_vector()) return make::let(l.var, value, lane(l.body, i));
          const Var scalar = make_var(l.var->name, value.type());
          lanes_of_[l.var].assign(static_cast<size_t>(e.type().lanes), scalar);
          return make::let(scalar, value, lane(l.body, i));
        },
        [&](const Ramp& r) { return simple(expr(r.base) + expr(r.stride) * Expr(i)); },
        [&](const Broadcast& b) { return expr(b.a); },
        [&](const VectorReduce&) -> Expr { throw InternalError("a reduction of lanes gives no vector"); },
        [&](const Shuffle& s) {
          const int64_t from = s.lanes[static_cast<size_t>(i)], n = s.a.type().lanes;
          return from < n ? lane(s.a, from) : lane(s.b, from - n);
        });
  }

  // What is loaded under a condition is 0 elsewhere anyway.
  bool is_loaded_or_zero(const Select& s) const {
    const auto* l = s.a.as<Load>();
    const auto it = l ? loaded_.find(l) : loaded_.end();
    return it != loaded_.end() && !it->second.empty() && same_expr(s.b, make::imm(0, s.b.type()));
  }

  Expr load(const Load& l, int64_t i) {
    if (const auto it = loaded_.find(&l); it != loaded_.end() && !it->second.empty()) {
      const int64_t width = it->second[0]->type.lanes;
      const Expr v(it->second[static_cast<size_t>(i / width)]);
      return make::shuffle(v, v, {i % width});
    }
    const auto elements = of_elements_.find(l.buffer);
    if (elements != of_elements_.end()) {
      const int64_t lanes = l.buffer->type.lanes;
      return make::load(elements->second, {simple(expr(l.indices[0]) * lanes + i)});
    }
    const Expr value = make::load(l.buffer, {lane(l.indices[0], i)});
    const Expr runs = l.mask ? simple(lane(l.mask, i)) : make::bool_imm(true);
    return is_const_int(runs, 1) ? value : make::select(runs, value, make::imm(0, value.type()));
  }

  // Lanes i and i + n/2, and so on; an odd last lane is carried along. That is the order everywhere.
  Expr reduced(const VectorReduce& r) {
    std::vector<Expr> parts = lanes_of(r.a);
    while (parts.size() > 1) {
      const size_t half = parts.size() / 2;
      std::vector<Expr> next;
      for (size_t i = 0; i < half; ++i)
        next.push_back(make::binary(binary_of(r.op), parts[i], parts[i + half]));
      if (parts.size() % 2 != 0) next.push_back(parts.back());
      parts = std::move(next);
    }
    return parts[0];
  }

  // Scalars, 2 to some power of them, as a vector; the vector itself where they are its lanes.
  static Expr joined(const std::vector<Expr>& values) {
    const auto lanes = static_cast<int64_t>(values.size());
    const auto* first = values[0].as<Shuffle>();
    bool whole = first && first->a.type().lanes == lanes;
    for (int64_t i = 0; whole && i < lanes; ++i) {
      const auto* s = values[static_cast<size_t>(i)].as<Shuffle>();
      whole = s && same_expr(s->a, first->a) && s->lanes == std::vector<int64_t>{i};
    }
    if (whole) return first->a;
    std::vector<Expr> parts;
    for (size_t i = 0; i < values.size(); i += 2)
      parts.push_back(
          make::shuffle(make::broadcast(values[i], 2), make::broadcast(values[i + 1], 2), {0, 2}));
    while (parts.size() > 1) {
      std::vector<Expr> next;
      for (size_t i = 0; i < parts.size(); i += 2) {
        std::vector<int64_t> all(2 * static_cast<size_t>(parts[i].type().lanes));
        std::iota(all.begin(), all.end(), int64_t{0});
        next.push_back(make::shuffle(parts[i], parts[i + 1], std::move(all)));
      }
      parts = std::move(next);
    }
    return parts[0];
  }

  std::unordered_map<Buffer, Scope> scopes_;
  std::unordered_map<Buffer, Buffer> of_elements_;  // of buffers of vectors
  std::unordered_map<Var, std::vector<Var>> lanes_of_;
  std::unordered_map<const Load*, std::vector<Var>> loaded_;
};

}  // namespace

PrimFunc split_lanes(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Splitter(f).stmt(f.body);
  return out;
}

}  // namespace nestor::passes
