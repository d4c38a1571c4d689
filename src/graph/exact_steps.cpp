#include "src/graph/exact_steps.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "nestor/error.h"

namespace nestor {

namespace {

using Scales = std::array<float, 2>;

// A sum of two terms; of one, the other is always 0.
class Steps {
 public:
  Steps(const std::array<ByteTerm, 2>& terms, bool subtracted, float step, DType to)
      : terms_(terms), sign_(subtracted ? -1.0F : 1.0F), limit_(bytes_of(to) == 1 ? 256.0F : 65536.0F) {
    each({static_cast<float>(terms[0].scale), static_cast<float>(terms[1].scale)}, [&](float x) {
      wanted_.push_back(rounded(x / step));
      return true;
    });
  }

  bool are_kept_by(const Scales& scales) const {
    size_t next = 0;
    return each(scales, [&](float x) { return rounded(x) == wanted_[next++]; });
  }

 private:
  // Where a byte is cut off, it doesn't matter where it would have been.
  int rounded(float x) const { return static_cast<int>(std::nearbyint(std::clamp(x, -limit_, limit_))); }

  // Until `visit` says no.
  template <class F>
  bool each(const Scales& scales, F&& visit) const {
    for (int d = terms_[0].least; d <= terms_[0].most; ++d)
      for (int e = terms_[1].least; e <= terms_[1].most; ++e) {
        const float first = static_cast<float>(d) * scales[0], second = static_cast<float>(e) * scales[1];
        if (!visit(first + sign_ * second)) return false;
      }
    return true;
  }

  const std::array<ByteTerm, 2> terms_;
  const float sign_, limit_;
  std::vector<int> wanted_;
};

// m and its neighbours, the nearest first.
std::array<float, 5> near(float m) {
  const float up = std::nextafterf(m, INFINITY), down = std::nextafterf(m, 0);
  return {m, up, down, std::nextafterf(up, INFINITY), std::nextafterf(down, 0)};
}

}  // namespace

std::optional<std::vector<double>> scales_in_steps(const std::vector<ByteTerm>& terms, bool subtracted,
                                                   double step, DType to) {
  NESTOR_CHECK(terms.size() == 1 || terms.size() == 2) << terms.size() << " terms";
  const bool two = terms.size() == 2;
  const std::array<ByteTerm, 2> both = {terms[0], two ? terms[1] : ByteTerm{1, 0, 0}};
  const auto divisor = static_cast<float>(step);
  const Steps steps(both, subtracted, divisor, to);
  for (const float first : near(static_cast<float>(both[0].scale) / divisor))
    for (const float second : near(static_cast<float>(both[1].scale) / divisor)) {
      if (steps.are_kept_by({first, second}))
        return two ? std::vector<double>{first, second} : std::vector<double>{first};
      if (!two) break;
    }
  return std::nullopt;
}

}  // namespace nestor
