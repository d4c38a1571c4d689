// Threads that share a convolution's channels all read the padded copy of its image, and whoever didn't write
// it fetches each line of it from another core: that takes longer than to copy it. So threads share parts of
// the image, and of the copy the same ones:
//
//   images | parts of the lines (parallel) | channels | lines of a part | ...        lines (parallel) | copy
//
// (Two threads, Emerald Rapids: u8 3x3 of 64 channels at 56 0.231 to 0.166 ms, 0.319 on one; 7x7 of
// 2 to 17 at 123 0.246 to 0.173, 0.314 on one.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/transformed_chain.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kPartsPerThread = 4, kLeastLines = 2;  // in a part
constexpr int64_t kLeastBytes = 16 << 10;                // less crosses as fast

// Whether a map makes the buffer as a whole before its one reader runs: a padded copy.
bool made_before(const PrimFunc& f, const Buffer& buffer) {
  if (find_param(f, buffer)) return false;
  const std::vector<std::string> writers = writers_of(f, buffer);
  if (writers.size() != 1 || readers_of(f, buffer).size() != 1) return false;
  const BlockInfo map = analyze(f, writers[0]);
  return !map.reduction && loops_of(f, map.name).size() >= map.iters.size();
}

// A padded copy that b reads and that is small enough to lie in a core's cache while it is used.
const Access* whole_copy(const PrimFunc& f, const BlockInfo& b, const Target& target) {
  for (const Access& a : b.accesses) {
    const int64_t bytes = a.elements * bytes_of(a.buffer->type.dtype);
    if (!a.write && bytes >= kLeastBytes && bytes <= target.l2_bytes && made_before(f, a.buffer)) return &a;
  }
  return nullptr;
}

bool holds_block(const Stmt& body, const std::string& name) {
  bool found = false;
  for_each_stmt(body, [&](const Stmt& s) {
    const auto* block = s.as<Block>();
    found |= block && block->id->name == name;
  });
  return found;
}

// The loop of `map` over the one dimension of what it makes that the reader's parallel loop moves along;
// empty where there are others, or none.
std::string loop_beside(const PrimFunc& f, const BlockInfo& map, const std::string& reader) {
  std::vector<Var> moving;  // with that loop: it, and iterators of blocks inside
  const auto moves = [&](const Expr& e) {
    return std::any_of(moving.begin(), moving.end(), [&](const Var& v) { return uses_var(e, v); });
  };
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* l = s.as<For>(); l && l->kind == ForKind::parallel && holds_block(l->body, reader))
      moving.push_back(l->var);
    if (const auto* block = s.as<Block>())
      for (const IterVar& i : block->iters)
        if (moves(i.binding)) moving.push_back(i.var);
  });
  std::string found;
  for (const Access& a : analyze(f, reader).accesses)
    for (size_t d = 0; a.buffer == map.output && d < a.indices.size(); ++d)
      if (moves(a.indices[d])) {
        const std::string beside = loop_over_dim(map, a.buffer, d);
        if (beside.empty() || (!found.empty() && found != beside)) return "";
        found = beside;
      }
  return found;
}

}  // namespace

std::string share_lines(Schedule& s, const BlockInfo& b, std::vector<std::string>& outer,
                        const Target& target) {
  const Access* copy = target.cores > 1 ? whole_copy(s.func(), b, target) : nullptr;
  if (!copy || work_of(b, target).microseconds() < target.parallel_us) return "";
  int64_t constants = 0;
  for (const Access& a : b.accesses)
    if (a.constant) constants += a.elements * bytes_of(a.buffer->type.dtype);
  if (constants > target.l2_bytes / 2) return "";  // they pass for each part
  bool others = false;
  size_t at = 0;
  for (; at < outer.size(); ++at) {
    const Iter* i = walked_by(b, outer[at]);
    if (extent_of(s, b.name, outer[at]) < 2) continue;
    if (i && copy->uses(*i)) break;
    others = true;
  }
  if (at == outer.size() || !others) return "";
  const std::string lines = outer[at];
  const int64_t extent = extent_of(s, b.name, lines), most = kPartsPerThread * target.cores;
  if (extent < kLeastLines * most) return "";
  const int64_t size = ceil_div(extent, most);
  s.because(fmt::format("threads share lines of {}: each reads what it copied itself", copy->buffer->name));
  if (!s.try_step(fmt::format("{0}p {0}l = split {1}.{0} [_, {2}] tail=peel", lines, b.name, size)))
    return "";
  outer[at] = lines + "l";
  outer.insert(outer.begin(), lines + "p");
  return lines + "p";
}

bool share_with_reader(Schedule& s, const std::string& block, const Target& target) {
  const BlockInfo map = analyze(s.func(), block);
  const std::vector<std::string> readers = readers_of(s.func(), map.output);
  if (target.cores < 2 || readers.size() != 1 || !made_before(s.func(), map.output)) return false;
  const std::string lines = loop_beside(s.func(), map, readers[0]);
  if (lines.empty() || extent_of(s, block, lines) < target.cores) return false;
  std::string around, parts = lines;
  for (const LoopInfo& m : loops_of(s.func(), block)) {
    if (m.name == lines) break;
    if (m.extent > 1) around += " " + m.name;
  }
  Schedule tried = s;
  try {
    const int64_t most = kPartsPerThread * target.cores, extent = extent_of(s, block, lines);
    if (!around.empty() && extent >= kLeastLines * most) {
      parts += "p";
      tried.because("channels of some lines at a time");
      tried(
          fmt::format("{0}p {0}l = split {1}.{0} [_, {2}] tail=peel", lines, block, ceil_div(extent, most)));
    }
    if (!around.empty()) tried(fmt::format("reorder {} ({}{})", block, parts, around));
    tried.because(fmt::format("each thread copies the lines that it reads in {}", readers[0]));
    tried(fmt::format("parallel {}.{}", block, parts));
  } catch (const ScheduleError&) {
    return false;
  }
  s = std::move(tried);
  return true;
}

}  // namespace nestor::library
