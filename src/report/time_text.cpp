#include "src/report/time_text.h"

#include <fmt/format.h>

namespace nestor::report {

std::string time_text(double ms) {
  if (ms < 1e-3) return fmt::format("{:.1f} ns", ms * 1e6);
  if (ms < 1) return fmt::format("{:.2f} us", ms * 1e3);
  if (ms < 1e3) return fmt::format("{:.3f} ms", ms);
  return fmt::format("{:.2f} s", ms / 1e3);
}

}  // namespace nestor::report
