// When an operand of a register tile is better copied first into the order in which it is read, and all at
// once or by panels.
//
// Reading it as it lies costs nothing where it moves with the lanes and stays in the second-level cache. It
// costs about a tenth of the time where a panel's rows meet in few sets of that cache or lie in more pages
// than the processor keeps translated, and a little where it comes from further away each time. A copy costs
// each vector a load and a store, shared by all rows that use it. So it pays for many rows. (9 rows of 3
// vectors on Zen 4: 512^3 6 % faster, 1009^3 4 %, 100x3000x1000 1.7 times.) For somewhat fewer where vectors
// are shorter than a line, a part of which each row then gives, and for few where the panel's pages aren't
// translated at once. (Zen 3: 48x1925x1423 15.9 to 6.7 ms, 24 rows 7.2 to 4.4, 48x2048x2048 14.2 to 9.2; 12
// of these rows half again as long; 48x768x3072 9 % less time, of 24 rows 12 more.) Of such vectors a panel's
// tile reads one line a step, on another page every few: near the third level a copy also pays for rows that
// begin at no line, that the second level doesn't hold, or that meet in few sets of the first one, which
// would hold a panel. (Zen 3: 1943x64x1024 28 % less time, 128x64x1024 15, 1000x100x640 7, 200x150x768 4;
// 125x873x586 42 % less time, 200x873x586 31, 150x512x250 18, 284x256x265 15, 64x873x586 6; 200x896x576 24,
// 100x768x768 18, 72x896x576 none, 53x896x576 and, not asked for ahead, 48x1000x1000 a quarter more;
// 200x300x400, which it holds, 5 more.)
//
// A core that takes up few micro-operations a cycle doesn't catch up where a vector comes late, and vectors
// of rows that lie apart come from the second-level cache or lie across two lines. There a panel's copy pays
// for fewer rows, for the fewest where vectors begin at no line or meet in few sets; for more where little is
// far, the operand takes less than half of that cache, or where all is: its rows are then asked for ahead
// (prefetch_steps.cpp). (Cascade Lake: 24x250x1001 17 % less time, 64x300x500 20, 256x200x300 21; 48x512x512
// 36, 24x768x3072 9; 32x384x640 11, 192x384x640 16; 48x128x320 5 more, 32x200x320 5, 80x128x512 10 less;
// 72x1000x1000 30, 48x832x291 10, 30x1000x1001 none; 96x1408x576 16, 48x1408x576 10 more.)
//
// What is copied is a panel: while it is used it stays in the cache, where the whole copy would go to memory
// and come back. Its rows lie far apart, each on a page of its own, which no prefetcher foresees: they are
// asked for some rows ahead. A panel of single lines is no better than the whole (AVX2, 1024^3: 10 % slower),
// unless all of it is asked for while the one before is used (stream_panels.cpp): near the third level, for
// so few rows that the copy counts, where the next panel's lines stay beside this one's copy and its pages
// stay translated. (Zen 3: 121x832x1856 and 128x768x3072 15 % less time, 128x1300x1000 15, 200x1000x1000 8,
// 96x1408x576 and 72x300x1000 7, 512^3 2, 24 of 128x128x64 5; without that limit 128x1500x1000, 200x2000x1000
// and 64x4096x1024 10 to 40 more. Of rows for which no copy paid it is no better than reading them as they
// lie, but of what little is left of when the next call comes: 44x723x1904, 60x600x1500 and 48x300x2500
// beside the libraries 15 % less time, 32x600x1322 and 56x900x900 10; of less, 36x768x768 and 36x700x500, 5
// to 10 more.)
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

constexpr int64_t kTilesForThreads = 4;  // of columns, for each
// Rows that share a copied vector, from which on the copy pays: at all, and on a narrow core or with short
// vectors of more pages than a core keeps translated.
constexpr int64_t kRowsToPay = 48, kFewestRows = 24;

// On a narrow core, of rows that are `torn`, begin at no line, or not.
int64_t rows_on_narrow(bool scattered, bool torn, int64_t bytes, const Target& target) {
  constexpr int64_t kApart = 32, kTornFar = 46, kElse = 80;
  const bool stays = bytes <= target.l2_bytes;
  if (scattered || (torn && stays)) return kFewestRows;
  if (torn) return kTornFar;
  return stays && bytes > target.l2_bytes / 2 ? kApart : kElse;
}

// How the rows of a panel lie, one for each step of the reduction.
struct Rows {
  int64_t count = 1, pitch = 0;  // bytes from one to the next
  int64_t pages = 0;

  Rows(const BlockInfo& b, const Access& a) {
    for (const Iter* i : b.reduced())
      if (a.uses(*i)) {
        count *= i->extent;
        pitch = std::abs(a.stride(*i).value_or(0)) * bytes_of(a.buffer->type.dtype);
      }
    pages = count * std::min(pitch, kPage) / kPage;
  }
};

// Whether there are panels enough for the threads to share.
bool has_many_panels(const Tile& t, const Target& target) {
  return t.vector->extent / t.width >= (target.cores == 1 ? 2 : kTilesForThreads * target.cores);
}

// From how many rows on a copy pays for how the operand's panel lies.
int64_t rows_to_pay(const BlockInfo& b, const Access& a, const Tile& t, bool by_panels,
                    const Target& target) {
  constexpr int64_t kScattered = 50, kTornNear = 64, kFromNear = 96, kFromAfar = 333,
                    kNever = std::numeric_limits<int64_t>::max();
  const int64_t bytes = bytes_of(a.buffer->type.dtype);
  const Rows rows(b, a);
  const int64_t ways = target.l2_ways, sets = target.l2_bytes / ways / kLine;
  const bool scattered = 2 * lines_in_a_set(rows.pitch, rows.count, sets) > ways ||
                         rows.pages > kPagesTranslated * 2 / 3;  // the rest needs some
  const bool torn = rows.pitch % kLine != 0;
  const int64_t size = a.elements * bytes;
  if (target.is_narrow() && by_panels && has_many_panels(t, target))
    return rows_on_narrow(scattered, torn, size, target);
  if (scattered && has_short_vectors(target)) return rows.pages > kPagesTranslated ? kFewestRows : kRowsToPay;
  if (scattered) return kScattered;
  const bool near = has_short_vectors(target) && !target.far_l3();
  if (near && torn && size > target.l1_bytes) return kTornNear;
  const int64_t panel = rows.count * t.width * bytes;
  const int64_t in_a_set = lines_in_a_set(rows.pitch, rows.count, l1_sets(target));
  if (near && 2 * panel <= target.l1_bytes && in_a_set > target.l1_ways) return kFromNear;
  if (size <= target.l2_bytes) return kNever;
  return near ? kFromNear : kFromAfar;
}

}  // namespace

int64_t lines_in_a_set(int64_t pitch, int64_t rows, int64_t sets, int64_t lines) {
  if (pitch < kLine || sets < 1) return 1;
  std::vector<int64_t> found(static_cast<size_t>(sets));
  int64_t most = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t l = 0; l < lines; ++l)
      most = std::max(most, ++found[static_cast<size_t>((r * pitch / kLine + l) % sets)]);
  return most;
}

bool meet_in_l1(int64_t pitch, const Target& target) {
  const int64_t sets = l1_sets(target);
  return 2 * lines_in_a_set(pitch, sets, sets) > target.l1_ways;
}

namespace {

bool copy_pays_for(const BlockInfo& b, const Access& a, const Iter& v, int64_t rows) {
  constexpr int64_t kReduction = 64;
  if (a.write || a.constant || !a.stride(v) || !a.has_plain_indices() || b.reduction_size() < kReduction)
    return false;
  for (const Iter* i : b.spatial())
    if (i != &v && !a.uses(*i) && i->extent >= rows) return true;
  return false;
}

// Whether the operand takes so much of a near third level that little of it is still there in the next call.
bool lies_far(const Access& a, const Target& target) {
  constexpr int64_t kFar = 6;  // second-level caches
  return a.elements * bytes_of(a.buffer->type.dtype) > kFar * target.l2_bytes;
}

// The iterations that share a panel, and whether the loops over them stand inside of that over panels.
std::pair<int64_t, bool> sharing_of(const BlockInfo& b, const Access& a, const Tile& t) {
  int64_t sharing = 1;
  bool behind = false, inside = true;
  for (const Iter* i : b.spatial()) {
    behind |= i == t.vector;
    if (i == t.vector || a.uses(*i)) continue;
    sharing *= i->extent;
    inside &= behind || i == t.row || i->extent == 1;
  }
  return {sharing, inside};
}

}  // namespace

bool copy_pays(const BlockInfo& b, const Access& a, const Iter& v) {
  return copy_pays_for(b, a, v, kRowsToPay);
}

bool asks_for_panels(const BlockInfo& b, const Access& a, const Tile& t, const Target& target) {
  constexpr int64_t kMostRows = 512, kFewRows = 64, kFewRowsFar = 32;
  if (target.far_l3() || target.is_narrow() || !has_short_vectors(target) || b.reduced().size() != 1)
    return false;
  const auto [sharing, inside] = sharing_of(b, a, t);
  const int64_t bytes = bytes_of(a.buffer->type.dtype);
  const Rows rows(b, a);
  const bool few_pay = lies_far(a, target) && !meet_in_l1(rows.pitch, target);
  if (!inside || sharing < (few_pay ? kFewRowsFar : kFewRows) || sharing > kMostRows ||
      !has_many_panels(t, target) || 2 * a.elements * bytes <= target.l2_bytes)
    return false;
  // The panel that is used and the lines of the next one, of which a row that begins at none has half more.
  const int64_t row = t.width * bytes, torn = rows.pitch % kLine == 0 && row % kLine == 0 ? 0 : kLine / 2;
  return row >= kLine && rows.count * (2 * row + torn) <= target.l2_bytes * 5 / 8 &&
         rows.pages <= kPagesTranslated * 5 / 6;
}

OperandCopy copy_of(const BlockInfo& b, const Access& a, const Tile& t, const Target& target) {
  const bool turned = a.stride(*t.vector) != 1;
  const bool few = !turned && (target.is_narrow() || has_short_vectors(target));
  const int64_t rows = few ? kFewestRows : kRowsToPay;
  if (!a.uses(*t.vector) || !t.row || a.uses(*t.row) || !copy_pays_for(b, a, *t.vector, rows))
    return OperandCopy::none;
  if (turned) return OperandCopy::whole;
  if (t.vector->extent <= t.width) return OperandCopy::none;
  const auto [sharing, inside] = sharing_of(b, a, t);
  const bool asks = asks_for_panels(b, a, t, target);
  const bool by_panels = asks || (inside && t.width * bytes_of(a.buffer->type.dtype) >= 2 * kLine);
  if (!(asks && lies_far(a, target)) && sharing < rows_to_pay(b, a, t, by_panels, target))
    return OperandCopy::none;
  return by_panels ? OperandCopy::panels : OperandCopy::whole;
}

void copy_panel(Schedule& s, const BlockInfo& of, const Tile& t, const Buffer& operand,
                const std::string& loop, const std::string& width, const Target& target) {
  constexpr int64_t kRowsAhead = 8;
  const std::string &block = of.name, copy = operand->name + "_packed";
  const BlockInfo b = analyze(s.func(), copy);
  s.because("a panel stays in the cache while it is used; the whole copy wouldn't");
  if (!s.try_step(fmt::format("compute_at {} {}.{}", copy, block, loop))) return spread_map(s, copy, target);
  const std::vector<LoopInfo> loops = loops_of(s.func(), copy);
  if (!width.empty()) {  // long enough rows for the machine to foresee
    const std::string& columns = loops.back().name;
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", columns, copy, width));
    s(fmt::format("vectorize {}.{}1", copy, columns));
    s.because("only the last panel may be partial")(fmt::format("annotate {}.{}0 peel=1", copy, columns));
    return;
  }
  vectorize_inside(s, copy, target);
  if (b.iters.size() < 2 || loops.size() < 2) return;
  for (const Access& a : of.accesses)
    if (a.buffer == operand && asks_for_panels(of, a, t, target)) return;
  s.because(fmt::format("its rows are far apart: they are prefetched {} ahead", kRowsAhead));
  for (const Access& a : b.accesses)
    if (!a.write)
      s.try_step(fmt::format("prefetch {}.{} {} distance={}", copy, loops.end()[-2].name, a.buffer->name,
                             kRowsAhead));
}

}  // namespace nestor::library
