// Results that are vectors along one dimension and lie dense in the output along another: of a convolution
// over images in plain NCHW, an accumulator holds channels of one point. Written from registers, each goes to
// as many lines as it has lanes, and those of a neighbouring point touch all of these lines again. So the
// tiles of a line of the output go to a panel in the cache first, by whole vectors, and from there, turned in
// registers (the pass transpose_tiles), to the output by whole lines of it, with what the epilogue does:
//
//   outer loops | for held: R loops, registers to panel | 16 results of a line (lanes) x 16 lines (unrolled)
//
// What a panel holds is walked by the innermost loops around the tile. Of a transposed convolution, whose
// phases interleave along the line, Y[x*s + p] = T[p, x], those are the phases' too. It holds lines until it
// has a run of a few of them without a gap in the output: small images are then left with one ragged vector,
// not with one for each row.
//
// Lines go by as many as divide those of several tiles: what a tile that is cut short leaves of a last few
// would be written element by element. (Zen 3, 24 lanes by 8 instead of 16 lines: 3x3/2 of 8 to 150 channels
// at 27 0.21 to 0.075 ms, 3x7/2 of 4 to 147 at 128x16 2.0 to 0.8.)
//
// (Zen 5, one thread: a scatter takes 60 cycles where its lines are in the cache. 5x5/2_2-74@96 471 to 86 us;
// t4x4x4/4_16-64@8x8x4, whose 64 lines are a multiple of 64 KB apart, 12.8 to 0.33 ms.)
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kWanted = 4;       // lines in a run: more gain nothing
constexpr int64_t kFewest = 6;       // rows of a tile that the pass turns where they are
constexpr int64_t kShareOfLine = 4;  // of the second-level cache, that a panel of one line may take
constexpr int64_t kShareOfRun = 16;  // or one of several

// Iterations of the loops around the panel.
int64_t iterations_outside(const BlockInfo& b, const Tile& t, const std::vector<const Iter*>& held) {
  int64_t n = 1;
  for (const Iter* i : b.spatial())
    if (std::find(held.begin(), held.end(), i) == held.end()) n *= ceil_div(i->extent, in_tile(t, i));
  return n;
}

// Whether the registers of a tile, whose rows follow each other in the output, are turned without a panel.
bool turned_in_registers(const BlockInfo& b, const Tile& t, const Target& target) {
  const int64_t lanes = lanes_of(b, target);
  if (t.column || (t.vector->extent > lanes && t.vector->extent % lanes != 0)) return false;
  const int64_t left = t.row->extent % t.rows;
  return t.rows >= kFewest && (left == 0 || left >= kFewest);
}

std::vector<int> dims_of(const BlockInfo& b, const std::vector<const Iter*>& iters) {
  std::vector<int> dims;
  for (const Iter* i : iters) dims.push_back(dim_of(b, i));
  return dims;
}

// The iterator of the reduction b, which is `now` in the function, that makes what `written` of w writes.
const Iter* made_by(const BlockInfo& b, const BlockInfo& now, const BlockInfo& w, const Iter* written) {
  for (const Iter* i : b.spatial())
    if (written && iter_over(w, now.output, dim_of(now, i)) == written) return i;
  return nullptr;
}

}  // namespace

bool ResultPanel::holds(const BlockInfo& b, const std::string& loop) const {
  return std::find(held.begin(), held.end(), walked_by(b, loop)) != held.end();
}

ResultPanel result_panel(const PrimFunc& f, const BlockInfo& b, const std::string& writer, const Tile& t,
                         const Iter* cut, int64_t steps, const Target& target) {
  const BlockInfo now = analyze(f, b.name), w = analyze(f, writer);
  const int bytes = bytes_of(w.output->type.dtype);
  const Iter* lanes = t.vector ? iter_over(w, now.output, dim_of(now, t.vector)) : nullptr;
  if (!lanes || bytes != 4 || bytes_of(now.output->type.dtype) != 4 || t.width < kShortestRun || t.turned)
    return {};
  if (write_of(w)->stride(*lanes).value_or(1) == 1) return {};

  ResultPanel panel;
  const int64_t line = kLine / bytes;
  const bool shared = work_of(b, target).microseconds() >= target.parallel_us;
  bool cramped = false;
  int64_t run = 1, results = t.width * rows_of(t) * t.columns;
  while (run < kWanted * line) {
    const Iter* of = made_by(b, now, w, iter_at(w, run));
    if (of == t.vector && run < line) {  // the vectors follow: put together, or turned, where they are
      if (run <= kInterleaved || turned_in_registers(b, t, target)) return {};
      break;
    }
    if (of && of == t.row && run == 1 && turned_in_registers(b, t, target)) return {};
    if (!of || of->loop.empty() || of == t.vector) break;
    // Blocks whose lines end inside of a vector can't be told apart, and not be shared.
    if (of == cut && run > 1 && run % line != 0 && shared && target.cores > 1) break;
    // Three digits of a vector's index aren't told apart.
    if (panel.held.size() > 1 && run % line != 0) break;
    const int64_t extent = of == cut ? std::min(steps, of->extent) : of->extent;
    const int64_t size = results * ceil_div(extent, in_tile(t, of));
    if (size * bytes > target.l2_bytes / (run < line / 2 ? kShareOfLine : kShareOfRun)) {
      cramped = true;
      break;
    }
    std::vector<const Iter*> held{of};
    held.insert(held.end(), panel.held.begin(), panel.held.end());
    if (run >= kShortestRun && shared && iterations_outside(b, t, held) < 2 * target.cores) break;
    panel.held = held;
    run *= extent;
    results = size;
    if (of == cut) break;
  }
  if (run < kShortestRun || (cramped && run < line)) return {};
  panel.why =
      fmt::format("results are contiguous along {}, not along {}: {} KiB of them are transposed in registers",
                  panel.held.back()->loop, t.vector->loop, ceil_div(results * bytes, 1024));
  return panel;
}

std::string add_panel(Schedule& s, const BlockInfo& b, const std::string& writer, const Tile& t,
                      const ResultPanel& panel) {
  const BlockInfo now = analyze(s.func(), b.name);
  const std::string name = b.name + "_panel";
  s.because(panel.why);
  s(fmt::format("{} = cache_read {} {} global", name, writer, now.output->name));
  std::vector<const Iter*> last = panel.held;
  last.push_back(t.vector);
  lay_last(s, analyze(s.func(), name).output, dims_of(now, last));
  return name;
}

namespace {

// A name that no loop around the block has.
std::string fresh_loop(const Schedule& s, const std::string& block, std::string name) {
  while (extent_of(s, block, name) >= 0) name += "_";
  return name;
}

}  // namespace

void write_panel(Schedule& s, const BlockInfo& b, const std::string& writer, const Tile& t,
                 const ResultPanel& panel, const std::string& loop) {
  const BlockInfo now = analyze(s.func(), b.name), e = analyze(s.func(), writer);
  const Buffer read = analyze(s.func(), b.name + "_panel").output;
  const std::string prefix = loop.empty() ? "" : "w";
  const auto written_by = [&](const Iter* i) { return prefix + iter_over(e, read, dim_of(now, i))->loop; };
  std::vector<std::string> names, run;
  for (const Iter& i : e.iters) names.push_back(prefix + i.loop);
  if (!loop.empty()) s(fmt::format("{} = reverse_compute_at {} {}.{}", join(names), writer, b.name, loop));

  std::string lines = written_by(t.vector), line;
  for (const Iter* i : panel.held) run.push_back(written_by(i));
  std::erase_if(names, [&](const std::string& n) {
    return n == lines || std::find(run.begin(), run.end(), n) != run.end();
  });
  std::vector<std::string> order = names;
  order.push_back(lines);
  order.insert(order.end(), run.begin(), run.end());
  s(fmt::format("reorder {} ({})", writer, join(order)));
  const int64_t side = kLine / bytes_of(e.output->type.dtype);
  std::vector<std::string> above;
  while (run.size() > 2) {  // the last two make whole lines (result_panel): three digits aren't told apart
    above.push_back(run.front());
    run.erase(run.begin());
  }
  line = run.front();
  if (run.size() > 1) {
    line = fresh_loop(s, writer, "line");
    s(fmt::format("{} = fuse {} ({})", line, writer, join(run)));
  }
  order = above;
  const auto cut = [&](std::string& l, int64_t size) {
    if (extent_of(s, writer, l) <= size) return;
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", l, writer, size));
    order.push_back(l + "0");
    l += "1";
  };
  cut(lines, t.vector->extent > t.width ? std::gcd(t.width, side) : side);
  cut(line, side);
  order.insert(order.end(), {lines, line});
  s(fmt::format("reorder {} ({})", writer, join(order)));
  s(fmt::format("unroll {}.{}", writer, lines));
  s(fmt::format("vectorize {}.{}", writer, line));
}

}  // namespace nestor::library
