// A vector across two groups of 8 channels takes two values for each broadcast, put together; half a vector,
// of one group, takes one. A core that passes vectors in two halves computes as much a cycle by halves. (Zen
// 4, by groups of 8, 3x3/2 over 96 channels at 34: 64 to 37 us, 3x3 over 16 29 to 23.)
#include <algorithm>
#include <optional>

#include "nestor/simplify.h"
#include "schedules/library/planner.h"

namespace nestor::library {

Target with_half_vectors(const PrimFunc& f, const BlockInfo& b, const std::string& epilogue,
                         const Target& target) {
  const int64_t lanes = lanes_of(b, target);
  if (!target.double_pumped || lanes < 4) return target;
  std::optional<BlockInfo> written;
  if (!epilogue.empty()) written = analyze(f, epilogue);
  const BlockInfo* writer = written ? &*written : nullptr;
  const Tile whole = choose_tile(b, target, nullptr, writer);
  if (!whole.vector) return target;
  Target half = target;
  half.vector_bits /= 2;
  half.double_pumped = false;
  const Tile t = choose_tile(b, half, nullptr, writer);
  // A tile of several halves would put two groups together again.
  if (!t.vector || t.turned || t.width > lanes / 2) return target;
  // What an operand has for a lane is its group's.
  const bool by_groups = std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    return !a.write && std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& index) {
      return divides(index, t.vector->var, lanes / 2);
    });
  });
  if (!by_groups) return target;
  const bool worse = t.vector != whole.vector && cost_of_lanes(b, *whole.vector, target, writer) <
                                                     cost_of_lanes(b, *t.vector, half, writer);
  return worse ? target : half;
}

}  // namespace nestor::library
