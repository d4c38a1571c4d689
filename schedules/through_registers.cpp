#include "schedules/through_registers.h"

#include "nestor/walk.h"
#include "schedules/nest.h"
#include "schedules/privatize.h"

namespace nestor::schedules {

namespace {

// One half of a nest.
class Half : public Rewriter {
 public:
  Half(bool loads, const For& around, std::vector<BufferDecl>& registers, std::set<std::string>& taken)
      : loads_(loads), registers_(registers), taken_(taken), loops_{&around} {}

  Stmt stmt(const Stmt& s) override {
    if (const auto* loop = s.as<For>()) {
      loops_.push_back(loop);
      Stmt out = children(s);
      loops_.pop_back();
      return out;
    }
    const auto* b = s.as<Block>();
    return b ? half(*b) : children(s);
  }

 private:
  Stmt half(const Block& old) {
    Block b = old;
    const auto& store = *old.body.as<Store>();
    std::set<std::string> names;
    for (const IterVar& i : b.iters) names.insert(i.var->name);
    std::vector<Expr> place;
    for (const For* loop : loops_) {
      const Var v = make_var(unique_name("r" + loop->var->name, names));
      names.insert(v->name);
      b.iters.push_back({v, IterKind::spatial, loop->extent, Expr(loop->var)});
      place.emplace_back(v);
    }
    if (loads_) {
      const Buffer own = make_buffer(unique_name(store.buffer->name + "_ahead", taken_), store.buffer->type);
      taken_.insert(own->name);
      BufferDecl decl{own, {}, Scope::local, std::nullopt};
      for (const For* loop : loops_) decl.shape.push_back(loop->extent);
      registers_.push_back(std::move(decl));
      b.body = make::store(own, std::move(place), store.value);
    } else {
      b.body = make::store(store.buffer, store.indices, make::load(registers_.at(next_++).buffer, place));
    }
    return make::block(std::move(b));
  }

  const bool loads_;
  std::vector<BufferDecl>& registers_;
  std::set<std::string>& taken_;
  std::vector<const For*> loops_;
  size_t next_ = 0;
};

}  // namespace

Halves through_registers(const std::vector<Stmt>& copies, const For& around, std::set<std::string>& taken) {
  Halves out;
  Half loads(true, around, out.registers, taken), stores(false, around, out.registers, taken);
  const auto name = [&](const std::string& of) {
    const std::string unique = unique_name(of + "_ahead", taken);
    taken.insert(unique);
    return unique;
  };
  for (const Stmt& s : copies) {
    const Stmt load = loads.stmt(s);
    out.stores.push_back(stores.stmt(s));
    out.loads.push_back(renamed_copy(load, name, taken));
  }
  return out;
}

}  // namespace nestor::schedules
