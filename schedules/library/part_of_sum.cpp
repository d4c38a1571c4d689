#include "schedules/library/part_of_sum.h"

#include <fmt/format.h>

#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

using schedules::join;

namespace {

std::string name_in_part(const Iter& i) {
  return "p" + (i.loop.empty() ? i.var->name : i.loop);
}

}  // namespace

BlockInfo factor_part(Schedule& s, const BlockInfo& b, const std::string& cut,
                      const std::vector<std::string>& reduced) {
  std::vector<std::string> order{cut + "0"};
  for (const Iter* i : b.spatial())
    if (!i->loop.empty()) order.push_back(i->loop);
  order.insert(order.end(), reduced.begin(), reduced.end());
  s(fmt::format("reorder {} ({})", b.name, join(order)));
  s(fmt::format("{0}_part = rfactor {0}.{1}0 axis=0", b.name, cut));
  return analyze(s.func(), b.name + "_part");
}

Tile tile_in(const BlockInfo& part, Tile t) {
  for (const Iter** i : {&t.vector, &t.row, &t.column})
    if (*i) *i = part.iter((*i)->loop);
  return t;
}

void compute_part(Schedule& s, const BlockInfo& part, const AddingTile& adding) {
  std::vector<std::string> names;
  for (const Iter* i : part.spatial()) names.push_back(name_in_part(*i));
  s.because("the partial sum stays in registers");
  s(fmt::format("{} = compute_at {} {}.{}", join(names), part.name, adding.block, adding.at));
}

std::vector<std::string> keep_part(Schedule& s, const BlockInfo& part, const Tile& t,
                                   const AddingTile& adding, std::vector<std::string> reduced) {
  const std::string& sums = part.name;
  std::vector<std::string> order;
  for (const Iter* i : part.spatial())
    if (i != t.vector && i != t.row && i != t.column) order.push_back(name_in_part(*i));
  std::erase_if(reduced, [&](const std::string& l) { return extent_of(s, sums, l) < 0; });
  order.insert(order.end(), reduced.begin(), reduced.end());
  for (const Iter* i : {t.row, t.column, t.vector})
    if (i) order.push_back(name_in_part(*i));
  s(fmt::format("reorder {} ({})", sums, join(order)));
  s.because(t.why_vector);
  s(fmt::format("vectorize {}.p{}", sums, t.vector->loop));
  s(fmt::format("vectorize {}.{}", adding.block, adding.lanes));
  for (const Iter* i : {t.row, t.column})
    if (i) s(fmt::format("unroll {}.p{}", sums, i->loop));
  for (const std::string& l : adding.unrolled) s(fmt::format("unroll {}.{}", adding.block, l));
  s(fmt::format("set_scope {} local", part.output->name));
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}", sums, reduced.front()));
  return reduced;
}

}  // namespace nestor::library
