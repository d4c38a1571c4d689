// Unrolled loops become their iterations, one after the other.
#include <algorithm>

#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"
#include "src/passes/refuse.h"

namespace nestor::passes {

namespace {

// What unrolling may make of one loop. With more statements the code no longer fits any cache, and compiling
// takes more than seconds; LLVM's time grows with the square of the number of loops.
constexpr int64_t kMostStatements = 1 << 14, kMostLoops = 1 << 10;

struct Count {
  int64_t statements = 0, loops = 0;
};
// Loops that are kept to be unrolled later count as their iterations.
Count count(const Stmt& s) {
  struct Counter : Walker {
    Count n;
    int64_t times = 1;
    void stmt(const Stmt& inner) override {
      n.statements += inner.as<Store>() || inner.as<Evaluate>() ? times : 0;
      const auto* loop = inner.as<For>();
      n.loops += loop ? times : 0;
      const int64_t around = times;
      if (loop && loop->kind == ForKind::unrolled)
        times = std::min(times * std::clamp<int64_t>(as_int(loop->extent).value_or(1), 1, kMostStatements),
                         kMostStatements);
      children(inner);
      times = around;
    }
  } counter;
  counter.stmt(s);
  return counter.n;
}

// For CUDA they stay loops, which the CUDA compiler unrolls; what it may make of one is as limited.
class Unroller : public Rewriter {
 public:
  explicit Unroller(bool keep) : keep_(keep) {}

  Stmt stmt(const Stmt& s) override {
    Stmt out = children(s);
    const auto* loop = out ? out.as<For>() : nullptr;
    if (!loop || loop->kind != ForKind::unrolled) return out;
    const auto extent = as_int(loop->extent);
    const std::string name = loop->var->name;
    if (!extent)
      refuse("loop `" + name + "` can't be unrolled: its extent " + print(loop->extent) + " isn't constant",
             "split it by a constant first");
    const Count each = count(loop->body);
    require_few(name, *extent, std::max<int64_t>(each.statements, 1), kMostStatements, "statements");
    require_few(name, *extent, each.loops, kMostLoops, "loops");
    if (keep_) return out;
    std::vector<Stmt> copies;
    for (int64_t i = 0; i < *extent; ++i)
      copies.push_back(
          substitute(i == 0 ? loop->body : fresh_copy(loop->body), VarMap{{loop->var, Expr(i)}}));
    return make::seq(std::move(copies));
  }

 private:
  static void require_few(const std::string& loop, int64_t extent, int64_t each, int64_t most,
                          const std::string& what) {
    if (each == 0 || extent <= most / each) return;
    int64_t made = 0;
    const bool countless = __builtin_mul_overflow(extent, each, &made);
    refuse("unrolling loop `" + loop + "` makes " + (countless ? "countless" : std::to_string(made)) + " " +
               what + ", more than " + std::to_string(most),
           "split it, and unroll the inner part");
  }

  bool keep_;
};

}  // namespace

PrimFunc unroll(const PrimFunc& f, const Target& target) {
  PrimFunc out = f;
  out.body = Unroller(target.kind == TargetKind::cuda).stmt(f.body);
  return out;
}

}  // namespace nestor::passes
