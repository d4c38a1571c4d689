// A tile's results that memory, not a cache, will hold go past the caches: a plain store first fetches the
// line that it fills, and writes it back later, two ways for each that a streaming store takes once.
//
// That pays behind a near last cache, of which they take a third, where lines that a tile writes lie apart,
// as those of transposed convolutions by steps: they are pieces that the machine doesn't foresee, and each
// waits. (Zen 4, sums of 4 and 16 into 14 MB 1.8 and 1.6 times faster, into 28 MB 3 and 1.7, 55 MB 2.6
// and 1.6; into 7 MB 5 and 11 % less time; into 3.5 MB 10 % more and 5 less. By two threads as well.) Long
// sums hide most of that (of 128 to 512 into 17 to 42 MB 2 to 6 % less), so theirs have to be larger. Rows
// one after the other stay: by one thread 13 to 26 MB take 5 % less to 5 more, by two 27 less to 22 more. A
// cache that is far away isn't measured.
#include <fmt/format.h>

#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

bool stream_output(Schedule& s, const BlockInfo& w, const Iter* row, int64_t terms, const Target& target) {
  constexpr int64_t kShortSum = 64;  // FMAs for each vector that is written
  constexpr int64_t kPart = 3;       // of the last cache
  const Access* out = write_of(w);
  const Iter* lanes = iter_at(w, 1);
  if (target.far_l3() || has_short_vectors(target) || !out || !lanes) return false;
  const int64_t element = bytes_of(w.output->type.dtype), all = out->elements * element;
  const int64_t apart = row ? out->stride(*row).value_or(0) * element : 0;
  const bool is_short = terms <= kShortSum;
  const int64_t part = target.l3_bytes / kPart,
                least = is_short ? part : std::max(part, streaming_size(target));
  if (apart < 2 * kLine || all < least || !wants_streaming(w, *lanes, kLine / element, 0)) return false;
  s.because(
      fmt::format("{} KiB of output don't stay in a last cache of {}, and rows of a tile lie {} bytes apart, "
                  "after {} FMAs for each vector: stores go past the caches",
                  all / 1024, target.l3_bytes / 1024, apart, terms));
  return s.try_step(fmt::format("annotate {} streaming=1", w.name));
}

}  // namespace nestor::library
