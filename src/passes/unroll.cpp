// Unrolled loops become their iterations, one after the other.
#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"
#include "src/passes/refuse.h"

namespace nestor::passes {

namespace {

constexpr int64_t kMostStatements =
    1 << 14;  // beyond it the code no longer fits any cache, and compiling takes seconds

int64_t count_stores(const Stmt& s) {
  int64_t n = 0;
  for_each_stmt(s, [&](const Stmt& inner) { n += inner.as<Store>() != nullptr; });
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
    if (*extent * count_stores(loop->body) > kMostStatements)
      refuse("unrolling loop `" + name + "` makes " + std::to_string(*extent * count_stores(loop->body)) +
                 " statements",
             "split it, and unroll the inner part");
    std::vector<Stmt> copies;
    for (int64_t i = 0; i < *extent; ++i)
      copies.push_back(
          substitute(i == 0 ? loop->body : fresh_copy(loop->body), VarMap{{loop->var, Expr(i)}}));
    return make::seq(std::move(copies));
  }
};

}  // namespace

PrimFunc unroll(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Unroller().stmt(f.body);
  return out;
}

}  // namespace nestor::passes
