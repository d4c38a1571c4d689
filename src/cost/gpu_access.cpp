// Device memory moves sectors of 32 bytes, shared memory has 32 banks of 4 bytes: of each bank one word a
// pass, for however many threads want it. The ideal is that of as many different bytes side by side.
#include "src/cost/gpu_access.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace nestor::cost {

namespace {

constexpr int64_t kSector = 32, kBank = 4, kBanks = 32;

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// The first byte and how many, of each thread.
std::vector<std::pair<int64_t, int64_t>> pieces(const Expr& index, int64_t element,
                                                const std::vector<Values>& lanes) {
  std::vector<std::pair<int64_t, int64_t>> out;
  const auto* ramp = index.as<Ramp>();
  const int64_t count = index.type().lanes;
  for (const Values& at : lanes) {
    const auto first = value_of(ramp ? ramp->base : index, at);
    if (!first) return {};
    out.emplace_back(*first * element, element * count);
  }
  return out;
}

}  // namespace

Moved sectors_of(const Expr& index, int element_bytes, const std::vector<Values>& lanes) {
  const auto all = pieces(index, element_bytes, lanes);
  const auto n = static_cast<double>(lanes.size());
  if (all.empty()) return {n, n};  // wherever data say
  std::set<int64_t> sectors, bytes;
  for (const auto& [first, count] : all) {
    for (int64_t b = floor_div(first, kSector); b <= floor_div(first + count - 1, kSector); ++b)
      sectors.insert(b);
    bytes.insert(first);
  }
  const double distinct = static_cast<double>(bytes.size()) * static_cast<double>(all[0].second);
  return {static_cast<double>(sectors.size()), std::ceil(distinct / kSector)};
}

Moved wavefronts_of(const Expr& index, int element_bytes, const std::vector<Values>& lanes) {
  const auto all = pieces(index, element_bytes, lanes);
  if (all.empty()) return {static_cast<double>(lanes.size()) / 4, 1};
  std::set<int64_t> words;
  for (const auto& [first, count] : all)
    for (int64_t w = floor_div(first, kBank); w <= floor_div(first + count - 1, kBank); ++w) words.insert(w);
  std::array<int, kBanks> of_bank{};
  for (const int64_t w : words) ++of_bank[static_cast<size_t>(((w % kBanks) + kBanks) % kBanks)];
  return {static_cast<double>(*std::max_element(of_bank.begin(), of_bank.end())),
          std::ceil(static_cast<double>(words.size()) / kBanks)};
}

}  // namespace nestor::cost
