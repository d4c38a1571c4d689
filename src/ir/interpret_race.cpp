#include "src/ir/interpret_race.h"

#include <algorithm>

namespace nestor::interpreter {

uint32_t RaceDetector::add(uint32_t parent, int32_t loop, int64_t value, uint32_t phase) {
  nodes_.push_back({parent, nodes_[parent].depth + 1, value, loop, phase});
  return static_cast<uint32_t>(nodes_.size() - 1);
}

void RaceDetector::pass_barrier(Path& path, size_t base, uint32_t phase,
                                std::vector<std::pair<uint32_t, uint32_t>>& renewed) {
  for (size_t d = base; d < path.size(); ++d) {
    const auto it =
        std::find_if(renewed.begin(), renewed.end(), [&](const auto& r) { return r.first == path[d]; });
    if (it != renewed.end()) {
      path[d] = it->second;
      continue;
    }
    const Node old = nodes_[path[d]];
    const uint32_t fresh = add(path[d - 1], old.loop, old.value, phase);
    renewed.emplace_back(path[d], fresh);
    path[d] = fresh;
  }
}

std::optional<Clash> RaceDetector::clash(const Access& earlier, const Path& path, bool was_write) const {
  if (earlier.node == 0 || earlier.node == path.back()) return std::nullopt;
  uint32_t n = earlier.node, child = 0;
  while (nodes_[n].depth >= path.size() || path[nodes_[n].depth] != n) {
    child = n;
    n = nodes_[n].parent;
  }
  // Where the paths meet in an iteration, its body puts the accesses in order.
  if (nodes_[n].loop < 0) return std::nullopt;
  const Node& before = nodes_[child];
  const Node& now = nodes_[path[nodes_[n].depth + 1]];
  if (before.phase != now.phase) return std::nullopt;
  return Clash{nodes_[n].loop, before.value, now.value, earlier, was_write};
}

std::optional<Clash> RaceDetector::read(Shadow& s, const Path& path, int32_t site) {
  if (auto c = clash(s.writer, path, true)) return c;
  // A reader that runs beside this one stays: whoever conflicts with this one later conflicts with it too.
  if (s.reader.node == 0 || !clash(s.reader, path, false)) s.reader = {path.back(), site};
  return std::nullopt;
}

std::optional<Clash> RaceDetector::write(Shadow& s, const Path& path, int32_t site) {
  if (auto c = clash(s.writer, path, true)) return c;
  if (auto c = clash(s.reader, path, false)) return c;
  s.writer = {path.back(), site};
  s.reader = {};
  return std::nullopt;
}

}  // namespace nestor::interpreter
