#include "src/report/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace nestor::report {

namespace {

constexpr double kWidth = 860, kHeight = 220, kLeft = 74, kRight = 14, kTop = 14, kBottom = 34;

// From numbers of candidates and times to places in the picture.
struct Axes {
  double candidates, least_ns, most_ns;
  double x(double candidate) const {
    return kLeft + (kWidth - kLeft - kRight) * (candidate - 1) / std::max(1.0, candidates - 1);
  }
  double y(double ns) const {
    const double part = std::log(ns / least_ns) / std::log(most_ns / least_ns);
    return kHeight - kBottom - (kHeight - kTop - kBottom) * std::clamp(part, 0.0, 1.0);
  }
};

std::string level(const Axes& a, const char* kind, double ns) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kind,
                     kLeft, kWidth - kRight, a.y(ns), a.y(ns));
}

std::string label(const Axes& a, double ns) {
  const char* unit = ns < 1e3 ? "ns" : ns < 1e6 ? "us" : ns < 1e9 ? "ms" : "s";
  const double scale = ns < 1e3 ? 1 : ns < 1e6 ? 1e3 : ns < 1e9 ? 1e6 : 1e9;
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g} {}</text>", kLeft - 8,
                     a.y(ns) + 4, ns / scale, unit);
}

// Times that are easy to read: 1, 2 or 5 times a power of ten; the ends of the scale where fewer than two are
// on it.
std::string grid(const Axes& a) {
  std::vector<double> times;
  const bool wide = a.most_ns > 100 * a.least_ns;
  for (double power = std::pow(10, std::floor(std::log10(a.least_ns))); power < a.most_ns; power *= 10)
    for (const double digit : {1.0, 2.0, 5.0})
      if (power * digit > a.least_ns && power * digit < a.most_ns && (!wide || digit == 1))
        times.push_back(power * digit);
  if (times.size() < 2) times = {a.least_ns, a.most_ns};
  std::string out;
  for (const double ns : times) out += level(a, "grid", ns) + label(a, ns);
  return out;
}

}  // namespace

std::string curve(const std::vector<double>& trials_ns, double default_ns, double bound_ns) {
  double least = 0, most = 0;
  const auto cover = [&](double ns) {
    if (ns <= 0) return;
    least = least == 0 ? ns : std::min(least, ns);
    most = std::max(most, ns);
  };
  for (const double ns : trials_ns) cover(ns);
  cover(default_ns);
  if (most == 0 || trials_ns.size() < 2) return "";
  constexpr double kMostSlower = 10;  // than the default: those beyond are at the upper edge
  if (default_ns > 0) most = std::min(most, kMostSlower * default_ns);
  if (bound_ns > least / 20) cover(bound_ns);  // one far below would leave no room for the rest
  const Axes a{static_cast<double>(trials_ns.size()), least / 1.15, most * 1.15};

  std::string out = fmt::format(
      "<svg class=\"curve\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Times of {} candidates\">",
      kWidth, kHeight, trials_ns.size());
  out += grid(a);
  if (bound_ns >= a.least_ns) out += level(a, "bound", bound_ns);
  if (default_ns > 0) out += level(a, "default", default_ns);
  double best = 0;
  std::string path;
  for (size_t i = 0; i < trials_ns.size(); ++i) {
    const double x = a.x(static_cast<double>(i + 1)), ns = trials_ns[i];
    if (ns <= 0) {
      out += fmt::format("<line class=\"failed\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>", x,
                         kHeight - kBottom, kHeight - kBottom + 5);
      continue;
    }
    out += fmt::format("<circle class=\"trial\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"/>", x, a.y(ns));
    if (best > 0 && ns >= best) continue;
    path +=
        path.empty() ? fmt::format("M{:.1f} {:.1f}", x, a.y(ns)) : fmt::format("H{:.1f}V{:.1f}", x, a.y(ns));
    best = ns;
  }
  if (best > 0) path += fmt::format("H{:.1f}", kWidth - kRight);
  out += fmt::format("<path class=\"best\" d=\"{}\"/>", path);
  out += fmt::format(
      "<text x=\"{:.1f}\" y=\"{}\">1</text><text x=\"{:.1f}\" y=\"{}\" text-anchor=\"end\">{}</text>"
      "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">candidates</text></svg>",
      kLeft, kHeight - 12, kWidth - kRight, kHeight - 12, trials_ns.size(), (kLeft + kWidth) / 2,
      kHeight - 12);
  return out;
}

}  // namespace nestor::report
