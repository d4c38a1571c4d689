// Footprints against counting: on random functions under random schedules every index is evaluated for every
// iteration, and the elements of each run of each loop are put in a set. The figure may never be below; and
// what is printed as exact must be so nearly always (unions of overlapping boxes may be bounds).
#include <set>

#include "catch.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"
#include "src/report/diff.h"
#include "src/report/links.h"
#include "src/report/loop_costs.h"
#include "tests/fuzz/functions.h"
#include "tests/fuzz/random_trace.h"

using namespace nestor;

namespace {

using Element = std::pair<const BufferNode*, std::vector<int64_t>>;

// What is counted for one loop: the largest set of any of its runs, and of any of its iterations.
struct Counted {
  int64_t touched = 0, footprint = 0;
};

// Runs the loops of a function, looking at indices only; guards don't count, elements outside a buffer do not
// either.
class Counter {
 public:
  explicit Counter(const PrimFunc& f) : decls_(declarations(f)) {
    for (const For* l : report::loops_in(f.body)) order_.push_back(l);
    result_.resize(order_.size());
    std::set<Element> all;
    run(f.body, all);
  }
  const std::vector<Counted>& result() const { return result_; }

 private:
  int64_t bytes(const std::set<Element>& elements) const {
    int64_t total = 0;
    for (const Element& e : elements)
      if (scope_.at(e.first) != Scope::local) total += bytes_of(e.first->type.dtype);
    return total;
  }

  void touch(const Buffer& b, const std::vector<Expr>& indices, std::set<Element>& out) {
    const BufferDecl& decl = decls_.at(b);
    scope_[b.get()] = decl.scope;
    std::vector<int64_t> at;
    for (size_t d = 0; d < indices.size(); ++d) {
      const auto value = as_int(simplify(substitute(indices[d], values_)));
      if (!value) return;  // a gather: it may be anything
      if (*value < 0 || *value >= as_int(decl.shape[d]).value()) return;
      at.push_back(*value);
    }
    out.insert({b.get(), std::move(at)});
  }

  void exprs(const Stmt& s, std::set<Element>& out) {
    for_each_expr(s, [&](const Expr& e) {
      if (const auto* l = e.as<Load>()) touch(l->buffer, l->indices, out);
    });
  }

  void run(const Stmt& s, std::set<Element>& out) {
    if (const auto* q = s.as<Seq>()) {
      for (const Stmt& c : q->stmts) run(c, out);
    } else if (const auto* loop = s.as<For>()) {
      std::set<Element> whole;
      const size_t at = static_cast<size_t>(std::find(order_.begin(), order_.end(), loop) - order_.begin());
      for (int64_t i = 0; i < as_int(loop->extent).value(); ++i) {
        std::set<Element> one;
        values_[loop->var] = Expr(i);
        run(loop->body, one);
        result_[at].footprint = std::max(result_[at].footprint, bytes(one));
        whole.insert(one.begin(), one.end());
      }
      result_[at].touched = std::max(result_[at].touched, bytes(whole));
      out.insert(whole.begin(), whole.end());
    } else if (const auto* b = s.as<Block>()) {
      for (const IterVar& i : b->iters) values_[i.var] = simplify(substitute(i.binding, values_));
      if (b->init) run(b->init, out);
      run(b->body, out);
    } else if (const auto* a = s.as<Alloc>()) {
      run(a->body, out);
    } else if (const auto* i = s.as<If>()) {
      run(i->then_case, out);
      if (i->else_case) run(i->else_case, out);
    } else if (const auto* l = s.as<LetStmt>()) {
      values_[l->var] = substitute(l->value, values_);
      run(l->body, out);
    } else {
      exprs(s, out);
      if (const auto* st = s.as<Store>()) touch(st->buffer, st->indices, out);
      if (const auto* u = s.as<Update>()) touch(u->buffer, u->indices, out);
    }
  }

  std::unordered_map<Buffer, BufferDecl> decls_;
  std::vector<const For*> order_;
  std::vector<Counted> result_;
  std::unordered_map<const BufferNode*, Scope> scope_;
  VarMap values_;
};

bool small(const PrimFunc& f) {
  for (const report::LoopCost& c : report::loop_costs(f))
    if (c.trips > 3000) return false;
  return true;
}

struct Tally {
  int loops = 0, tight = 0, exact = 0;
};

void check_costs(const PrimFunc& f, Tally& tally) {
  const PrimFunc compact = passes::compact(f, Target{});
  const auto costs = report::loop_costs(f);
  const auto counted = Counter(compact).result();
  REQUIRE(costs.size() == counted.size());
  for (size_t i = 0; i < costs.size(); ++i) {
    INFO("loop " << i << " of\n" << print(compact));
    CHECK(costs[i].touched >= counted[i].touched);
    CHECK(costs[i].footprint >= counted[i].footprint);
    ++tally.loops;
    tally.exact += costs[i].exact;
    tally.tight += costs[i].touched == counted[i].touched && costs[i].footprint == counted[i].footprint;
  }
}

// Every line of lowered text has its loops. False where the schedule can't be lowered (registers with moving
// indices).
bool check_links(const PrimFunc& f) {
  PrimFunc lowered;
  try {
    lowered = lower(f, parse_target("x86-64-v3"));
  } catch (const UserError&) {
    return false;
  }
  const auto links = report::link_lines(f, lowered);
  const auto loops = report::loops_in(f.body);
  REQUIRE(links.size() == report::split_lines(print(lowered)).size());
  for (const std::vector<int>& line : links)
    for (const int l : line) CHECK((l >= 0 && static_cast<size_t>(l) < loops.size()));
  return true;
}

}  // namespace

TEST_CASE("no figure is below what counting gives, whatever the schedule") {
  Tally tally;
  TraceCounts ignored;
  TraceOptions options;
  options.wanted = 5;
  options.gpu = false;
  int functions = 0, linked = 0;
  constexpr int kRounds = 6;
  for (int round = 0; round < kRounds; ++round) {
    std::mt19937_64 rng(static_cast<uint64_t>(round));
    for (int index = 0; index < fuzz_function_count(); ++index) {
      const FuzzFunction f = make_function(index, draw_sizes((index + round) % 2 == 0, rng));
      const Schedule s = random_schedule(f.func, rng, ignored, options);
      INFO(f.name << "\n" << print(s.trace()));
      linked += check_links(s.func());
      if (!small(s.func())) continue;
      check_costs(s.func(), tally);
      ++functions;
    }
  }
  INFO(functions << " functions, " << linked << " lowered, " << tally.loops << " loops: " << tally.exact
                 << " said to be exact, " << tally.tight << " tight");
  CHECK(linked > kRounds * fuzz_function_count() / 2);
  CHECK(functions > kRounds * fuzz_function_count() / 3);
  CHECK(tally.tight * 10 > tally.exact * 9);
  CHECK(tally.exact * 10 > tally.loops * 9);
}
