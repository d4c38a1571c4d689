// Rows of an image in blocks of channels lie a plane apart: each row of tiles walks other pages, one or two
// of each block. Where the image has more of them than a core keeps translated, each first access waits for a
// translation, and a prefetch waits as well, with all that is behind it: asked for one by one with the lines,
// they cost as much as they would without. So for the next row a line of each page and the last of a range
// are asked for, a tile's share one behind the other (all at once where the loop over tiles is written out):
// translations are made side by side, while the tiles of this row are computed.
// (Emerald Rapids, 1x1 with stride 2 beside lines asked for in shares: 458-12@109 540 to 450 us, 504-32@65
// 310 to 262, 155-17@114 254 to 227, 391-51@103 979 to 915; with stride 3, 300-40@121 385 to 340, 480-8@130
// 380 to 340. Of 744 pages, 192-10@63, nothing; of 768, 33-8@128, 4 to 8 % more time. Of each page with the
// step that reads it: nothing.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile.h"

namespace nestor::library {

void prefetch_pages(Schedule& s, const std::string& block, const std::string& row_tiles,
                    const std::vector<std::string>& reduced, const Target& target) {
  if (!target.far_l3() || extent_of(s, block, row_tiles) < 2) return;
  std::string around;  // the loop whose next iteration has the next row of tiles
  for (const LoopInfo& l : loops_of(s.func(), block)) {
    if (l.name == row_tiles || std::find(reduced.begin(), reduced.end(), l.name) != reduced.end()) break;
    around = l.name;
  }
  if (around.empty()) return;
  const BlockInfo now = analyze(s.func(), block);
  for (const Access& a : now.accesses) {
    if (a.write || a.constant || !find_param(s.func(), a.buffer) || has_taps(now, a)) continue;
    if (pages_of(a) <= kPagesTranslated) continue;
    s.because(
        fmt::format("it has {} pages, others for each row, and the TLB holds {}: the page walks for the next "
                    "row are overlapped",
                    pages_of(a), kPagesTranslated));
    s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={} each=page", block, around, a.buffer->name,
                           row_tiles));
  }
}

}  // namespace nestor::library
