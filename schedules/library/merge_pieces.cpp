// Maps that each write a piece of an output's rows, as concatenations have them, go by one loop over the
// rows. Piece by piece the output would pass once for each of them, and the lines that two pieces share
// twice. Rows of a page and more share few lines, and are left alone.
//
// (Cascade Lake, 2048 rows of 96 and 37 elements: 0.117 to 0.092 ms.)
//
// The nests of a transposed convolution each compute some residues of the coordinates, and write elements
// between which others' lie. Where the output leaves the second-level cache, one nest after the other would
// have all its lines pass once for each; so they share the outer loops that they have alike: images, tiles
// of channels, lines of the image. (Zen 3, 3x3/3 of 4 channels to 128 at 64x64: 5.0 to 3.3 ms.) So do nests
// of the zeros that no tap reaches. (Zen 4, 25 MB of t4x4x4/4 of 32-64 by 8 groups 2.9 to 1.75 ms, 11 MB of
// t2x2x2/2 2.65 to 2.2; 3 MB nothing.)
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

// The iterator that is an index of the output, and takes all there is in that dimension; null where none is.
const Iter* whole_dimension(const BlockInfo& b, size_t d) {
  const Access& out = *write_of(b);
  for (const Iter* i : b.spatial())
    if (same_expr(out.indices[d], Expr(i->var)) &&
        i->extent * out.strides[d] == (d == 0 ? out.elements : out.strides[d - 1]))
      return i;
  return nullptr;
}

// The outer dimensions of the output that both blocks take whole: a row is what they leave.
size_t dimensions_of_rows(const BlockInfo& a, const BlockInfo& b) {
  size_t d = 0;
  while (d < write_of(a)->indices.size() && whole_dimension(a, d) && whole_dimension(b, d)) ++d;
  return d;
}

// Whether loops of the two are for the same dimension of a row, if for more than one iteration.
bool alike(const BlockInfo& a, const LoopInfo& x, const BlockInfo& b, const LoopInfo& y, size_t dimensions) {
  if (x.extent == 1 && y.extent == 1) return true;
  for (size_t d = 0; d < dimensions; ++d)
    if (whole_dimension(a, d)->loop == x.name && whole_dimension(b, d)->loop == y.name) return true;
  return false;
}

// Threads for all the work of a merged loop, which was shared as its pieces' loops had to be.
void share_merged(Schedule& s, const std::string& block, const LoopInfo& loop, const Work& work,
                  const Target& target) {
  bool told = false;
  for_each_stmt(s.func().body, [&](const Stmt& stmt) {
    const auto* l = stmt.as<For>();
    told = told || (l && l->var->name == loop.name && l->annotations.count("threads"));
  });
  const int64_t count = std::min<int64_t>(threads_for(work, loop.extent, target).count, target.cores);
  if (!told && count >= target.cores) return;
  s.because(fmt::format("about {:.0f} us of work in all parts", work.microseconds()));
  s.try_step(fmt::format("annotate {}.{} threads={}", block, loop.name, count));
}

// Whether they are one loop over rows now; `work` is that of all pieces.
bool merge(Schedule& s, const BlockInfo& a, const BlockInfo& b, const Work& work, const Target& target) {
  const size_t dimensions = dimensions_of_rows(a, b);
  const int64_t bytes = bytes_of(a.output->type.dtype);
  if (dimensions == 0 || write_of(a)->strides[dimensions - 1] * bytes >= kPage) return false;
  Schedule tried = s;
  bool rows = false;
  for (size_t at = 0;; ++at) {
    const std::vector<LoopInfo> xs = loops_of(tried.func(), a.name), ys = loops_of(tried.func(), b.name);
    if (at >= xs.size() || at >= ys.size() || !alike(a, xs[at], b, ys[at], dimensions)) break;
    for (const auto& [block, x, y] : {std::tuple{&a, xs[at], ys[at]}, std::tuple{&b, ys[at], xs[at]}})
      if (x.kind == ForKind::serial && y.kind == ForKind::parallel)  // too little work by itself
        tried.try_step(fmt::format("parallel {}.{}", block->name, x.name));
    tried.because("parts of a row are written in turn: lines that they share are still in the cache");
    if (!tried.try_step(fmt::format("merge {}.{} {}.{}", a.name, xs[at].name, b.name, ys[at].name))) break;
    rows = rows || xs[at].extent > 1;
    if (const LoopInfo merged = loops_of(tried.func(), a.name)[at]; merged.kind == ForKind::parallel)
      share_merged(tried, a.name, merged, work, target);
  }
  if (rows) s = tried;
  return rows;
}

// Merges the loop of that name around both, which threads share if they did one of the two.
bool merge_loop(Schedule& s, const std::string& a, ForKind of_a, const std::string& b, ForKind of_b,
                const std::string& loop) {
  const auto merged = [&](Schedule& in) {
    in.because("these nests write interleaved elements, in turn: lines are still in the cache");
    return in.try_step(fmt::format("merge {0}.{2} {1}.{2}", a, b, loop));
  };
  if (of_a == of_b) return merged(s);
  const bool first = of_a == ForKind::serial && of_b == ForKind::parallel;
  if (!first && (of_a != ForKind::parallel || of_b != ForKind::serial)) return false;
  Schedule tried = s;
  if (!tried.try_step(fmt::format("parallel {}.{}", first ? a : b, loop)) || !merged(tried)) return false;
  s = std::move(tried);
  return true;
}

// Merges the outer loops that both have, of the same name and extent, as far as one goes around, and gives
// those that are merged. Where that is refused, loops outside of it stay merged.
std::vector<std::string> merge_outside(Schedule& s, const std::string& a, const std::string& b) {
  const std::vector<LoopInfo> xs = loops_of(s.func(), a), ys = loops_of(s.func(), b);
  size_t count = 0;
  for (size_t at = 0; at < std::min(xs.size(), ys.size()); ++at) {
    if (xs[at].name != ys[at].name || xs[at].extent != ys[at].extent) break;
    if (xs[at].extent > 1) count = at + 1;
  }
  std::vector<std::string> merged;
  for (size_t at = 0; at < count; ++at) {
    if (!merge_loop(s, a, xs[at].kind, b, ys[at].kind, xs[at].name)) break;
    merged.push_back(xs[at].name);
  }
  return merged;
}

// Nests of one output that go by common loops.
struct Turns {
  std::string first;  // the block whose loops all are merged into
  Buffer output;
  std::vector<std::string> loops;  // that all have
  int nests = 1;
  Work work;  // of all

  // Each may be too little work for threads, or for all of them; together they are not.
  void share(Schedule& s, const Target& target) const {
    if (nests == 1) return;
    for (const LoopInfo& l : loops_of(s.func(), first))
      if (l.kind == ForKind::parallel) return share_merged(s, first, l, work, target);
    share_loops(s, first, loops, work, target);
  }
};

// Bytes of an output that the nest finds in a cache when its turn comes after the others'. Zeros take nothing
// but their lines, which come from a near third level as fast as they are written.
int64_t stays(const BlockInfo& nest, const Target& target) {
  return nest.reduction || target.far_l3() ? target.l2_bytes : std::max(target.l2_bytes, target.l3_bytes / 4);
}

// Whether elements that no tap reaches are written, from nothing that the other nests make.
bool is_filling(const PrimFunc& f, const BlockInfo& b) {
  return std::all_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    return a.write || (find_param(f, a.buffer) && a.buffer != b.output);
  });
}

// The block that writes the results of a nest of the output; empty where it is none.
std::string writer_of(const PrimFunc& f, const BlockInfo& b, const Buffer& output) {
  if (b.reduction) return epilogue_of(f, b);
  return b.output == output && is_filling(f, b) ? b.name : "";
}

}  // namespace

void merge_nests(Schedule& s, const Target& target) {
  Turns turns;
  for (const std::string& name : block_names(s.func())) {
    const BlockInfo b = analyze(s.func(), name);
    const std::string writer = writer_of(s.func(), b, turns.output);
    if (writer.empty()) continue;
    const BlockInfo w = analyze(s.func(), writer);
    if (!w.output_is_param) continue;
    if (w.output != turns.output) {
      turns.share(s, target);
      turns = {name, w.output, {}, 1, work_of(b, target)};
    } else if (write_of(w)->elements * bytes_of(w.output->type.dtype) > stays(b, target)) {
      const std::vector<std::string> merged = merge_outside(s, turns.first, name);
      if (merged.empty()) continue;
      if (turns.nests == 1 || merged.size() < turns.loops.size()) turns.loops = merged;
      ++turns.nests;
      turns.work = turns.work + work_of(b, target);
    }
  }
  turns.share(s, target);
}

void merge_pieces(Schedule& s, const Target& target) {
  std::optional<BlockInfo> first;
  Work before;  // of what was merged with it
  for (const std::string& name : block_names(s.func())) {
    const BlockInfo b = analyze(s.func(), name);
    if (first && !first->reduction && !b.reduction && b.output_is_param && b.output == first->output) {
      const Work more = work_of(b, target);
      if (merge(s, *first, b, before + work_of(*first, target) + more, target)) {
        first = analyze(s.func(), first->name);  // its loops may have other names
        before = before + more;
        continue;
      }
    }
    first = b;
    before = {};
  }
}

}  // namespace nestor::library
