#include "schedules/library/transformed_chain.h"

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

std::optional<Choice> choice_of(const PrimFunc& f, const BlockInfo& b) {
  std::optional<Choice> found;
  for_each_expr(find_block(f, b.name)->body, [&](const Expr& e) {
    const auto* select = e.as<Select>();
    const auto* equal = select ? select->cond.as<Binary>() : nullptr;
    if (found || !equal || equal->op != BinaryOp::eq || !as_int(equal->b)) return;
    const auto* rest = equal->a.as<Binary>();
    const bool modulo = rest && rest->op == BinaryOp::mod && as_int(rest->b);
    const auto* var = (modulo ? rest->a : equal->a).as<VarRef>();
    if (!var) return;
    for (const Iter& i : b.iters)
      if (i.var == var->var && !i.loop.empty()) found = Choice{i.loop, modulo ? *as_int(rest->b) : 0};
  });
  return found;
}

// The only block that reads what `b` writes.
std::string sole_reader(const PrimFunc& f, const BlockInfo& b) {
  const std::vector<std::string> readers = readers_of(f, b.output);
  return b.output_is_param || readers.size() != 1 ? "" : readers[0];
}

}  // namespace

std::string sole_producer(const PrimFunc& f, const BlockInfo& b) {
  std::string found;
  for (const Access& a : b.accesses) {
    if (a.write || find_param(f, a.buffer)) continue;
    const std::vector<std::string> writers = writers_of(f, a.buffer), readers = readers_of(f, a.buffer);
    if (writers.size() != 1 || readers.size() != 1 || (!found.empty() && found != writers[0])) return "";
    found = writers[0];
  }
  return found;
}

std::optional<TransformedChain> find_transformed_chain(const PrimFunc& f) {
  std::optional<BlockInfo> products;
  for (const std::string& name : block_names(f)) {
    const BlockInfo b = analyze(f, name);
    if (b.reduction && products) return std::nullopt;
    if (b.reduction) products = b;
  }
  if (!products) return std::nullopt;
  TransformedChain c;
  c.products = *products;
  const auto step = [&](const std::string& name, BlockInfo& b, Choice& by) {
    if (name.empty()) return false;
    b = analyze(f, name);
    const auto choice = choice_of(f, b);
    if (choice) by = *choice;
    return choice && !b.reduction && b.affine_loops;
  };
  const bool whole = step(sole_producer(f, c.products), c.second, c.by_second) &&
                     step(sole_producer(f, c.second), c.first, c.by_first) &&
                     step(sole_reader(f, c.products), c.third, c.by_third) &&
                     step(sole_reader(f, c.third), c.last, c.by_last);
  if (!whole || c.by_first.modulo || c.by_second.modulo) return std::nullopt;
  // One tile along the image: the iterator is its own remainder.
  if (c.by_third.modulo == 0) c.by_third.modulo = c.third.iter(c.by_third.loop)->extent;
  if (c.by_last.modulo == 0) c.by_last.modulo = c.last.iter(c.by_last.loop)->extent;
  return c;
}

std::string loop_over_dim(const BlockInfo& reader, const Buffer& buffer, size_t dim) {
  for (const Access& a : reader.accesses)
    if (a.buffer == buffer)
      for (const Iter& i : reader.iters)
        if (const auto* r = a.indices[dim].as<VarRef>(); r && r->var == i.var) return i.loop;
  return "";
}

std::string in_last(const TransformedChain& c, const std::string& loop) {
  for (const Access& a : c.third.accesses)
    if (a.write)
      for (size_t d = 0; d < a.indices.size(); ++d)
        if (const auto* r = a.indices[d].as<VarRef>(); r && r->var == c.third.iter(loop)->var)
          return loop_over_dim(c.last, a.buffer, d);
  return "";
}

std::vector<std::string> image_loops(const TransformedChain& c) {
  std::vector<std::string> out;
  for (const Iter& i : c.third.iters) {
    bool plain = false;
    for (const Access& a : c.third.accesses)
      if (!a.write && a.buffer == c.products.output)
        for (const Expr& e : a.indices) plain |= e.as<VarRef>() && e.as<VarRef>()->var == i.var;
    const std::string loop = plain || i.loop == c.by_third.loop ? "" : in_last(c, i.loop);
    if (!loop.empty()) out.push_back(loop);
  }
  return out;
}

namespace {

// The iterators of the second block that number tiles: those of the products which the constant operand
// doesn't have.
std::vector<const Iter*> tiles_in_second(const TransformedChain& c) {
  const Buffer& made = c.second.output;
  const auto moves_constant = [&](const Iter& i) {
    return std::any_of(c.products.accesses.begin(), c.products.accesses.end(),
                       [&](const Access& a) { return a.constant && a.uses(i); });
  };
  std::vector<const Iter*> out;
  for (size_t d = 0; d < write_of(c.second)->indices.size(); ++d) {
    const std::string read = loop_over_dim(c.products, made, d), written = loop_over_dim(c.second, made, d);
    const Iter* i = read.empty() || written.empty() ? nullptr : c.products.iter(read);
    if (i && !i->reduce && !moves_constant(*i)) out.push_back(c.second.iter(written));
  }
  return out;
}

// Whether the second block reads parts of the first's by a quotient or remainder of the iterator.
bool is_divided(const TransformedChain& c, const Iter& i) {
  bool found = false;
  for (const Access& a : c.second.accesses)
    for (const Expr& index : a.indices)
      for_each_expr(index, [&](const Expr& e) {
        const auto* b = e.as<Binary>();
        found = found || (b && (b->op == BinaryOp::div || b->op == BinaryOp::mod) && uses_var(b->a, i.var));
      });
  return found;
}

}  // namespace

Tiles tiles_of(const TransformedChain& c) {
  const std::vector<const Iter*> numbered = tiles_in_second(c);
  if (numbered.empty()) return {};
  if (numbered.size() > 1 && !is_divided(c, *numbered.back()))
    return {numbered.back()->loop, numbered[numbered.size() - 2]->loop, numbered.back()->extent};
  const Iter* tiles = numbered.front();
  int64_t row = tiles->extent;
  for (const Access& a : c.second.accesses)
    for (const Expr& e : a.indices) {
      if (a.buffer != c.first.output) continue;
      const auto* var = e.as<VarRef>();
      if (var && var->var == tiles->var) row = std::min<int64_t>(row, 1);  // each is a row
      const auto* div = e.as<Binary>();
      if (!div || div->op != BinaryOp::div || !as_int(div->b)) continue;
      var = div->a.as<VarRef>();
      if (var && var->var == tiles->var) row = *as_int(div->b);
    }
  return {tiles->loop, "", row};
}

}  // namespace nestor::library
