// Comparisons that name the worst element, because "max error 0.3" alone never finds a bug.

#include <fmt/format.h>

#include <cmath>

#include "nestor/error.h"
#include "nestor/half.h"
#include "nestor/verify.h"

namespace nestor {

namespace {

bool same_value(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// Integers are compared exactly where nothing is `bounded`.
template <class Allowed>
Comparison compare_by(const Tensor& got, const Tensor& want, bool bounded, Allowed&& allowed_at) {
  if (got.shape() != want.shape())
    throw UserError("can't compare " + to_string(got.dtype(), got.shape()) + " with " +
                    to_string(want.dtype(), want.shape()));
  Comparison c;
  c.elements = got.size();
  const bool exact = !is_float(got.dtype());
  double worst_excess = -1;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double g = got.get(i), w = want.get(i);
    const double allowed = exact && !bounded ? 0 : allowed_at(i, w);
    const double difference = std::fabs(g - w);
    const bool equal = exact && !is_float(want.dtype()) ? got.get_int(i) == want.get_int(i)
                                                        : same_value(g, round_to(got.dtype(), w));
    // A NaN anywhere in the inequality makes it false; what should be infinite allows nothing else.
    const bool right = equal || (std::isfinite(difference) && difference <= allowed);
    if (std::isfinite(difference)) {
      c.max_abs = std::max(c.max_abs, difference);
      if (w != 0) c.max_rel = std::max(c.max_rel, difference / std::fabs(w));
    }
    if (!right) ++c.mismatches;
    const double excess = equal                       ? 0
                          : right                     ? difference / allowed
                          : std::isfinite(difference) ? 1 + difference
                                                      : INFINITY;
    if (excess > worst_excess) {
      worst_excess = excess;
      c.worst = i;
      c.got = g;
      c.want = w;
      c.allowed = allowed;
    }
  }
  return c;
}

std::string index_of(int64_t flat, const std::vector<int64_t>& shape) {
  std::string out;
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d])
    out = std::to_string(flat % shape[d]) + (out.empty() ? "" : ",") + out;
  return "[" + out + "]";
}

}  // namespace

Comparison compare(const Tensor& got, const Tensor& want, const Tolerance& t) {
  return compare_by(got, want, false, [&](int64_t, double w) { return t.atol + t.rtol * std::fabs(w); });
}

Comparison compare(const Tensor& got, const Tensor& want, const Tensor& bound, double factor) {
  NESTOR_CHECK(bound.size() == want.size())
      << "a bound of " << bound.size() << " elements for " << want.size();
  return compare_by(got, want, true, [&](int64_t i, double) { return bound.get(i) * factor + 1e-38; });
}

std::string describe(const Comparison& c, const std::string& name, const Tensor& want) {
  if (c.elements == 0) return name + ": no elements";
  if (c.ok()) {
    // Not the relative difference of each: where terms cancel it may be 1, and all is well.
    const double share = c.allowed > 0 ? std::fabs(c.got - c.want) / c.allowed : 0;
    return fmt::format(
        "{}: {} elements agree, largest difference {:.3g}, none above {:.3g} of what is allowed", name,
        c.elements, c.max_abs, share);
  }
  return fmt::format("{}: {} of {} elements differ; worst at {}: {:.9g}, should be {:.9g} ± {:.3g}", name,
                     c.mismatches, c.elements, index_of(c.worst, want.shape()), c.got, c.want, c.allowed);
}

}  // namespace nestor
