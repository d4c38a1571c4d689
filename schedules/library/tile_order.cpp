// Which loops stand around a register tile, and in what order.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"
#include "schedules/library/tile.h"

namespace nestor::library {

std::map<std::string, int64_t> reduced_in_blocks(const BlockInfo& b) {
  std::map<std::string, int64_t> out;
  for (const Access& a : b.accesses)
    for (const Expr& e : a.indices)
      for (const Iter* i : b.reduced()) {
        const auto* quotient = e.as<Binary>();
        const auto* r = quotient && quotient->op == BinaryOp::div ? quotient->a.as<VarRef>() : nullptr;
        const int64_t size = r && r->var == i->var ? as_int(quotient->b).value_or(0) : 0;
        if (size > 1 && size < i->extent) out[i->loop] = size;
      }
  return out;
}

std::vector<std::string> reduction_order(const BlockInfo& b, const std::vector<std::string>& taps,
                                         const std::map<std::string, int64_t>& blocks) {
  std::vector<std::string> order, inside;
  for (const Iter* i : b.reduced()) {
    const bool cut = blocks.count(i->loop) > 0;
    order.push_back(cut ? i->loop + "0" : i->loop);
    if (cut) inside.push_back(i->loop + "1");
  }
  order.insert(order.end(), inside.begin(), inside.end());
  const auto is_tap = [&](const std::string& l) {
    return std::find(taps.begin(), taps.end(), l) != taps.end();
  };
  if (is_tap(order.back())) std::stable_partition(order.begin(), order.end(), is_tap);
  return order;
}

std::pair<std::vector<std::string>, std::vector<std::string>> outer_loops(const BlockInfo& b, const Tile& t) {
  std::vector<std::string> outside, between;
  const Iter* wide = t.column ? t.column : t.vector;
  const bool shared = shares_an_operand(b, t);
  bool behind = false;
  for (const Iter* i : b.spatial()) {
    behind |= i == wide;
    if (i == t.vector || i == t.row || i == t.column) continue;
    (behind && shared ? between : outside).push_back(i->loop);
  }
  return {outside, between};
}

bool rows_share_vectors(const BlockInfo& b, const Tile& t) {
  if (!t.row || !t.vector) return true;
  for (const Access& a : b.accesses)
    if (!a.write && !a.uses(*t.row) && (a.uses(*t.vector) || (t.column && a.uses(*t.column)))) return true;
  return false;
}

std::string why_order(const BlockInfo& b, const Tile& t, const std::string& row_tiles) {
  if (row_tiles.empty() || !t.vector)
    return "accumulators are written once, so all reduction loops run inside";
  if (!rows_share_vectors(b, t))
    return fmt::format("tiles beside each other along {} share lines, those of {} read others",
                       t.vector->loop, t.row->loop);
  const int64_t bytes = bytes_of(b.output->type.dtype);
  const double panel = static_cast<double>(b.reduction_size() * t.width * t.columns * bytes) / 1024;
  return fmt::format("the {:.1f} KiB that move with {} stay in the cache while all tiles of rows pass", panel,
                     t.column ? t.column->loop : t.vector->loop);
}

}  // namespace nestor::library
