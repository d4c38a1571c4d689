// Rows of which the next come while this one, or a group of them, is computed.
#include "schedules/library/next_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"

namespace nestor::library {

namespace {

constexpr int64_t kAloneVectors = 10;  // of a row at least, that goes alone or is asked for
constexpr int64_t kNearPart = 4;       // of the third level
constexpr int64_t kAskedVectors = 24, kLongVectors = 64;  // in rows asked for, by and past the caches
constexpr int64_t kRowPart = 8;                           // of the third level that such a row takes at most

}  // namespace

// Rows from far back in the third-level cache, or from memory, come while others are computed: one row's
// passes leave the machine time to fetch the next one, four rows' first pass waits for all of them, and what
// they write goes to four places. (Zen 5, LayerNormalization: 1500 x 768 0.24 to 0.18 ms, 8192 x 192 0.46 to
// 0.29, 3035 x 622 0.63 to 0.47; softmax of 3000 x 768 10 % less. 3000 x 192, an eighth of the third level,
// take 7 % more, and rows of 128 elements or less at any size.)
bool go_alone(int64_t length, int64_t bytes, int64_t lanes, const Target& target) {
  return length >= kAloneVectors * lanes && bytes > std::max(target.l2_bytes, target.l3_bytes / kNearPart);
}

bool reads_alike(const BlockInfo& b) {
  return !b.reduction && std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    return !a.write && std::all_of(b.iters.begin(), b.iters.end(), [&](const Iter& i) {
      return i.extent < 2 || a.uses(i) == (&i == &b.iters.back());
    });
  });
}

std::vector<Buffer> rows_to_ask_for(const PrimFunc& f, const BlockInfo& root,
                                    const std::vector<std::string>& rows, int64_t length,
                                    const Target& target) {
  std::vector<Buffer> out;
  if (!reads_alike(root) || length < kAloneVectors * lanes_of(root, target)) return out;
  const Iter* column = nullptr;
  for (const Iter& i : root.iters) {
    if (i.loop.empty() || std::find(rows.begin(), rows.end(), i.loop) != rows.end()) continue;
    if (column) return out;
    column = &i;
  }
  for (const Access& a : root.accesses)
    if (!a.write && find_param(f, a.buffer) && a.uses(*root.iter(rows.back())) && column && a.uses(*column) &&
        a.elements * bytes_of(a.buffer->type.dtype) > target.l1_bytes &&
        std::find(out.begin(), out.end(), a.buffer) == out.end())
      out.push_back(a.buffer);
  return out;
}

// Where the third level is far, so is the second one: as a group's rows are written, the next group's are
// asked for, a share with each tile; groups of so few rows that both take half of the first level, of two at
// least. (Emerald Rapids, LayerNormalization: 128 x 768 13.0 to 11.4 us, 4 rows at a time 12.3; 512 x 1024
// 162 to 147, 500 x 256 17.4 to 15.3, 2 rows at a time 18.2. Asked for with no shares, or what is written: 2
// to 24 % more.) Under the loop over groups stands one over tiles of columns, around the loop `grouped` over
// a group's rows.
void ask_for_rows(Schedule& s, const std::string& root, const std::string& grouped,
                  const std::vector<Buffer>& operands) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), root);
  const auto rows =
      std::find_if(loops.begin(), loops.end(), [&](const LoopInfo& l) { return l.name == grouped; });
  if (rows == loops.end() || rows - loops.begin() < 2) return;
  for (const Buffer& x : operands) {
    s.because("the next rows are fetched while these are written");
    s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}", root, (rows - 2)->name, x->name,
                           (rows - 1)->name));
  }
}

// Whether rows come too late from behind the second level. Those of whole lines the machine foresees as far
// as the third one goes, unless they are long. (Zen 5, LayerNormalization, from 8 MB each way on: rows of
// 1371 13 % less time, 3661 6, 3664 12, 701 5; 1376 6 more, 768 10.) Where a line takes two passes only what
// the third level doesn't hold comes too late. (Zen 4: 4000 x 1760 2.8 to 2.1 ms, 2000 x 3000 4.0 to 3.5, but
// 6000 x 701, as large as it, 0.9 to 1.5, 73 x 14491 0.24 to 0.29.)
bool waits_for_row(const BlockInfo& root, int64_t length, int64_t bytes, int64_t rows, const Target& target) {
  if (target.far_l3() || has_short_vectors(target) || kRowPart * bytes > target.l3_bytes) return false;
  if (target.double_pumped) return rows * bytes > target.l3_bytes + target.l3_bytes / kRowPart;
  const int64_t row = length * bytes_of(root.output->type.dtype);
  const bool foreseen = row % kLine == 0 && row <= target.l1_bytes / 4;
  return rows * bytes > (foreseen ? target.l3_bytes : target.l3_bytes / kNearPart);
}

// Rows that come one by one from far away, where a vector is a line: the next one is asked for while this one
// is written, and its place with it where stores don't go past the caches. Where they do, of long rows only:
// the machine foresees short ones. (Zen 5, LayerNormalization: 4000 x 1760 1.25 to 1.1 ms, 4096 x 4096 3.5 to
// 3.05; 16000 x 768 2 % more time, 10000 x 768 15. By the caches 3976 x 1759 2.1 to 1.86, 385 wide 2.0
// to 1.6, 321 the same, 225 a third more; of 8 x 2000001 a quarter more, which leave before they are used.
// Softmax loses as often as it gains.)
void ask_for_row(Schedule& s, const std::string& root, int64_t length, bool streaming,
                 const std::vector<Buffer>& operands, const Target& target) {
  if (length < (streaming ? kLongVectors : kAskedVectors) * lanes_of(analyze(s.func(), root), target)) return;
  const std::vector<LoopInfo> loops = loops_of(s.func(), root);
  if (loops.size() < 3 || loops.back().kind != ForKind::vectorized) return;
  const auto ask = [&](const Buffer& x) {
    s.because("the next row is fetched from beyond L2 while this one is written");
    s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}", root, loops[loops.size() - 3].name,
                           x->name, loops[loops.size() - 2].name));
  };
  for (const Buffer& x : operands) ask(x);
  if (!streaming && !operands.empty()) ask(analyze(s.func(), root).output);
}

}  // namespace nestor::library
