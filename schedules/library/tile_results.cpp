// The dimensions of a tile's results, and the loops that walk them.
#include "schedules/library/tile_results.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/words.h"

namespace nestor::library {

using schedules::join;

int dim_of(const BlockInfo& b, const Iter* i) {
  if (!i) return -1;
  for (const Access& a : b.accesses)
    if (a.write)
      for (size_t d = 0; d < a.indices.size(); ++d)
        if (const auto* r = a.indices[d].as<VarRef>(); r && r->var == i->var) return static_cast<int>(d);
  return -1;
}

const Iter* iter_over(const BlockInfo& reader, const Buffer& read, int dim) {
  if (dim < 0) return nullptr;
  for (const Access& a : reader.accesses)
    if (a.buffer == read && !a.write)
      for (const Iter& i : reader.iters)
        if (const auto* r = a.indices[static_cast<size_t>(dim)].as<VarRef>(); r && r->var == i.var) return &i;
  return nullptr;
}

const Access* write_of(const BlockInfo& b) {
  const auto it = std::find_if(b.accesses.begin(), b.accesses.end(), [](const Access& a) { return a.write; });
  return it == b.accesses.end() ? nullptr : &*it;
}

// The iterator whose neighbours in the output are `stride` elements apart.
const Iter* iter_at(const BlockInfo& writer, int64_t stride) {
  for (const Iter& i : writer.iters)
    if (i.extent > 1 && write_of(writer)->stride(i) == stride) return &i;
  return nullptr;
}

int64_t run_beside(const BlockInfo& writer, const Iter& lanes) {
  int64_t run = 1;
  for (const Iter* i = iter_at(writer, run); i && i != &lanes; i = iter_at(writer, run)) run *= i->extent;
  return run;
}

void lay_last(Schedule& s, const Buffer& buffer, const std::vector<int>& last, int64_t vector) {
  if (std::find(last.begin(), last.end(), -1) != last.end()) return;
  const std::vector<Expr> shape = declarations(s.func()).at(buffer).shape;
  std::vector<std::string> names, order;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    names.push_back(fmt::format("d{}", d));
    if (std::find(last.begin(), last.end(), d) == last.end()) order.push_back(names.back());
  }
  for (const int d : last) order.push_back(names.at(static_cast<size_t>(d)));
  const bool whole = as_int(shape.at(static_cast<size_t>(last.back()))).value_or(0) % vector == 0;
  if (whole && order == names) return;
  if (!whole) order.back() = fmt::format("{1}/{0}, {1}%{0}", vector, order.back());
  s(fmt::format("transform_layout {} ({}) -> ({})", buffer->name, fmt::join(names, ", "),
                fmt::join(order, ", ")));
}

void lanes_last(Schedule& s, const std::string& block, const std::string& lanes) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  if (loops.empty() || loops.back().name == lanes) return;
  std::vector<std::string> order;
  bool found = false;
  for (const LoopInfo& l : loops) {
    found |= l.name == lanes;
    if (found && l.name != lanes) order.push_back(l.name);
  }
  order.push_back(lanes);
  s(fmt::format("reorder {} ({})", block, join(order)));
}

}  // namespace nestor::library
