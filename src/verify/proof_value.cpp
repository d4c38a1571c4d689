// Two expressions of different form may still be equal, for example when sums are written out. So their
// values are compared. Expressions that are the same function of the inputs have the same value for all
// inputs; those that aren't hardly ever have it for random inputs (Schwartz, JACM 1980). Values are followed
// through temporaries by the relations of Flow, at one point only.
//
// Math functions are treated as unknown smooth functions. Expressions that are equal because of exp(a+b) =
// exp(a)*exp(b) would be called different, but no schedule uses such rules.
#include "src/verify/proof_value.h"

#include <cmath>

namespace nestor::verify {

namespace {

struct GiveUp {};

constexpr int kLoads = 3000, kDeep = 300;

double random_number(size_t param, const std::vector<double>& index, DType type) {
  uint64_t h = 0x9e3779b97f4a7c15u * (param + 1);
  const auto mix = [&](uint64_t x) {
    h = (h ^ x) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 29;
  };
  for (const double i : index) mix(static_cast<uint64_t>(static_cast<int64_t>(i)) + 0x94d049bb133111ebu);
  mix(7);
  if (type == DType::boolean) return static_cast<double>(h >> 60 & 1);
  if (!is_float(type)) return static_cast<double>(h >> 40 & 3);
  return static_cast<double>(h >> 11) / static_cast<double>(uint64_t{1} << 53) + 0.5;
}

double reduce(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::add:
      return a + b;
    case ReduceOp::mul:
      return a * b;
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::min:
      return std::min(a, b);
  }
  throw GiveUp{};
}

double binary(BinaryOp op, bool real, double a, double b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::div:
      if (b == 0) throw GiveUp{};
      return real ? a / b : std::floor(a / b);
    case BinaryOp::mod:
      if (b == 0 || real) throw GiveUp{};
      return a - std::floor(a / b) * b;
    case BinaryOp::min:
      return std::min(a, b);
    case BinaryOp::max:
      return std::max(a, b);
    case BinaryOp::eq:
      return a == b;
    case BinaryOp::ne:
      return a != b;
    case BinaryOp::lt:
      return a < b;
    case BinaryOp::le:
      return a <= b;
    case BinaryOp::gt:
      return a > b;
    case BinaryOp::ge:
      return a >= b;
    default:
      throw GiveUp{};  // the lazy ones are the caller's; bits are no numbers
  }
}

class Evaluator {
 public:
  explicit Evaluator(Flow& flow) : flow_(flow), home_(flow.model().home()) {}

  double value(const Statement& s, const Expr& e, const Point& p) {
    if (const auto* i = e.as<IntImm>()) return static_cast<double>(i->value);
    if (const auto* f = e.as<FloatImm>()) return f->value;
    if (const auto* v = e.as<VarRef>()) return variable(s, v->var, p);
    if (const auto* l = e.as<Load>()) return load(s, e, *l, p);
    if (const auto* x = e.as<Select>()) return value(s, value(s, x->cond, p) != 0 ? x->a : x->b, p);
    if (const auto* u = e.as<Unary>()) {
      const double a = value(s, u->a, p);
      return u->op == UnaryOp::neg ? -a : a == 0;
    }
    if (const auto* b = e.as<Binary>()) {
      const double a = value(s, b->a, p);
      if (b->op == BinaryOp::logical_and && a == 0) return 0;
      if (b->op == BinaryOp::logical_or && a != 0) return 1;
      if (b->op == BinaryOp::logical_and || b->op == BinaryOp::logical_or) return value(s, b->b, p) != 0;
      return binary(b->op, is_float(b->a.dtype()), a, value(s, b->b, p));
    }
    if (const auto* c = e.as<Cast>()) {
      const double a = value(s, c->a, p);
      if (is_bool(e.dtype())) return a != 0;
      return is_float(e.dtype()) || !is_float(c->a.dtype()) ? a : std::trunc(a);
    }
    if (const auto* c = e.as<Call>()) {
      double out = 0, k = 0.7 + 0.1 * static_cast<double>(c->fn);
      for (const Expr& a : c->args) out += std::sin(value(s, a, p) * (k += 0.3)) + 0.1 * value(s, a, p);
      return out;
    }
    throw GiveUp{};
  }

 private:
  static double variable(const Statement& s, const Var& v, const Point& p) {
    const auto it = s.env.find(v);
    if (it == s.env.end()) throw GiveUp{};
    double out = static_cast<double>(it->second.constant);
    for (const auto& [x, c] : it->second.terms) {
      const auto at = p.find(x);
      if (at == p.end()) throw GiveUp{};
      out += static_cast<double>(c * at->second);
    }
    return out;
  }

  double load(const Statement& s, const Expr& e, const Load& l, const Point& p) {
    std::vector<double> index;
    for (const Expr& i : l.indices) index.push_back(value(s, i, p));
    const Model& m = flow_.model();
    if (m.is_input(l.buffer))
      return random_number(static_cast<size_t>(m.param_of(l.buffer)), index, l.buffer->type.dtype);
    const auto [it, added] = known_.try_emplace({e.get(), s.number, p}, 0);
    if (!added) return it->second;
    if (++loads_ > kLoads || ++depth_ > kDeep) throw GiveUp{};
    const double out = temporary(s, e, index, p);
    --depth_;
    return known_[{e.get(), s.number, p}] = out;
  }

  // The last store to the element, and the updates since.
  double temporary(const Statement& s, const Expr& e, const std::vector<double>& index, const Point& p) {
    const Read* read = nullptr;
    for (const Read& r : s.reads)
      if (r.expr == e.get()) read = &r;
    if (!read) throw GiveUp{};
    std::vector<Lin> zero;
    for (const V v : s.vars) zero.push_back(Lin::of(v) - p.at(v));
    size_t next = 0;
    for (size_t d = 0; d < read->indices.size(); ++d)
      if (!read->indices[d]) zero.push_back(Lin::of(read->free[next++]) - static_cast<int64_t>(index[d]));
    const Set reader = Set::where(home_, zero, {});
    const Source& source = flow_.source(s, *read);
    for (const Source::Trouble& t : source.troubles)
      if (!(t.readers & reader).empty()) throw GiveUp{};
    std::optional<double> out;
    for (const Source::Piece& piece : source.stores)
      for (const Point& at : instances(piece, reader)) {
        if (out) throw GiveUp{};
        out = value(*piece.writer, piece.writer->value, at);
      }
    if (!out) throw GiveUp{};
    for (const Source::Piece& piece : source.updates)
      for (const Point& at : instances(piece, reader))
        out = reduce(*piece.writer->op, *out, value(*piece.writer, piece.writer->value, at));
    return *out;
  }

  // Those of the writer that the reader sees.
  std::vector<Point> instances(const Source::Piece& piece, const Set& reader) {
    std::vector<Point> out;
    Set rest = piece.relation & reader;
    while (const auto q = rest.first({})) {
      if (++loads_ > kLoads) throw GiveUp{};
      out.push_back(instance(*piece.writer, *q));
      rest = rest - only(*piece.writer, *q);
    }
    return out;
  }

  Point instance(const Statement& w, const Point& q) const {
    Point out;
    for (const V v : w.vars) {
      const auto at = q.find(home_.copy(v, 1));
      if (at == q.end()) throw GiveUp{};
      out[v] = at->second;
    }
    return out;
  }
  Set only(const Statement& w, const Point& q) const {
    std::vector<Lin> zero;
    for (const auto& [v, x] : instance(w, q)) zero.push_back(Lin::of(home_.copy(v, 1)) - x);
    return Set::where(home_, zero, {});
  }

  Flow& flow_;
  Sets& home_;
  std::map<std::tuple<const ExprNode*, int, Point>, double> known_;
  int loads_ = 0, depth_ = 0;
};

}  // namespace

std::optional<double> value_at(Flow& flow, const Statement& s, const Expr& e, const Point& p) {
  try {
    const double out = Evaluator(flow).value(s, e, p);
    return std::isfinite(out) ? std::optional(out) : std::nullopt;
  } catch (const GiveUp&) {
    return std::nullopt;
  }
}

}  // namespace nestor::verify
