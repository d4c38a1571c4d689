// In straight-line code, an element that is loaded several times is loaded once, into a variable.
//
// After unrolling, one k step of a register tile is `T[r,c] = fma(A[r,k], B[k,c], T[r,c])` for each row r and
// column vector c. This pass puts it in an order without spills: first the vectors of B, since all rows use
// them, then for each row the broadcast of A and its FMAs. (LLVM also finds the shared loads, but places them
// so that it spills.)
#include <algorithm>

#include "nestor/walk.h"
#include "src/passes/passes.h"
#include "src/passes/store_runs.h"

namespace nestor::passes {

namespace {

// Variables of one run, each a scope inside of the one before: more aren't kept in registers anyway, and LLVM
// finds what is loaded twice by itself.
constexpr size_t kMostShared = 1024;

struct Candidate {
  Expr value;
  size_t first, last;  // statements that use it
  int uses = 0;
  Var var;
};

// What is loaded, perhaps into all lanes, perhaps only if a condition holds, and else is 0; or null.
const Load* loaded(const Expr& e) {
  const auto* splat = e.as<Broadcast>();
  const Expr& one = splat ? splat->a : e;
  const auto* s = one.as<Select>();
  const bool masked = s && !s->cond.type().is_vector() && !has_load(s->cond) &&
                      (is_const_int(s->b, 0) || (s->b.as<FloatImm>() && s->b.as<FloatImm>()->value == 0));
  return (masked ? s->a : one).as<Load>();
}

// Finds the loads of a run of stores. Loads on a branch not always taken are left alone.
class Finder : public Walker {
 public:
  std::vector<Candidate> found;  // in order of first use
  size_t at = 0;
  std::vector<Buffer> written;

  void expr(const Expr& e) override {
    if (const Load* load = loaded(e)) {
      if (std::find(written.begin(), written.end(), load->buffer) != written.end()) return;
      if (load->buffer->type.is_vector()) return;  // a register already
      const auto [it, is_new] = index_.try_emplace(e, found.size());
      if (is_new) found.push_back({e, at, at, 0, nullptr});
      Candidate& c = found[it->second];
      c.last = at;
      ++c.uses;
      return;
    }
    if (const auto* s = e.as<Select>(); s && !s->cond.type().is_vector()) return expr(s->cond);
    if (const auto* b = e.as<Binary>();
        b && (b->op == BinaryOp::logical_and || b->op == BinaryOp::logical_or) && !e.type().is_vector())
      return expr(b->a);
    if (e.as<Let>()) return;
    children(e);
  }

 private:
  std::unordered_map<Expr, size_t, HashExpr, SameExpr> index_;
};

// Outside of the statements that a candidate counts are loads that weren't counted: they stay.
struct Replacer : Rewriter {
  std::unordered_map<Expr, const Candidate*, HashExpr, SameExpr> shared;
  size_t at = 0;
  Expr expr(const Expr& e) override {
    if (loaded(e))
      if (const auto it = shared.find(e);
          it != shared.end() && it->second->first <= at && at <= it->second->last)
        return it->second->var;
    return children(e);
  }
};

class Sharer : public StoreRunRewriter {
 private:
  bool rewrite(const std::vector<Stmt>& run, std::vector<Stmt>& out) override {
    if (run.size() < 2) return false;
    Finder finder;
    finder.written = buffers_written(run);
    for (size_t i = 0; i < run.size(); ++i) {
      finder.at = i;
      finder.stmt(run[i]);
    }
    std::erase_if(finder.found, [](const Candidate& c) { return c.uses < 2; });
    if (finder.found.empty() || finder.found.size() > kMostShared) return false;
    Replacer replacer;
    for (Candidate& c : finder.found) {
      const std::string& name = loaded(c.value)->buffer->name;
      c.var = make_var("v" + name, c.value.type());
      replacer.shared.emplace(c.value, &c);
    }
    stmts_.clear();
    for (; replacer.at < run.size(); ++replacer.at) stmts_.push_back(replacer.stmt(run[replacer.at]));
    emit(0, run.size(), finder.found, out);
    return true;
  }

  static Stmt bind(const std::vector<Candidate>& values, std::vector<Stmt> body) {
    Stmt s = make::seq(std::move(body));
    for (size_t i = values.size(); i-- > 0;) s = make::let_stmt(values[i].var, values[i].value, std::move(s));
    return s;
  }

  // Statements [lo, hi) with the variables that they use: those used across more than half of them first,
  // then each group of statements that share variables by itself.
  void emit(size_t lo, size_t hi, const std::vector<Candidate>& values, std::vector<Stmt>& out) {
    std::vector<Candidate> wide, narrow;
    for (const Candidate& c : values) (2 * (c.last - c.first + 1) > hi - lo ? wide : narrow).push_back(c);
    std::vector<Stmt> body;
    size_t at = lo;
    for (size_t i = 0; i < narrow.size();) {
      const size_t first = narrow[i].first;
      size_t last = narrow[i].last, end = i + 1;
      while (end < narrow.size() && narrow[end].first <= last) last = std::max(last, narrow[end++].last);
      for (; at < first; ++at) body.push_back(stmts_[at]);
      const std::vector<Candidate> group(narrow.begin() + static_cast<std::ptrdiff_t>(i),
                                         narrow.begin() + static_cast<std::ptrdiff_t>(end));
      if (last + 1 - first < hi - lo) {
        emit(first, last + 1, group, body);
      } else {  // a chain through all of them: the earliest goes first
        std::vector<Stmt> inner;
        emit(first, last + 1, {group.begin() + 1, group.end()}, inner);
        body.push_back(bind({group[0]}, std::move(inner)));
      }
      at = last + 1;
      i = end;
    }
    for (; at < hi; ++at) body.push_back(stmts_[at]);
    if (wide.empty())
      out.insert(out.end(), body.begin(), body.end());
    else
      out.push_back(bind(wide, std::move(body)));
  }

  std::vector<Stmt> stmts_;
};

}  // namespace

PrimFunc share_loads(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Sharer().stmt(f.body);
  return out;
}

}  // namespace nestor::passes
