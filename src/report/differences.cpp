#include "src/report/differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "nestor/print.h"
#include "nestor/walk.h"

namespace nestor::report {

namespace {

// A block where it stands.
struct Place {
  const Block* block = nullptr;
  std::vector<const For*> loops;  // outermost first
};

class Places : public Walker {
 public:
  explicit Places(const PrimFunc& f) { stmt(f.body); }
  void stmt(const Stmt& s) override {
    const auto* loop = s.as<For>();
    if (loop) loops_.push_back(loop);
    if (const auto* block = s.as<Block>())
      if (of.try_emplace(block->id->name, Place{block, loops_}).second) names.push_back(block->id->name);
    children(s);
    if (loop) loops_.pop_back();
  }
  std::map<std::string, Place> of;
  std::vector<std::string> names;  // in the order of the text

 private:
  std::vector<const For*> loops_;
};

std::string extent_text(const For& loop) {
  return print(loop.extent);
}

// How a block of the function stands in a scheduled one.
class Standing {
 public:
  // `iterators`: of each iterator of the block the name of its loop in the function.
  Standing(const Places& places, const std::string& name, std::vector<std::string> iterators)
      : places_(places), name_(name), iterators_(std::move(iterators)) {
    const auto at = places.of.find(name);
    if (at != places.of.end()) place_ = &at->second;
  }

  std::string computed() const {
    if (!place_) return "inlined where it is read";
    std::string with;
    for (const std::string& other : places_.names) {
      const Place& p = places_.of.at(other);
      if (other == name_ || p.loops.empty() || place_->loops.empty() || p.loops[0] != place_->loops[0])
        continue;
      if (other.starts_with(name_ + "_")) continue;  // its own beginning, or its copy
      with += (with.empty() ? "" : ", ") + other;
    }
    return with.empty() ? "by itself" : "in one nest with " + with;
  }
  std::string lanes() const {
    return of_kind(ForKind::vectorized, [](const std::string& iterator, const std::string& extent) {
      return extent + " along " + iterator;
    });
  }
  std::string written_out() const {
    return of_kind(ForKind::unrolled, [](const std::string& iterator, const std::string& extent) {
      return extent + " of " + iterator;
    });
  }
  std::string threads() const {
    return of_kind(ForKind::parallel, [](const std::string& iterator, const std::string& extent) {
      return extent + " parts of " + iterator;
    });
  }
  // Outermost first, with the iterator that each is of.
  std::string loops() const {
    std::string out;
    if (!place_) return "none";
    for (const For* loop : place_->loops)
      if (as_int(loop->extent) != 1)
        out += fmt::format("{}{} {}", out.empty() ? "" : ", ", iterator_of(*loop), extent_text(*loop));
    return out.empty() ? "none" : out;
  }

 private:
  template <class Text>
  std::string of_kind(ForKind kind, const Text& text) const {
    std::string out;
    if (place_)
      for (const For* loop : place_->loops)
        if (loop->kind == kind)
          out += (out.empty() ? "" : ", ") + text(iterator_of(*loop), extent_text(*loop));
    return out.empty() ? "none" : out;
  }
  // The loop's own name where it is no iterator's.
  std::string iterator_of(const For& loop) const {
    const std::vector<IterVar>& iters = place_->block->iters;
    for (size_t i = 0; i < iters.size(); ++i)
      if (uses_var(iters[i].binding, loop.var)) return i < iterators_.size() ? iterators_[i] : "?";
    return loop.var->name;
  }

  const Places& places_;
  std::string name_;
  std::vector<std::string> iterators_;
  const Place* place_ = nullptr;
};

// Of a block that no schedule has touched: the loop of each iterator, else the iterator.
std::vector<std::string> iterators_of(const Block& block) {
  std::vector<std::string> out;
  for (const IterVar& i : block.iters) {
    const auto* loop = i.binding.as<VarRef>();
    out.push_back(loop ? loop->var->name : i.var->name);
  }
  return out;
}

std::string print_layout(const IndexMap& map) {
  std::string from, to;
  for (const Var& v : map.vars) from += (from.empty() ? "" : ", ") + v->name;
  for (const Expr& e : map.exprs) to += (to.empty() ? "" : ", ") + print(e);
  return "(" + from + ") -> (" + to + ")";
}

std::string layout_of(const PrimFunc& f, const std::string& buffer) {
  for (const Param& p : f.params)
    if (p.decl.buffer->name == buffer) return p.decl.layout ? print_layout(*p.decl.layout) : "row major";
  return "";
}

std::string scope_of(const PrimFunc& f, const std::string& buffer) {
  for (const auto& [b, decl] : declarations(f))
    if (b->name == buffer) return decl.scope == Scope::local ? "in registers" : "in memory";
  return "nowhere";
}

}  // namespace

std::vector<Difference> differences(const PrimFunc& func, const PrimFunc& before, const PrimFunc& after) {
  std::vector<Difference> out;
  const auto add = [&](const std::string& of, const char* what, const std::string& a, const std::string& b) {
    if (a != b) out.push_back({of, what, a, b});
  };
  const Places original(func), first(before), second(after);
  for (const std::string& name : original.names) {
    const std::vector<std::string> iterators = iterators_of(*original.of.at(name).block);
    const Standing a(first, name, iterators), b(second, name, iterators);
    add(name, "computed", a.computed(), b.computed());
    add(name, "lanes", a.lanes(), b.lanes());
    add(name, "written out", a.written_out(), b.written_out());
    add(name, "threads", a.threads(), b.threads());
    add(name, "loops", a.loops(), b.loops());
  }
  for (const BufferDecl& t : func.allocs)
    add(t.buffer->name, "values", scope_of(before, t.buffer->name), scope_of(after, t.buffer->name));
  for (const Param& p : func.params) {
    const std::string& name = p.decl.buffer->name;
    add(name, "layout", layout_of(before, name), layout_of(after, name));
  }
  return out;
}

}  // namespace nestor::report
