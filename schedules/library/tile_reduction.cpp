// A register tile for a reduction. The loops become
//
//   outer S loops | vector tiles | row tiles | R loops | rows (unrolled) | lanes (vectorized)
//
// with the accumulators in registers, cleared before the R loops and written by the epilogue after them. The vector tile
// stands outside the row tiles: the panel of the operand that moves with it stays in the cache while all rows pass.
#include <fmt/format.h>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

// The lanes innermost, so that a row is stored by whole vectors.
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

// How wide and how high the tile is stands in the trace as a decision, so that a search can try its neighbours.
// A tile of the whole extent is left alone: gives the number then, else the decision's name.
std::string sample_width(Schedule& s, const Tile& t, int64_t lanes) {
  if (!t.vector || t.width >= t.vector->extent) return std::to_string(t.width);
  std::vector<int64_t> sizes;
  for (int64_t size = lanes; size <= 4 * lanes; size += lanes) sizes.push_back(size);
  return sample_size(s, t.vector->loop + "_width", sizes, t.width, t.vector->extent);
}

std::string sample_rows(Schedule& s, const Tile& t) {
  if (!t.row || t.rows >= t.row->extent) return std::to_string(t.rows);
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= 14; ++size) sizes.push_back(size);
  return sample_size(s, t.row->loop + "_rows", sizes, t.rows, t.row->extent);
}

// The layout (a,b,c) -> (b/width, a, c, b%width): tiles of the vector iterator's dimension outermost, its lanes innermost.
void pack(Schedule& s, const std::string& block, const Buffer& buffer, const std::string& vector_loop,
          const std::string& width) {
  const BlockInfo b = analyze(s.func(), block);
  const Iter* v = b.iter(vector_loop);
  for (const Access& a : b.accesses) {
    if (a.buffer != buffer || !v) continue;
    int dim = -1;
    for (size_t d = 0; d < a.indices.size(); ++d)
      if (const auto* r = a.indices[d].as<VarRef>(); r && r->var == v->var) dim = static_cast<int>(d);
    if (dim < 0) return;  // not a plain index: left as it is
    std::vector<std::string> names, inner;
    for (size_t d = 0; d < a.indices.size(); ++d) {
      names.push_back(fmt::format("d{}", d));
      if (static_cast<int>(d) != dim) inner.push_back(names.back());
    }
    const std::string split = fmt::format("d{}", dim);
    std::string map = fmt::format("({}/{}", split, width);
    for (const std::string& n : inner) map += ", " + n;
    s(fmt::format("transform_layout {} ({}) -> {}, {}%{})", buffer->name, fmt::join(names, ", "), map, split, width));
    return;
  }
}

// Where the reduction's output has the iterator as a plain index.
int dim_of(const BlockInfo& b, const Iter* i) {
  if (!i) return -1;
  for (const Access& a : b.accesses)
    if (a.write)
      for (size_t d = 0; d < a.indices.size(); ++d)
        if (const auto* r = a.indices[d].as<VarRef>(); r && r->var == i->var) return static_cast<int>(d);
  return -1;
}

// Lanes are next to each other in registers: their dimension goes last.
void lanes_adjacent(Schedule& s, const Buffer& accumulator, int dim) {
  const auto rank = static_cast<int>(declarations(s.func()).at(accumulator).shape.size());
  if (dim < 0 || dim == rank - 1) return;
  std::vector<std::string> names, order;
  for (int d = 0; d < rank; ++d) {
    names.push_back(fmt::format("d{}", d));
    if (d != dim) order.push_back(names.back());
  }
  order.push_back(fmt::format("d{}", dim));
  s(fmt::format("transform_layout {} ({}) -> ({})", accumulator->name, fmt::join(names, ", "), fmt::join(order, ", ")));
}

// The loop of the epilogue that walks dimension `dim` of what it reads.
std::string loop_over(const BlockInfo& epilogue, const Buffer& read, int dim) {
  if (dim < 0) return "";
  for (const Access& a : epilogue.accesses)
    if (a.buffer == read && !a.write)
      for (const Iter& i : epilogue.iters)
        if (const auto* r = a.indices[static_cast<size_t>(dim)].as<VarRef>(); r && r->var == i.var) return i.loop;
  return "";
}

// The whole-extent loops outside run in parallel as one; where there is nothing to fuse, the first loop of tiles does.
void parallel_outer(Schedule& s, const std::string& block, const std::vector<std::string>& plain,
                    const std::vector<std::string>& tiles) {
  int64_t iterations = 1;
  for (const std::string& l : plain) iterations *= extent_of(s, block, l);
  if (iterations > 1) {
    std::string loop = plain.front();
    if (plain.size() > 1) {
      loop = "g";
      s(fmt::format("g = fuse {} ({})", block, join(plain)));
    }
    s(fmt::format("parallel {}.{}", block, loop));
    return;
  }
  for (const std::string& l : tiles)
    if (extent_of(s, block, l) > 1) {
      s(fmt::format("parallel {}.{}", block, l));
      return;
    }
}

}  // namespace

void tile_reduction(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const Tile t = choose_tile(b, target);
  const std::string v = t.vector ? t.vector->loop : "", r = t.row ? t.row->loop : "";
  const std::string width = sample_width(s, t, lanes_of(b, target)), height = sample_rows(s, t);
  for (const Buffer& buffer : t.packed) pack(s, block, buffer, v, width);
  for (const Buffer& buffer : t.copied) {
    const std::string copy = buffer->name + "_packed";
    s(fmt::format("{} = cache_read {} {} global", copy, block, buffer->name));
    pack(s, block, analyze(s.func(), copy).output, v, width);
  }

  std::string writer = epilogue;
  if (writer.empty()) {
    writer = block + "_out";
    s(fmt::format("{} = cache_write {} local", writer, block));
  } else {
    s(fmt::format("set_scope {} local", b.output->name));
  }
  const Buffer accumulator = analyze(s.func(), block).output;
  lanes_adjacent(s, accumulator, dim_of(b, t.vector));
  const BlockInfo e = analyze(s.func(), writer);
  std::string write_lanes = loop_over(e, accumulator, dim_of(b, t.vector));
  std::string write_rows = loop_over(e, accumulator, dim_of(b, t.row));

  std::vector<std::string> plain, tiles, reduced;
  for (const Iter* i : b.spatial())
    if (i->loop != v && i->loop != r) plain.push_back(i->loop);
  for (const Iter* i : b.reduced()) reduced.push_back(i->loop);
  // Cuts an iterator into tiles; gives the loop inside a tile.
  const auto cut = [&](const Iter* i, int64_t size, const std::string& name, const char* tails) -> std::string {
    if (!i || size >= i->extent) return i ? i->loop : "";
    s(fmt::format("{}_tail = sample_choice [{}] -> peel", i->loop, tails));
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail={0}_tail", i->loop, block, name));
    tiles.push_back(i->loop + "0");
    return i->loop + "1";
  };
  const std::string lanes = cut(t.vector, t.width, width, "peel, mask"),
                    rows = cut(t.row, t.rows, height, "peel, balanced");
  std::vector<std::string> order = plain;
  for (const auto& more : {tiles, reduced, std::vector<std::string>{rows, lanes}})
    for (const std::string& l : more)
      if (!l.empty()) order.push_back(l);
  if (order.size() > 1) s(fmt::format("reorder {} ({})", block, join(order)));

  // The epilogue writes a whole tile at a time: its loops under the last outer loop are the rows and the lanes.
  if (!plain.empty() || !tiles.empty()) {
    std::vector<std::string> names;
    for (const Iter& i : e.iters) names.push_back("w" + i.loop);
    s(fmt::format("{} = reverse_compute_at {} {}.{}", join(names), writer, block,
                  tiles.empty() ? plain.back() : tiles.back()));
    if (!write_lanes.empty()) write_lanes = "w" + write_lanes;
    if (!write_rows.empty()) write_rows = "w" + write_rows;
  }
  if (!lanes.empty()) {
    s(fmt::format("vectorize {}.{}", block, lanes));
    lanes_last(s, writer, write_lanes);
    s(fmt::format("vectorize {}.{}", writer, write_lanes));
  }
  if (!rows.empty()) {
    s(fmt::format("unroll {}.{}", block, rows));
    s(fmt::format("unroll {}.{}", writer, write_rows));
  }
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, reduced.front()));
  if (lanes.empty() && rows.empty()) vectorize_reduction(s, block);
  parallel_outer(s, block, plain, tiles);
  // Last, since a map's decisions may have the names of the tile's.
  for (const Buffer& buffer : t.copied) spread_map(s, buffer->name + "_packed", target);
}

}  // namespace nestor::library
