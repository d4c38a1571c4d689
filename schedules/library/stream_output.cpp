// A tile's results that memory, not a cache, will hold go past the caches: a plain store first fetches the
// line that it fills, and writes it back later, two ways for each that a streaming store takes once.
//
// That pays behind a near last cache, of which they take a third, where lines that a tile writes lie apart,
// as those of transposed convolutions by steps in blocks of channels: they are pieces that the machine
// doesn't foresee, and each waits. (Zen 4, sums of 4 and 16 into 14 MB 1.8 and 1.6 times faster, into 28 MB 3
// and 1.7, 55 MB 2.6 and 1.6; into 7 MB 5 and 11 % less time; into 3.5 MB 10 % more and 5 less. By two
// threads as well; with what reads it next, 12 to 27 MB 4 to 8 % less.) Outputs have to be larger than half
// of the cache where
//  - sums are long, and hide most of that (of 128 to 512 into 17 to 42 MB 2 to 6 % less time);
//  - narrow rows follow each other without a gap (100000x4x32, 13 MB, a third more, of 25 MB a third less;
//  28000x4x128
//    30 % less).
// A tile's lines one after the other stay: by one thread 13 to 26 MB take 5 % less to 5 more, by two 27 less
// to 22 more. Caches that are far away and elements of less than 4 bytes, whose vectors are no lines, aren't
// measured.
#include <fmt/format.h>

#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

// Whether someone reads the lines besides: the writer itself, where they hold what it adds to, or another
// block.
bool is_read(const PrimFunc& f, const BlockInfo& w) {
  return find_block(f, w.name)->annotations.count("in_place") != 0 || !readers_of(f, w.output).empty();
}

}  // namespace

bool stream_output(Schedule& s, const BlockInfo& w, const Iter* row, int64_t terms, const Target& target) {
  constexpr int64_t kShortSum = 64;    // FMAs for each vector that is written
  constexpr int64_t kPart = 3;         // of the last cache
  constexpr int64_t kLeast = 5;        // second-level caches
  constexpr int64_t kNarrow = 512;     // bytes
  constexpr int64_t kWholeVector = 4;  // bytes of an element
  const Access* out = write_of(w);
  const Iter* lanes = iter_at(w, 1);
  if (target.far_l3() || target.l3_bytes == 0 || has_short_vectors(target) || !out || !lanes || !row)
    return false;
  const int64_t element = bytes_of(w.output->type.dtype), all = out->elements * element;
  const int64_t stride = out->stride(*row).value_or(0), apart = stride * element;
  if (apart < 2 * kLine || element < kWholeVector) return false;
  const bool waits = terms <= kShortSum && (stride != lanes->extent || apart >= kNarrow);
  const int64_t part = std::max(target.l3_bytes / kPart, kLeast * target.l2_bytes);
  if (all < (waits ? part : std::max(part, streaming_size(target)))) return false;
  if (!wants_streaming(w, *lanes, kLine / element, 0) || is_read(s.func(), w)) return false;
  s.because(
      fmt::format("{} KiB of output don't fit in a last-level cache of {}, and rows of a tile are {} bytes "
                  "apart, after {} FMAs per vector: non-temporal stores",
                  all / 1024, target.l3_bytes / 1024, apart, terms));
  return s.try_step(fmt::format("annotate {} streaming=1", w.name));
}

}  // namespace nestor::library
