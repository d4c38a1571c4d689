#include "src/report/tuning_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/report/curve.h"
#include "src/report/diff.h"
#include "src/report/page.h"
#include "src/report/time_text.h"

namespace nestor::report {

namespace {

using Function = TuningPage::Function;

std::string time_of(double ns) {
  return ns > 0 ? time_text(ns / 1e6) : "–";
}

std::string code(const std::string& text) {
  return "<code>" + escaped(text) + "</code>";
}

double saved_ns(const Function& f) {
  return f.default_ns > 0 && f.best_ns > 0 ? f.calls * (f.default_ns - f.best_ns) : 0;
}

std::string percent_of_bound(const Function& f) {
  const double ns = f.bound.ns();
  return ns > 0 && f.best_ns > 0 ? fmt::format("{:.0f} % ({})", 100 * ns / f.best_ns, f.bound.by()) : "–";
}

std::string whole(const std::vector<Function>& functions) {
  double before = 0, after = 0;
  size_t faster = 0, unknown = 0;
  for (const Function& f : functions) {
    if (f.default_ns <= 0 || f.best_ns <= 0) {
      ++unknown;
      continue;
    }
    before += f.calls * f.default_ns;
    after += f.calls * f.best_ns;
    faster += f.best_ns < f.default_ns;
  }
  std::string out;
  if (after > 0)
    out = fmt::format("{} by default, {} now: {:.2f}x. {} of {} {} faster.", time_of(before), time_of(after),
                      before / after, faster, functions.size(),
                      functions.size() == 1 ? "function got" : "functions got");
  if (unknown > 0)
    out += fmt::format(" Of {} the time by default or of the best isn't known; {} left out.", unknown,
                       unknown == 1 ? "it is" : "they are");
  return "<p class=\"whole\">" + out + "</p>";
}

std::string anchor(size_t number) {
  return fmt::format("f{}", number);
}

std::string summary(const std::vector<Function>& functions) {
  double all = 0;
  for (const Function& f : functions) all += std::max(0.0, saved_ns(f));
  std::string out =
      "<div class=\"wide\"><table class=\"summary\"><tr><th>function</th><th class=\"number\">calls</th>"
      "<th class=\"number\">default</th><th class=\"number\">best</th><th>gain</th>"
      "<th class=\"number\">of what was saved</th><th>of the bound</th><th class=\"number\">candidates</th>"
      "<th class=\"number\">failed</th></tr>";
  const auto number = [&](const std::string& text) { out += "<td class=\"number\">" + text + "</td>"; };
  for (size_t i = 0; i < functions.size(); ++i) {
    const Function& f = functions[i];
    int64_t failed = 0;
    for (const auto& failure : f.failures) failed += failure.count;
    const bool faster = saved_ns(f) > 0;
    out += fmt::format("<tr><td><a href=\"#{}\">{}</a></td>", anchor(i), escaped(f.name));
    number(std::to_string(f.calls));
    number(time_of(f.default_ns));
    number(time_of(f.best_ns));
    out += fmt::format("<td{}>{}</td>", faster ? " class=\"faster\"" : "", escaped(f.verdict));
    number(faster && all > 0 ? fmt::format("{:.0f} %", 100 * saved_ns(f) / all) : "–");
    out += "<td>" + percent_of_bound(f) + "</td>";
    number(std::to_string(f.trials_ns.size()));
    number(std::to_string(failed));
    out += "</tr>";
  }
  return out + "</table></div>";
}

std::string differences_table(const Function& f) {
  if (f.differences.empty()) return "";
  std::string out =
      "<h3>What the best does otherwise</h3><div class=\"wide\"><table "
      "class=\"differences\"><tr><th>of</th><th>what</th>"
      "<th>default</th><th>best</th></tr>";
  for (const Difference& d : f.differences)
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", code(d.of), escaped(d.what),
                       escaped(d.before), escaped(d.after));
  return out + "</table></div>";
}

std::string diff_of(const std::string& title, const std::string& before, const std::string& after) {
  constexpr size_t kMostPairs = 16'000'000;  // of lines, which diff compares
  const Lines a = split_lines(before), b = split_lines(after);
  if (a.empty() || b.empty() || a == b || a.size() > kMostPairs / b.size()) return "";
  std::string out = "<details><summary>" + title + "</summary><div class=\"code\"><div class=\"listing\">";
  for (const Edit& e : diff(a, b)) {
    const char* kind = e.mark == '+' ? " add" : e.mark == '-' ? " gone" : e.mark == '~' ? " moved" : "";
    out += fmt::format(
        "<div class=\"line{}\"><span class=\"mark\">{}</span><span class=\"text\">{}</span></div>", kind,
        e.mark, escaped(e.line));
  }
  return out + "</div></div></details>";
}

std::string failures(const Function& f) {
  if (f.failures.empty()) return "";
  std::string out =
      "<h3>Candidates that failed</h3><div class=\"wide\"><table class=\"failures\"><tr><th>cause</th>"
      "<th class=\"number\">how many</th><th>one of them</th></tr>";
  for (const auto& failure : f.failures)
    out += fmt::format("<tr><td>{}</td><td class=\"number\">{}</td><td>{}</td></tr>", escaped(failure.cause),
                       failure.count, escaped(failure.example));
  return out + "</table></div>";
}

std::string section(const Function& f, size_t number) {
  std::string out = fmt::format("<section class=\"tuned\" id=\"{}\"><h2>{}<small>{}</small></h2>",
                                anchor(number), escaped(f.name), escaped(f.verdict));
  out += fmt::format("<p>{} by default, {} now{}.", time_of(f.default_ns), time_of(f.best_ns),
                     f.compared ? ", measured in turn" : ", each measured once");
  if (f.bound.ns() > 0)
    out += fmt::format(" The bound is {}, for its {}.", time_of(f.bound.ns()), f.bound.by());
  out += "</p>";
  if (const std::string picture = curve(f.trials_ns, f.default_ns, f.bound.ns()); !picture.empty())
    out += picture +
           "<p class=\"key\">A dot is a candidate, the line the best so far, a tick below one that failed; "
           "dashes are "
           "the default, dots the bound.</p>";
  if (!f.end.empty()) out += "<p class=\"key\">The search ended: " + escaped(f.end) + ".</p>";
  out += differences_table(f);
  if (!f.plan.empty()) out += "<h3>Its plan</h3><p>" + code(f.plan) + "</p>";
  out += diff_of("The nests, default and best", f.default_nest, f.best_nest);
  out += diff_of("The schedules, default and best", f.default_steps, f.best_steps);
  return out + failures(f) + "</section>";
}

}  // namespace

std::string tuning_page(const TuningPage& p) {
  std::vector<Function> functions = p.functions;  // what saved most comes first
  std::stable_sort(functions.begin(), functions.end(),
                   [](const Function& a, const Function& b) { return saved_ns(a) > saved_ns(b); });
  std::string body =
      "<h1>Tuning of " + escaped(p.title) + "</h1>" + whole(functions) + "<dl class=\"facts\">";
  for (const auto& [name, value] : p.facts)
    body += "<dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd>";
  body += "</dl><h2>Functions</h2>" + summary(functions);
  body +=
      "<p class=\"key\">The bound is the time that a function's operations take at the FMA peak, or its "
      "bytes at the "
      "speed of a copy of so many, whichever is longer; both were measured here. A function may pass it by a "
      "little: "
      "what is only read may be faster than a copy, additions may have ports of their own.</p>";
  for (size_t i = 0; i < functions.size(); ++i) body += section(functions[i], i);
  return still_page(p.title, body);
}

}  // namespace nestor::report
