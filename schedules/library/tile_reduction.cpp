// A register tile for a reduction. The loops become
//
//   outer S loops | column or vector tiles | other S loops | row tiles | R loops | rows, columns (unrolled) |
//   lanes (vectorized)
//
// with the accumulators in registers, cleared before the R loops and written by the epilogue after them. The
// vector tile stands outside the row tiles: the panel of the operand that moves with it stays in the cache
// while all rows pass.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"
#include "schedules/words.h"

namespace nestor::library {

using schedules::join;

TileWords sample_tile(Schedule& s, const Tile& t, int64_t lanes) {
  TileWords w;
  w.by_lines = t.by_lines;
  bool told = false;
  const auto sample = [&](const Iter* i, const char* what, int64_t unit, int64_t most,
                          int64_t size) -> std::string {
    if (!i || size >= i->extent) return "";
    std::vector<int64_t> sizes;
    for (int64_t n = 1; n <= most; ++n) sizes.push_back(n * unit);
    s.because(std::exchange(told, true)
                  ? fmt::format("of the registers that hold the sums; {} iterations of {} make {} tiles",
                                i->extent, i->loop, ceil_div(i->extent, size))
                  : t.why_size);
    return sample_size(s, i->loop + what, sizes, size, i->extent);
  };
  if (t.vector) w.vector = t.vector->loop;
  if (t.row) w.row = t.row->loop;
  if (t.column) w.column = t.column->loop;
  w.width = sample(t.vector, "_width", lanes, 4, t.width);
  w.rows = sample(t.row, "_rows", 1, 14, t.rows);
  w.columns = sample(t.column, "_columns", 1, 4, t.columns);
  return w;
}

void pack(Schedule& s, const std::string& block, const Buffer& buffer, const TileWords& w) {
  const BlockInfo b = analyze(s.func(), block);
  const Access* access = nullptr;
  for (const Access& a : b.accesses)
    if (a.buffer == buffer) access = &a;
  if (!access || declarations(s.func()).at(buffer).layout) return;  // another block's tile packed it
  std::vector<std::string> names, outside, tiles, walked, step, lanes;
  std::map<std::string, std::string> dims;  // by loop
  for (size_t d = 0; d < access->indices.size(); ++d) {
    names.push_back(fmt::format("d{}", d));
    for (const Iter& i : b.iters)
      if (const auto* r = access->indices[d].as<VarRef>(); r && r->var == i.var) dims[i.loop] = names.back();
  }
  const auto cut = [&](const std::string& loop, const std::string& size, std::vector<std::string>& inner) {
    const auto dim = dims.find(loop);
    if (loop.empty() || dim == dims.end()) return;
    if (size.empty()) {  // a tile of the whole extent
      if (loop == w.vector && std::count(w.by_lines.begin(), w.by_lines.end(), buffer)) {
        const int64_t line = kLine / bytes_of(buffer->type.dtype);
        const int64_t lines = ceil_div(b.iter(loop)->extent, line) * line;
        tiles.push_back(fmt::format("{}/{}", dim->second, lines));
        inner.push_back(fmt::format("{}%{}", dim->second, lines));
      } else {
        inner.push_back(dim->second);
      }
    } else {
      tiles.push_back(dim->second + "/" + size);
      inner.push_back(dim->second + "%" + size);
    }
    dims.erase(dim);
  };
  if (!dims.count(w.vector)) return;  // not a plain index: left as it is
  cut(w.column, w.columns, step);
  const bool parted = std::count(w.parted.begin(), w.parted.end(), buffer) > 0;
  cut(w.vector, parted ? w.part : w.width, lanes);
  for (const std::string& loop : w.outside)
    if (const auto dim = dims.find(loop); dim != dims.end()) {
      outside.push_back(dim->second);
      dims.erase(dim);
    }
  for (const std::string& d : names) {  // in the order of dimensions, but the reduction's
    bool other = true;
    for (const auto& [loop, dim] : dims) other &= dim != d || !b.iter(loop)->reduce;
    for (const auto* part : {&outside, &tiles, &step, &lanes})
      for (const std::string& e : *part) other &= e.substr(0, e.find_first_of("/%")) != d;
    if (other) walked.push_back(d);
  }
  if (const auto dim = dims.find(w.cut); dim != dims.end()) {
    outside.push_back(fmt::format("{}/{}", dim->second, w.part_of_cut));
    dim->second = fmt::format("{}%{}", dim->second, w.part_of_cut);
  }
  for (const auto& [loop, size] : w.blocks)
    if (const auto dim = dims.find(loop); dim != dims.end()) {
      dims[loop + "0"] = fmt::format("{}/{}", dim->second, size);
      dims[loop + "1"] = fmt::format("{}%{}", dim->second, size);
    }
  for (const std::string& loop : w.reduced)
    if (const auto dim = dims.find(loop); dim != dims.end()) walked.push_back(dim->second);
  if (const auto dim = dims.find(w.group); dim != dims.end()) lanes.push_back(dim->second);
  std::vector<std::string> map;
  for (const auto* part : {&outside, &tiles, &walked, &step, &lanes})
    map.insert(map.end(), part->begin(), part->end());
  s.because(parted
                ? "few rows read " + buffer->name + " from beyond the caches, from several places at a time"
                : "the tile then reads " + buffer->name + " in order, and all of each cache line");
  s(fmt::format("transform_layout {} ({}) -> ({})", buffer->name, fmt::join(names, ", "),
                fmt::join(map, ", ")));
}

void copy_operand(Schedule& s, const std::string& block, const Buffer& operand, const Tile& t,
                  const TileWords& w) {
  const std::string name = operand->name + "_packed";
  const bool by_panels = std::count(t.panels.begin(), t.panels.end(), operand) > 0;
  s.because(fmt::format("{} {}; a copy pays for {} rows", operand->name,
                        by_panels ? "causes set conflicts, needs many TLB entries, or has high latency"
                                  : "would be gathered, or has a bad stride for the cache",
                        t.row->extent));
  s(fmt::format("{} = cache_read {} {} global", name, block, operand->name));
  pack(s, block, analyze(s.func(), name).output, w);
}

namespace {

std::string tail_of(const Iter& i, int64_t size) {
  const int64_t left = i.extent % size;
  return left == 0
             ? fmt::format("{} divide into full tiles of {}", i.extent, size)
             : fmt::format("{} are {} tiles of {} and a rest of {}", i.extent, i.extent / size, size, left);
}

// Within a window's taps a block of channels is few steps of an instruction that takes several at once. A
// loop over them ends as soon as it began, and what the loops around it count is paid for these few: they are
// written out. (Cascade Lake, bytes, 4 steps: 3x3 of 64 channels at 56 5 to 8 % less time, of 128 at 28 8, of
// 256 at 14 and 512 at 7 10 to 15. Without taps each block comes from afar: 1x1 of 256 to 64 at 56, 512 to
// 128 at 28 17 to 20 % more.)
void groups_at_once(Schedule& s, const BlockInfo& b, const std::string& groups, const Tile& t,
                    const Target& target) {
  constexpr int64_t kMostSteps = 4;
  if (!target.is_narrow()) return;
  const int64_t steps = extent_of(s, b.name, groups);
  if (steps > kMostSteps) steps_at_once(s, b.name, t, groups, target);
  const std::vector<const Iter*> reduced = b.reduced();
  const auto walked =
      std::count_if(reduced.begin(), reduced.end(), [](const Iter* i) { return i->extent > 1; });
  if (steps < 2 || steps > kMostSteps || walked < 3) return;  // blocks, channels, and taps
  s.because(fmt::format("the {} steps of a block are too few for a loop", steps));
  s.try_step(fmt::format("unroll {}.{}", b.name, groups));
}

}  // namespace

void tile_reduction(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target,
                    const std::optional<Dot>& dot) {
  if (dot) lay_out_shared(s, block, *dot);
  const BlockInfo b = analyze(s.func(), block);
  std::optional<BlockInfo> written;
  if (!epilogue.empty()) written = analyze(s.func(), epilogue);
  Tile t =
      dot ? choose_tile(b, *dot, target) : choose_tile(b, target, nullptr, written ? &*written : nullptr);
  if (!dot) even_rows(t, b, target);
  const OutputOrder by_output = output_order(b, t, written ? &*written : nullptr, target);
  const ColumnRuns runs = dot || !by_output.iters.empty() ? ColumnRuns{} : column_runs(b, t, target);
  if (runs.size > 0) t.panels = {runs.copied};
  const SkippedPadding skipped = dot ? SkippedPadding{} : skip_padding(s, block, t, target);
  std::vector<std::string> taps = skipped.unrolled;
  TileWords words = sample_tile(s, t, lanes_of(b, target));
  words.blocks = reduced_in_blocks(b);
  const ChannelBlocks channels =
      words.blocks.empty() && !t.turned ? channels_by_blocks(b, skipped.first, target) : ChannelBlocks{};
  if (!channels.loop.empty()) words.blocks[channels.loop] = channels.size;
  if (dot) words.blocks[dot->reduced] = dot->group;
  const int64_t block_of_turned = lanes_of(b, target);
  if (t.turned && t.turned->extent > block_of_turned) words.blocks[t.turned->loop] = block_of_turned;
  words.reduced = reduction_order(b, skipped.first, words.blocks, target);
  if (dot) {
    words.group = dot->reduced + "1";
    std::erase(words.reduced, words.group);
  }
  const std::string tap = t.taps ? t.taps->loop : "";
  if (t.taps) {  // innermost, also where constants are packed
    std::erase(words.reduced, tap);
    words.reduced.push_back(tap);
  }
  if (const int64_t streams = dot ? 1 : streams_of_few(b, t, target); streams > 1 && !words.width.empty()) {
    words.parted = read_by_few(b, t, target);
    words.part = std::to_string(t.width / streams);
  }
  for (const Buffer& buffer : t.packed) pack(s, block, buffer, words);
  for (const auto* operands : {&t.copied, &t.panels})
    for (const Buffer& buffer : *operands) copy_operand(s, block, buffer, t, words);

  auto [outside, between, why_inside] = outer_loops(b, t, target);
  const RowBlocks row_blocks =
      by_output.iters.empty() && why_inside.empty() ? choose_row_blocks(b, t, between, target) : RowBlocks{};
  const RowsAhead ahead = dot || !taps.empty() || (row_blocks.over && row_blocks.over != t.row)
                              ? RowsAhead{}
                              : rows_ahead(b, t, words, row_blocks.size * t.rows, target);
  if (!ahead.loop.empty()) {  // after packing, whose layouts needn't know
    words.blocks[ahead.loop] = ahead.line;
    words.reduced = reduction_order(b, skipped.first, words.blocks, target);
  }
  std::erase(words.reduced, tap);
  const PadLines lines =
      dot || !ahead.loop.empty() || !words.blocks.empty() ? PadLines{} : pad_by_lines(s.func(), b, t, target);
  if (!lines.padding.empty()) {
    words.blocks[lines.loop] = lines.channels;
    words.reduced = lines.reduced;
  }

  const std::string writer = accumulate_locally(s, b, epilogue);
  const Buffer accumulator = analyze(s.func(), block).output;
  if (t.vector) lay_last(s, accumulator, {dim_of(b, t.vector)}, dot ? dot->lanes : 1);
  const bool staged = !dot && by_output.iters.empty() && runs.size == 0;
  const ResultPanel panel =
      staged ? result_panel(s.func(), b, writer, t, row_blocks.over,
                            row_blocks.size * (row_blocks.over == t.row ? t.rows : 1), target)
             : ResultPanel{};
  const std::string from_registers = panel.held.empty() ? writer : add_panel(s, b, writer, t, panel);
  const BlockInfo e = analyze(s.func(), from_registers);

  // Cuts an iterator into tiles: gives the loop over tiles, if there are several, and the loop inside a tile.
  const auto cut = [&](const Iter* i, const std::string& size,
                       const char* tails) -> std::pair<std::string, std::string> {
    if (!i) return {};
    if (size.empty()) return {"", i->loop};
    s(fmt::format("{}_tail = sample_choice [{}] -> peel", i->loop, tails));
    s.because(tail_of(*i, in_tile(t, i)));
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail={0}_tail", i->loop, block, size));
    return {i->loop + "0", i->loop + "1"};
  };
  const auto [column_tiles, columns] = cut(t.column, words.columns, "peel, balanced");
  auto [vector_tiles, lanes] = cut(t.vector, words.width, "peel, mask");
  auto [row_tiles, rows] = cut(t.row, words.rows, "peel, balanced");
  const std::string beside = t.beside ? t.beside->loop : "";
  if (row_blocks.size > 0) {
    const bool by_tiles = row_blocks.over == t.row;
    const std::string over = row_blocks.over->loop, walked = by_tiles ? row_tiles : over;
    const auto at = std::find(between.begin(), between.end(), over);
    outside.insert(outside.end(), between.begin(), at);
    between.erase(between.begin(), at == between.end() ? at : at + 1);
    if (row_blocks.size > 1) {
      s.because(row_blocks.why);
      s(fmt::format("{0}b {0}t = split {1}.{2} [_, {3}]{4}", over, block, walked, row_blocks.size,
                    by_tiles                                         ? " tail=balanced"
                    : row_blocks.over->extent % row_blocks.size == 0 ? ""
                                                                     : " tail=peel"));
      if (by_tiles)
        row_tiles = over + "t";
      else
        between.insert(between.begin(), over + "t");
    }
    outside.push_back(row_blocks.size > 1 ? over + "b" : walked);
  }
  std::string run;
  if (runs.size > 0) {
    s.because(runs.why);
    s(fmt::format("{0}b {0}t = split {1}.{2} [_, {3}] tail=balanced", t.vector->loop, block, vector_tiles,
                  runs.size));
    vector_tiles = t.vector->loop + "b";
    run = t.vector->loop + "t";
  }
  std::string vectors, lane = lanes;  // an instruction's lanes are exactly a vector
  if (dot && extent_of(s, block, lanes) != dot->lanes) {
    vectors = lanes + "v";
    lane = lanes + "l";
    s(fmt::format("{} {} = split {}.{} [_, {}]", vectors, lane, block, lanes, dot->lanes));
  }
  for (const auto& [loop, size] : words.blocks) {
    s.because(
        dot && loop == dot->reduced ? fmt::format("{} computes {} steps at once", dot->instruction, size)
        : loop == ahead.loop        ? ahead.why
        : loop == lines.loop        ? lines.why
        : loop == channels.loop     ? channels.why
        : t.turned ? fmt::format("blocks of {0} rows and {0} steps are transposed in registers", size)
                   : fmt::format("{} is blocked by {}{}", loop, size,
                                 extent_of(s, block, loop) % size ? ", and the last block is partial" : ""));
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", loop, block, size));
  }
  std::vector<std::string> outer, order;
  for (const Iter* i : by_output.iters)
    outer.push_back(i == t.row      ? row_tiles
                    : i == t.vector ? vector_tiles
                    : i == t.column ? column_tiles
                                    : i->loop);
  std::erase(outer, "");
  if (outer.empty()) {
    outer = outside;
    std::vector<std::string> panels = {column_tiles, vector_tiles}, passing = between;
    passing.push_back(row_tiles);
    if (!rows_share_vectors(b, t)) std::swap(panels, passing);
    for (const auto* part : {&panels, &passing}) outer.insert(outer.end(), part->begin(), part->end());
    outer.push_back(run);
    std::erase(outer, "");
  }
  const std::string shared = row_blocks.size == 0 && panel.held.empty() && lines.padding.empty()
                                 ? share_lines(s, b, outer, target)
                                 : "";
  const std::string block_loop = row_blocks.size > 0 ? outside.back() : "";
  const auto first_held = std::stable_partition(outer.begin(), outer.end(), [&](const std::string& l) {
    return l == block_loop || !panel.holds(b, l);
  });
  std::vector<std::string> around(outer.begin(), first_held);  // the panel, if there is one
  for (const auto& more : {outer, words.reduced,
                           std::vector<std::string>{rows, beside, columns, tap, vectors, lane, words.group}})
    for (const std::string& l : more)
      if (!l.empty()) order.push_back(l);
  s.because(by_output.iters.empty() ? why_order(b, t, row_tiles, why_inside, target) : by_output.why);
  if (order.size() > 1) s(fmt::format("reorder {} ({})", block, join(order)));

  if (lines.padding.empty()) {
    pad_panels(s, b, outer, target);
  } else {
    std::vector<std::string> names;
    for (const Iter& i : analyze(s.func(), lines.padding).iters) names.push_back("p" + i.loop);
    s(fmt::format("{} = compute_at {} {}.{}0", join(names), lines.padding, block, lines.loop));
    vectorize_inside(s, lines.padding, target);
  }
  for (const Buffer& buffer : t.panels)
    copy_panel(s, b, t, buffer, vector_tiles, runs.size > 0 ? words.width : "", target);

  // The epilogue writes a whole tile at a time: its loops under the last outer loop are the tile's.
  std::string prefix;
  if (!outer.empty()) {
    prefix = "w";
    std::vector<std::string> names;
    for (const Iter& i : e.iters) names.push_back(prefix + i.loop);
    s(fmt::format("{} = reverse_compute_at {} {}.{}", join(names), from_registers, block, outer.back()));
    if (!panel.held.empty()) write_panel(s, b, writer, t, panel, around.empty() ? "" : around.back());
  }
  const auto written_by = [&](const Iter* i) {
    const Iter* over = iter_over(e, accumulator, dim_of(b, i));
    return over ? prefix + over->loop : "";
  };
  if (t.vector) {
    s.because(t.why_vector);
    if (!dot) s(fmt::format("vectorize {}.{}", block, lanes));
    lanes_last(s, from_registers, written_by(t.vector));
    s(fmt::format("vectorize {}.{}", from_registers, written_by(t.vector)));
  }
  for (const auto& [iter, loop] :
       {std::pair{t.row, rows}, std::pair{t.beside, beside}, std::pair{t.column, columns}})
    if (iter) {
      s.because("registers can't be indexed");
      s(fmt::format("unroll {}.{}", block, loop));
      s(fmt::format("unroll {}.{}", from_registers, written_by(iter)));
    }
  if (!vectors.empty()) s(fmt::format("unroll {}.{}", block, vectors));
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, words.reduced.front()));
  if (dot) s(fmt::format("vectorize {}_init.{}", block, lane));
  if (t.turned) s(fmt::format("unroll {}.{}", block, words.reduced.back()));
  if (t.taps && std::find(taps.begin(), taps.end(), tap) == taps.end()) taps.push_back(tap);
  for (const std::string& l : taps) {
    s.because(l == tap ? "neighbouring rows share the loads of a kernel element"
                       : "for each kernel element it is known which rows of the tile it contributes to");
    s(fmt::format("unroll {}.{}", block, l));
  }
  if (!t.vector && !t.row) vectorize_reduction(s, block);
  const bool asks = !dot && (prefetch_images(s, block, b, t, words.reduced, taps, target) ||
                             prefetch_windows(s, block, b, t, row_tiles, words.reduced, taps, target));
  if (!dot && !outer.empty() && panel.held.empty())
    send_output(s, e, t.row ? iter_over(e, accumulator, dim_of(b, t.row)) : nullptr, b, outer.back(), target);
  const double terms_at_once = dot ? static_cast<double>(dot->group) : 1;
  if (row_blocks.size > 0 && !streamed(b, t, target).empty()) {
    // The loop over panels, in which the next is asked for, stays one where blocks are enough for all cores.
    int64_t blocks = 1;
    for (const std::string& l : outside) blocks *= extent_of(s, block, l);
    if (blocks >= 2 * target.cores) around = outside;
  }
  if (!shared.empty()) around = {shared};
  share_loops(s, block, around, work_of(b, target) / terms_at_once, target);
  prefetch_rows(s, block, b, t, ahead, row_tiles, target);
  if (!dot && ahead.loop.empty()) prefetch_next_rows(s, block, b, t, outer, row_tiles, target);
  if (!dot && !asks) prefetch_next_windows(s, block, t, row_tiles, words.reduced, taps, target);
  if (asks) prefetch_pages(s, block, row_tiles, words.reduced, target);
  if (!dot) stream_panels(s, block, b, t, column_tiles.empty() ? vector_tiles : column_tiles, target);
  if (dot) {
    if (const std::string groups = dot->reduced + "0"; words.reduced.back() == groups)
      groups_at_once(s, b, groups, t, target);
    s.because(t.why_vector);
    s(fmt::format("tensorize {}.{} {}", block, lane, dot->instruction));
  }
  if (!dot && !t.turned && (taps.empty() || !target.is_narrow()))
    steps_at_once(s, block, t, words.reduced.back(), target);
  if (!dot && !t.turned && taps.empty()) taps_at_once(s, b, words.reduced, t, target);
  if (!dot && ahead.loop.empty()) prefetch_steps(s, block, b, t, vector_tiles, target);
  if (!dot) prefetch_planes(s, block, b, t, target);
  if (!dot) stream_for_few(s, block, b, t, target);
  // Last, since a map's decisions may have the names of the tile's.
  for (const Buffer& buffer : t.copied) spread_map(s, buffer->name + "_packed", target);
  if (const std::string copy = dot ? dot->shared->name + "_packed" : ""; find_block(s.func(), copy))
    spread_map(s, copy, target);
}

}  // namespace nestor::library
