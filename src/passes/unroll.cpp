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
Count count(const Stmt& s) {
  Count n;
  for_each_stmt(s, [&](const Stmt& inner) {
    n.statements += inner.as<Store>() || inner.as<Evaluate>();
    n.loops += inner.as<For>() != nullptr;
  });
  return n;
}

struct Unroller : Rewriter {
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
};

}  // namespace

PrimFunc unroll(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Unroller().stmt(f.body);
  return out;
}

}  // namespace nestor::passes
