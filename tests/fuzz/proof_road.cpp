#include <algorithm>

#include "nestor/proof.h"
#include "nestor/walk.h"
#include "tests/fuzz/roads.h"

namespace nestor {

namespace {

// Does it read at places that data decide? Those the proof may leave open.
bool gathers(const PrimFunc& f) {
  bool found = false;
  for_each_expr(f.body, [&](const Expr& e) {
    const auto* load = e.as<Load>();
    if (!load) return;
    for (const Expr& index : load->indices)
      for_each_expr(index, [&](const Expr& inner) { found = found || inner.as<Load>(); });
  });
  return found;
}

// Does it multiply sizes that are open, or divide by one? Where that decides something the proof may leave it
// open, too.
bool multiplies_sizes(const PrimFunc& f) {
  bool found = false;
  for_each_expr(f.body, [&](const Expr& e) {
    const auto* b = e.as<Binary>();
    if (!b || b->a.type() != Type{}) return;
    const bool known = as_int(b->b) || (b->op == BinaryOp::mul && as_int(b->a));
    found = found || (!known && (b->op == BinaryOp::mul || b->op == BinaryOp::div || b->op == BinaryOp::mod));
  });
  return found;
}

// Updates that happen more than once each: a reduction under a loop that no iterator is bound to.
bool repeats(const PrimFunc& f) {
  bool found = false;
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (!loop || is_const_int(loop->extent, 1)) return;
    for_each_stmt(loop->body, [&](const Stmt& inner) {
      const auto* b = inner.as<Block>();
      found = found || (b && b->body.as<Update>() &&
                        std::none_of(b->iters.begin(), b->iters.end(),
                                     [&](const IterVar& i) { return uses_var(i.binding, loop->var); }));
    });
  });
  return found;
}

// Nothing to put together: each is proved as it comes.
class ProofRoad : public Road {
 public:
  Entry add(const Subject& subject, const PrimFunc& scheduled, int64_t number) override {
    if (repeats(subject.func)) return {false, "updates happen more than once each", {}};
    Proof p;
    try {
      p = verify_schedule(subject.func, scheduled, {.seconds = 120});
    } catch (const std::exception& e) {
      return {false, "", {"proof", e.what()}};
    }
    const bool open = p.verdict == Verdict::unproved;
    if (open && (multiplies_sizes(subject.func) || multiplies_sizes(scheduled) || gathers(subject.func)))
      return {false, p.reason, {}};
    done_.emplace_back(number, p.ok() ? Finding{} : Finding{open ? "unproved" : "proof", describe(p)});
    return {true, "", {}};
  }
  std::vector<std::pair<int64_t, Finding>> run() override { return std::move(done_); }

 private:
  std::vector<std::pair<int64_t, Finding>> done_;
};

}  // namespace

std::unique_ptr<Road> proof_road() {
  return std::make_unique<ProofRoad>();
}

}  // namespace nestor
