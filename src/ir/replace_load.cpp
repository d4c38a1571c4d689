#include "nestor/replace_load.h"

#include "nestor/walk.h"

namespace nestor {

namespace {

struct LoadReplacer : Rewriter {
  LoadReplacer(const Buffer& b, const Expr& v) : buffer(b), value(v) {}
  const Buffer& buffer;
  const Expr& value;
  Expr expr(const Expr& e) override {
    const auto* l = e.as<Load>();
    return l && l->buffer == buffer ? value : children(e);
  }
};

}  // namespace

Expr replace_load(const Expr& e, const Buffer& buffer, const Expr& value) {
  return LoadReplacer(buffer, value).expr(e);
}

Stmt replace_load(const Stmt& s, const Buffer& buffer, const Expr& value) {
  return LoadReplacer(buffer, value).stmt(s);
}

}  // namespace nestor
