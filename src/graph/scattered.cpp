// A transposed convolution with a stride is a sum for each residue of the output's coordinates. By lanes
// along rows, each residue's rows are short and written with gaps; by lanes across filters, neighbours in a
// vector lie a plane apart, and each is stored by itself. In blocks of channels every vector of results is a
// line of the output. So where neither way does well, the result is better made in blocks, and copied. (Where
// one sum makes all residues along a row, it does well: schedules/library/result_panel.cpp.)
//
// What is weighed is how many cycles a vector takes of the results that sums reach: copies are of all of
// them. Fitted to 110 works of random shapes (Zen 5, one thread). Of 44 that it has made in blocks one takes
// 12 % more and all others less: t4x4x4/2 of 2 channels to 45 at 8x8x8, whose planes are 16 KB apart, 1.34 to
// 0.044 ms, t3x3x3/3 of 16 to 192 at 4x16x10 5.3 to 1.4, t3x3/2 of 16 to 43 at 26x8 23.9 to 13.1 us, in the
// middle 28 % less.
#include "src/graph/scattered.h"

#include <algorithm>
#include <set>

#include "src/graph/lanes.h"

namespace nestor {

namespace {

constexpr double kGap = 3, kWideGap = 9;            // to put what sums make of a row between each other
constexpr double kScattered = 60;                   // to store lanes singly
constexpr double kFillsBetter = 1.35;               // than rows: lanes go across filters
constexpr double kNear = 4 << 20, kFar = 16 << 20;  // bytes copied, read and written,
constexpr double kCopied = 5, kCopiedAfar = 8, kFromMemory = 15;  // and what a vector of them takes
constexpr double kLeastGain = 0.9;

// The sums of all residues.
struct Sums {
  double results = 0, products = 0;
  int64_t row = 0;             // results of one, along a row
  std::set<int64_t> in_a_row;  // those of different residues along it, by where they begin
};

Sums sums_of(const ops::TransposedShape& s) {
  Sums out;
  for (const ops::ResidueClasses& nest : ops::classes_of(s)) {
    auto results = static_cast<double>((s.n * s.filters).typical()),
         taps = static_cast<double>((s.channels / s.group).typical());
    for (const ops::ResidueClass& c : nest) {
      results *= static_cast<double>((c.count * c.residues).typical());
      taps *= static_cast<double>(c.taps);
    }
    if (results * taps == 0) continue;
    out.results += results;
    out.products += results * taps;
    out.row = std::max(out.row, nest.back().count.typical());
    out.in_a_row.insert(nest.back().first);
  }
  return out;
}

}  // namespace

bool scatters_badly(const ops::TransposedShape& s, int64_t lanes) {
  if (!s.strided() || s.output.empty()) return false;
  const Sums sums = sums_of(s);
  if (sums.in_a_row.size() <= 1) return false;  // all residues of a row at once: turned in registers
  const double work = sums.products / sums.results / kFmasPerCycle;
  const int64_t all = s.filters, filters = all / s.group;
  const double filters_fill = filled(filters % lanes == 0 ? filters : all, lanes),
               rows_fill = filled(sums.row, lanes), by_filters = work / filters_fill;
  const double row_major = filters_fill > kFillsBetter * rows_fill
                               ? by_filters + kScattered
                               : work / rows_fill + (s.stride.back() > 2 ? kWideGap : kGap);
  const double images = static_cast<double>((s.n * s.channels * product(s.input)).typical()),
               results = static_cast<double>((s.n * s.filters * product(s.output)).typical());
  const double bytes = 2 * (images + results) * bytes_of(DType::f32);
  const double copied = bytes <= kNear ? kCopied : bytes <= kFar ? kCopiedAfar : kFromMemory;
  return by_filters + copied * (images + results) / sums.results < kLeastGain * row_major;
}

}  // namespace nestor
