#include "schedules/library/tails.h"

#include "nestor/walk.h"

namespace nestor::library {

bool has_tail(const PrimFunc& f, const std::string& block, const std::string& loop) {
  bool found = false;
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* l = s.as<For>();
    if (!l || l->var->name != loop || !l->annotations.count("tail")) return;
    for_each_stmt(l->body, [&](const Stmt& inner) {
      const auto* b = inner.as<Block>();
      found = found || (b && b->id->name == block);
    });
  });
  return found;
}

}  // namespace nestor::library
