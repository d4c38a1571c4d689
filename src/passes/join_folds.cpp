// Vectors that are folded to a number each, one after the other into neighbouring elements, are folded
// together: sixteen vectors of sixteen lanes by 15 additions and 30 shuffles, where each alone takes 4 of
// either. Dot products end so.
//
//   Y[0] = reduce_add(T[0])          c = shuffle(T[0], T[1], ...) + shuffle(T[0], T[1], ...)    8 lanes of
//   each Y[1] = reduce_add(T[1])    ->    d = shuffle(T[2], T[3], ...) + shuffle(T[2], T[3], ...) Y[2] =
//   reduce_add(T[2])          e = shuffle(c, d, ...) + shuffle(c, d, ...)                4 lanes of each Y[3]
//   = reduce_add(T[3])          ...
//                                    Y[ramp(0, 1, 4)] = shuffle(...)
//
// Of each vector the same lanes meet as in the balanced tree that a fold is, so that nothing is rounded
// differently, and the results come out in order.
#include <algorithm>

#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/passes/linear.h"
#include "src/passes/passes.h"

namespace nestor::passes {

namespace {

constexpr size_t kLeast = 4;  // folds, to be worth it

// Statements of which the last stores what one fold comes to, `X[i] = fold`, or adds it, `X[i] = X[i] +
// fold`.
struct Fold {
  std::vector<BufferDecl> decls;  // registers, around
  std::vector<Stmt> before;       // they write nothing else
  const Store* store = nullptr;
  const VectorReduce* fold = nullptr;
  bool adds = false;
};

bool is_plain(const Store& s) {
  return !s.mask && !s.streaming && !s.value.type().is_vector() && !s.buffer->type.is_vector();
}

bool find_fold(Fold& f) {
  const Expr& value = f.store->value;
  f.fold = value.as<VectorReduce>();
  const auto* sum = value.as<Binary>();
  const auto* old = sum ? sum->a.as<Load>() : nullptr;
  if (old && old->buffer == f.store->buffer && same(old->indices[0], f.store->indices[0])) {
    f.fold = sum->b.as<VectorReduce>();
    f.adds = f.fold && sum->op == binary_of(f.fold->op);
    if (!f.adds) return false;
  }
  if (!f.fold || uses_buffer(f.fold->a, f.store->buffer)) return false;
  const int lanes = f.fold->a.type().lanes;
  return lanes >= static_cast<int>(kLeast) && (lanes & (lanes - 1)) == 0;
}

std::optional<Fold> fold_in(const Stmt& s) {
  Fold f;
  Stmt inner = s;
  while (const auto* a = inner.as<Alloc>()) {
    if (a->decl.scope != Scope::local) return std::nullopt;
    f.decls.push_back(a->decl);
    inner = a->body;
  }
  const auto* seq = inner.as<Seq>();
  f.before = seq ? seq->stmts : std::vector<Stmt>{inner};
  f.store = f.before.back().as<Store>();
  f.before.pop_back();
  if (!f.store || !is_plain(*f.store) || !find_fold(f)) return std::nullopt;
  for (const Stmt& b : f.before) {
    const auto* st = b.as<Store>();
    const bool own = st && std::any_of(f.decls.begin(), f.decls.end(),
                                       [&](const BufferDecl& d) { return d.buffer == st->buffer; });
    if (!own || uses_buffer(b, f.store->buffer)) return std::nullopt;
  }
  return f;
}

// Folds into elements that follow each other, all set to one constant before or none.
class Group {
 public:
  // Whether it belongs to the group, which then has it.
  bool take(const Stmt& s) {
    const auto* st = s.as<Store>();
    const bool constant = st && is_plain(*st) && (st->value.as<FloatImm>() || st->value.as<IntImm>());
    if (constant ? !takes_start(*st) : !takes_fold(s)) return false;
    stmts_.push_back(s);
    return true;
  }

  // The statements as they were, or the folds together.
  void emit(std::vector<Stmt>& out) const {
    const size_t taken = folds_.size() < kLeast ? 0 : stmts_.size() - (started_ ? 1 : 0);
    if (taken > 0) out.push_back(together());
    out.insert(out.end(), stmts_.begin() + static_cast<std::ptrdiff_t>(taken), stmts_.end());
  }

 private:
  bool follows(const Store& s) {
    if (!buffer_) {
      buffer_ = s.buffer;
      first_ = s.indices[0];
    }
    return s.buffer == buffer_ &&
           is_const_int(simplify(s.indices[0] - first_), static_cast<int64_t>(folds_.size()));
  }
  bool takes_start(const Store& s) {
    if (started_ || !follows(s) || (!folds_.empty() && (!start_ || !same(start_, s.value))))
      return false;
    start_ = s.value;
    started_ = true;
    return true;
  }
  bool takes_fold(const Stmt& s) {
    auto f = fold_in(s);
    if (!f || f->adds != started_ || !follows(*f->store) || (start_ && !started_)) return false;
    if (!folds_.empty()) {
      const VectorReduce& first = *folds_.front().fold;
      if (f->fold->op != first.op || f->fold->a.type() != first.a.type() ||
          folds_.size() == static_cast<size_t>(first.a.type().lanes))
        return false;
    }
    folds_.push_back(std::move(*f));
    started_ = false;
    return true;
  }

  Stmt together() const {
    const Type type = folds_.front().fold->a.type();
    const BinaryOp op = binary_of(folds_.front().fold->op);
    std::vector<std::pair<Var, Expr>> lets;
    const auto bind = [&](const char* name, const Expr& value) {
      lets.emplace_back(make_var(name, value.type()), value);
      return Expr(lets.back().first);
    };
    std::vector<Expr> vectors;
    for (const Fold& f : folds_) vectors.push_back(bind("v", f.fold->a));
    for (int64_t half = type.lanes / 2; half >= 1; half /= 2) {
      std::vector<int64_t> low, high;  // of each run of 2 half lanes
      for (int64_t i = 0; i < 2 * type.lanes; ++i) (i / half % 2 ? high : low).push_back(i);
      std::vector<Expr> next;
      for (size_t i = 0; i < vectors.size(); i += 2) {
        const Expr &a = vectors[i], &b = vectors[std::min(i + 1, vectors.size() - 1)];
        next.push_back(bind("fold", make::binary(op, make::shuffle(a, b, low), make::shuffle(a, b, high))));
      }
      vectors = std::move(next);
    }
    std::vector<int64_t> in_order;
    for (size_t i = 0; i < folds_.size(); ++i) in_order.push_back(static_cast<int64_t>(i));
    const auto n = static_cast<int>(folds_.size());
    Expr value = n == type.lanes ? vectors[0] : make::shuffle(vectors[0], vectors[0], in_order);
    if (start_) value = make::binary(op, make::broadcast(start_, n), value);
    Stmt s = make::store(buffer_, {make::ramp(first_, 1, n)}, value);
    for (size_t i = lets.size(); i-- > 0;) s = make::let_stmt(lets[i].first, lets[i].second, std::move(s));
    std::vector<Stmt> body;
    for (const Fold& f : folds_) body.insert(body.end(), f.before.begin(), f.before.end());
    body.push_back(std::move(s));
    Stmt out = make::seq(std::move(body));
    for (auto f = folds_.rbegin(); f != folds_.rend(); ++f)
      for (auto d = f->decls.rbegin(); d != f->decls.rend(); ++d) out = make::alloc(*d, std::move(out));
    return out;
  }

  std::vector<Stmt> stmts_;
  std::vector<Fold> folds_;
  Buffer buffer_;
  Expr first_, start_;    // the first element's index; what all are set to before, or null
  bool started_ = false;  // the next element is set already
};

class Joiner : public Rewriter {
 public:
  Expr expr(const Expr& e) override { return e; }
  Stmt stmt(const Stmt& s) override {
    const auto* seq = s.as<Seq>();
    if (!seq) return children(s);
    std::vector<Stmt> out;
    Group group;
    for (const Stmt& inner : seq->stmts) {
      if (group.take(inner)) continue;
      group.emit(out);
      group = Group();
      if (!group.take(inner)) {
        group = Group();
        out.push_back(stmt(inner));
      }
    }
    group.emit(out);
    return make::seq(std::move(out));
  }
};

}  // namespace

PrimFunc join_folds(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Joiner().stmt(f.body);
  return out;
}

}  // namespace nestor::passes
