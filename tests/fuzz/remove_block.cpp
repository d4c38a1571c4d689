// Taking a block out of an unscheduled function, so that a failure shows on a smaller one.
#include <algorithm>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "tests/fuzz/shrink.h"

namespace nestor {

namespace {

bool holds_block(const Stmt& s, const std::string& name) {
  bool found = false;
  for_each_stmt(s, [&](const Stmt& inner) {
    const auto* b = inner.as<Block>();
    found = found || (b && b->id->name == name);
  });
  return found;
}

bool writes(const Stmt& s, const Buffer& b) {
  bool found = false;
  for_each_stmt(s, [&](const Stmt& inner) {
    const auto* store = inner.as<Store>();
    const auto* update = inner.as<Update>();
    found = found || (store && store->buffer == b) || (update && update->buffer == b);
  });
  return found;
}

bool reads(const Stmt& s, const Buffer& b) {
  bool found = false;
  for_each_expr(s, [&](const Expr& e) {
    const auto* load = e.as<Load>();
    found = found || (load && load->buffer == b);
  });
  return found;
}

}  // namespace

PrimFunc remove_block(const PrimFunc& f, const std::string& block) {
  std::vector<Stmt> nests = {f.body};
  if (const auto* seq = f.body.as<Seq>()) nests = seq->stmts;
  std::erase_if(nests, [&](const Stmt& s) { return holds_block(s, block); });
  if (nests.empty()) throw UserError("nothing is left without block " + block);
  PrimFunc out{f.name, f.dims, {}, {}, make::seq(std::move(nests))};
  const auto place = [&](const BufferDecl& d, std::optional<Role> was) {
    const bool written = writes(out.body, d.buffer), read = reads(out.body, d.buffer);
    if (!written && !read) return;
    if (written && read && !was)
      out.allocs.push_back(d);
    else if (written)
      out.params.push_back({Role::out, d});
    else
      out.params.push_back({was == Role::constant ? Role::constant : Role::in, d});
  };
  for (const Param& p : f.params) place(p.decl, p.role);
  for (const BufferDecl& d : f.allocs) place(d, std::nullopt);
  return out;
}

}  // namespace nestor
