// Threads that share a convolution's channels all read the padded copy of its image, and whoever didn't write
// it fetches each line of it from another core: that takes longer than to copy it. So threads share parts of
// the image, and of the copy the same ones:
//
//   parts of the lines (parallel) | channels | lines of a part | ...
//   parts of the lines (parallel) | channels | lines of a part | columns, of the copy
//
// Of several images or groups, which are shared as they are, the copies too.
//
// (Two threads, Emerald Rapids: u8 3x3 of 64 channels at 56 0.231 to 0.166 ms, 0.319 on one; 7x7 of 2 to 17
// at 123 0.246 to 0.173, 0.314 on one; transposed 4x4 of 56 to 32 in 8 groups 0.103 to 0.050.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"
#include "schedules/library/transformed_chain.h"
#include "schedules/nest.h"
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

const For* parallel_around(const PrimFunc& f, const std::string& block) {
  if (const auto place = schedules::find_place(f, block))
    for (const Stmt& l : place->loops())
      if (schedules::as_for(l).kind == ForKind::parallel) return l.as<For>();
  return nullptr;
}

// The loop of `map` over the one dimension of what it makes that the reader goes along, from front to back,
// with its loop; empty where there are others, or none.
std::string loop_beside(const PrimFunc& f, const BlockInfo& map, const std::string& reader, const For& loop) {
  std::vector<Var> moving{loop.var};  // and iterators of blocks inside
  const auto moves = [&](const Expr& e) {
    return std::any_of(moving.begin(), moving.end(), [&](const Var& v) { return uses_var(e, v); });
  };
  const auto forward = [&](const Expr& e) {
    const auto affine = as_affine(e);
    return affine && std::all_of(moving.begin(), moving.end(),
                                 [&](const Var& v) { return coefficient(*affine, v) >= 0; });
  };
  bool all_forward = true;  // a digit of fused loops begins anew
  for_each_stmt(loop.body, [&](const Stmt& s) {
    if (const auto* block = s.as<Block>())
      for (const IterVar& i : block->iters) {
        if (!moves(i.binding)) continue;
        all_forward &= forward(i.binding);
        moving.push_back(i.var);
      }
  });
  std::string found;
  for (const Access& a : analyze(f, reader).accesses)
    for (size_t d = 0; a.buffer == map.output && d < a.indices.size(); ++d)
      if (moves(a.indices[d])) {
        const std::string beside = loop_over_dim(map, a.buffer, d);
        if (beside.empty() || (!found.empty() && found != beside)) return "";
        found = beside;
      }
  return all_forward ? found : "";
}

// Whether the reader's iterator goes along the dimension of the copy that lies dense, the map's lanes.
bool along_lanes(const BlockInfo& map, const Access& copy, const Iter& i) {
  const Access* write = write_of(map);
  for (size_t d = 0; d < copy.indices.size(); ++d)
    if (uses_var(copy.indices[d], i.var))
      for (const Iter& m : map.iters)
        if (uses_var(write->indices[d], m.var) && write->stride(m) == 1) return true;
  return false;
}

// So many lines in a part that the cores share all `extent` of them evenly; 0: that can't be.
int64_t lines_in_part(int64_t extent, int64_t cores) {
  constexpr double kEvenly = 0.95;
  const int64_t most = ceil_div(extent, kPartsPerThread * cores);
  for (int64_t size = std::max(most, kLeastLines); size <= ceil_div(extent, cores); ++size) {
    const int64_t turns = ceil_div(ceil_div(extent, size), cores);
    if (static_cast<double>(extent) >= kEvenly * static_cast<double>(turns * cores * size)) return size;
  }
  return 0;
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
  const int64_t extent = extent_of(s, b.name, lines), size = lines_in_part(extent, target.cores);
  if (size == 0 || extent < kLeastLines * kPartsPerThread * target.cores ||
      along_lanes(analyze(s.func(), writers_of(s.func(), copy->buffer)[0]), *copy, *walked_by(b, lines)))
    return "";
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
  const int64_t bytes = write_of(map)->elements * bytes_of(map.output->type.dtype);
  if (target.cores < 2 || bytes < kLeastBytes || readers.size() != 1 || !made_before(s.func(), map.output))
    return false;
  const For* reader = parallel_around(s.func(), readers[0]);
  const std::string lines = reader ? loop_beside(s.func(), map, readers[0], *reader) : "";
  const int64_t parts = reader ? as_int(reader->extent).value_or(0) : 0;
  if (lines.empty() || parts < target.cores || extent_of(s, block, lines) < parts) return false;
  std::string around, shared = lines;
  for (const LoopInfo& m : loops_of(s.func(), block)) {
    if (m.name == lines) break;
    if (m.extent > 1) around += " " + m.name;
  }
  Schedule tried = s;
  try {
    const int64_t size = extent_of(s, block, lines) / parts;
    if (!around.empty() && size > 1) {
      shared += "p";
      tried.because("all channels of some lines at a time");
      tried(fmt::format("{0}p {0}l = split {1}.{0} [_, {2}] tail=peel", lines, block, size));
    }
    if (!around.empty()) tried(fmt::format("reorder {} ({}{})", block, shared, around));
    tried.because(fmt::format("each thread computes the part that it reads in {}", readers[0]));
    tried(fmt::format("parallel {}.{}", block, shared));
    for (const auto& [name, value] : reader->annotations)
      if (name == "threads")
        tried(fmt::format("annotate {}.{} threads={}", block, shared, std::get<int64_t>(value)));
      else if (name == "split")
        tried(fmt::format("annotate {}.{} split={}", block, shared, std::get<std::string>(value)));
  } catch (const ScheduleError&) {
    return false;
  }
  s = std::move(tried);
  return true;
}

}  // namespace nestor::library
