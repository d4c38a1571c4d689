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

std::optional<int64_t> binary(const Binary& b, const Values& at) {
  const auto x = value_of(b.a, at), y = value_of(b.b, at);
  if (!x || !y) return std::nullopt;
  switch (b.op) {
    case BinaryOp::add:
      return *x + *y;
    case BinaryOp::sub:
      return *x - *y;
    case BinaryOp::mul:
      return *x * *y;
    case BinaryOp::div:
      return *y == 0 ? 0 : floor_div(*x, *y);
    case BinaryOp::mod:
      return *y == 0 ? 0 : *x - *y * floor_div(*x, *y);
    case BinaryOp::min:
      return std::min(*x, *y);
    case BinaryOp::max:
      return std::max(*x, *y);
    case BinaryOp::bit_xor:
      return *x ^ *y;
    case BinaryOp::bit_and:
      return *x & *y;
    case BinaryOp::bit_or:
      return *x | *y;
    case BinaryOp::eq:
      return *x == *y;
    case BinaryOp::ne:
      return *x != *y;
    case BinaryOp::lt:
      return *x < *y;
    case BinaryOp::le:
      return *x <= *y;
    case BinaryOp::gt:
      return *x > *y;
    case BinaryOp::ge:
      return *x >= *y;
    case BinaryOp::logical_and:
      return *x && *y;
    case BinaryOp::logical_or:
      return *x || *y;
    default:
      return std::nullopt;
  }
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

std::optional<int64_t> value_of(const Expr& e, const Values& at) {
  if (const auto* i = e.as<IntImm>()) return i->value;
  if (const auto* b = e.as<Binary>()) return binary(*b, at);
  if (const auto* v = e.as<VarRef>()) {
    const auto it = at.find(v->var);
    return it == at.end() ? std::nullopt : std::optional(it->second);
  }
  if (const auto* u = e.as<Unary>()) {
    const auto x = value_of(u->a, at);
    if (!x) return x;
    return u->op == UnaryOp::neg ? -*x : static_cast<int64_t>(*x == 0);
  }
  if (const auto* s = e.as<Select>()) {
    const auto c = value_of(s->cond, at);
    return c ? value_of(*c ? s->a : s->b, at) : c;
  }
  if (const auto* c = e.as<Cast>()) return value_of(c->a, at);
  return std::nullopt;
}

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
