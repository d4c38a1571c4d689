// log2(width) rounds; in round r vector i meets vector i + 2^r (Eklundh, A fast computer method for matrix
// transposing, IEEE Trans. Computers C-21, 1972). Any exchange that puts each pair's elements in order does;
// these are the ones for which the machines have one instruction each. Vector units shuffle within 16 bytes
// most cheaply, so the first rounds zip the halves of each 16 bytes (unpcklps, zip1); then whole pieces of 16
// bytes are told apart, even ones and odd ones (vshuff32x4, vperm2f128). Which column ends up where is found
// by doing it to labels.
#include "src/passes/transpose_network.h"

#include "nestor/error.h"

namespace nestor::passes {

namespace {

// Within each group, pieces of `size` of a and b alternate: the first half of the group, or the second.
std::vector<int64_t> zip(int lanes, int group, int size, bool second) {
  std::vector<int64_t> out;
  for (int base = 0; base < lanes; base += group)
    for (int at = 0; at < group; ++at) {
      const int piece = at / size, from = base + (second ? group / 2 : 0) + piece / 2 * size + at % size;
      out.push_back(piece % 2 == 0 ? from : lanes + from);
    }
  return out;
}

// All even pieces of a, then those of b; or the odd ones.
std::vector<int64_t> unzip(int lanes, int size, bool second) {
  std::vector<int64_t> out;
  for (int at = 0; at < lanes; ++at) {
    const int piece = at / size * 2 + (second ? 1 : 0);
    out.push_back(piece * size + at % size);
  }
  return out;
}

// In place: odd pieces of a change places with the even ones of b. Keeps squares apart, and costs more.
std::vector<int64_t> swap(int lanes, int size, bool second) {
  std::vector<int64_t> out;
  for (int at = 0; at < lanes; ++at) {
    const bool odd = at / size % 2 != 0;
    const int from = second ? (odd ? at : at + size) : (odd ? at - size : at);
    out.push_back(odd ? lanes + from : from);
  }
  return out;
}

// Labels: which row's which lane stands in each lane of each vector.
struct Label {
  int vector, lane;
};

std::vector<int> columns_after(const TransposeNetwork& network, int lanes, int width) {
  std::vector<std::vector<Label>> v(static_cast<size_t>(width));
  for (int i = 0; i < width; ++i)
    for (int l = 0; l < lanes; ++l) v[static_cast<size_t>(i)].push_back({i, l});
  for (const Exchange& e : network.exchanges) {
    auto &a = v[static_cast<size_t>(e.a)], &b = v[static_cast<size_t>(e.b)];
    std::vector<Label> both = a;
    both.insert(both.end(), b.begin(), b.end());
    for (size_t l = 0; l < a.size(); ++l) {
      a[l] = both[static_cast<size_t>(e.first[l])];
      b[l] = both[static_cast<size_t>(e.second[l])];
    }
  }
  std::vector<int> column;
  for (const auto& labels : v) {
    column.push_back(labels[0].lane % width);
    for (int l = 0; l < lanes; ++l) {
      const Label& at = labels[static_cast<size_t>(l)];
      NESTOR_CHECK(at.vector == l % width && at.lane == l / width * width + column.back())
          << "a network of " << lanes << " x " << width << " puts lane " << at.lane << " of " << at.vector
          << " at " << l;
    }
  }
  return column;
}

}  // namespace

TransposeNetwork transpose_network(int lanes, int width, int bytes) {
  constexpr int kPiece = 16;  // bytes
  NESTOR_CHECK(width > 1 && width <= lanes) << "a network of " << lanes << " x " << width;
  const int group = std::min(width, std::max(1, kPiece / bytes));
  TransposeNetwork out;
  for (int step = 1; step < width; step *= 2)
    for (int i = 0; i < width; ++i) {
      if ((i & step) != 0) continue;
      const auto pattern = [&](bool second) {
        if (step < group) return zip(lanes, group, step, second);
        return width == lanes ? unzip(lanes, group, second) : swap(lanes, step, second);
      };
      out.exchanges.push_back({i, i + step, pattern(false), pattern(true)});
    }
  out.column = columns_after(out, lanes, width);
  return out;
}

}  // namespace nestor::passes
