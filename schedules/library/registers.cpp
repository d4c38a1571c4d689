// Can accumulators stay in registers? Lowering needs the index of a `local` buffer to be constant once loops
// are unrolled and vectorized. A plan finds its loops by block and iterator; in a function whose loops were
// split before, or run in another order, it may leave one between an accumulator and its block, and then must
// not be chosen.
#include <fmt/format.h>

#include "schedules/access.h"
#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

using schedules::Place;

// Loops that stay as they are must enclose every access: the buffer is then allocated inside of them. Those
// of an instruction are gone.
bool constant_inside(const Place& p, const BlockAccess& access, const std::vector<Place>& users) {
  for (const Stmt& l : p.path) {
    if (const auto* outer = l.as<Block>(); outer && outer->annotations.count("tensorize")) break;
    if (!l.as<For>()) continue;
    const For& loop = schedules::as_for(l);
    if (loop.kind == ForKind::unrolled || loop.kind == ForKind::vectorized || schedules::extent_of(l) == 1)
      continue;
    bool encloses = true, used = false;
    for (const Place& u : users) encloses = encloses && u.under(l);
    for (const Expr& e : access.indices) used = used || uses_var(e, loop.var);
    if (used && !encloses) return false;
  }
  return true;
}

}  // namespace

std::string accumulate_locally(Schedule& s, const BlockInfo& b, const std::string& epilogue) {
  s.because(fmt::format("each result is written once, not in each of {} steps", b.reduction_size()));
  if (!epilogue.empty()) {
    s(fmt::format("set_scope {} local", b.output->name));
    return epilogue;
  }
  const std::string writer = b.name + "_out";
  s(fmt::format("{} = cache_write {} local", writer, b.name));
  return writer;
}

bool accumulators_fit(const PrimFunc& f) {
  for (const auto& [buffer, decl] : declarations(f)) {
    if (decl.scope != Scope::local) continue;
    std::vector<Place> users;
    for (const Place& p : schedules::places(f.body))
      if (schedules::reads(p.block(), buffer) || schedules::writes(p.block(), buffer)) users.push_back(p);
    for (const Place& p : users)
      for (const BlockAccess& a : schedules::accesses_at(p))
        if (a.buffer == buffer && !constant_inside(p, a, users)) return false;
  }
  return true;
}

}  // namespace nestor::library
