#include "tuner/starts.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "nestor/error.h"
#include "nestor/print.h"
#include "tuner/fields.h"
#include "tuner/space.h"

namespace nestor {

namespace {

constexpr size_t kMostNearest = 3;

struct Structure {
  std::string text;
  std::vector<double> numbers;
};

// Digits inside of names, as in `f32` or `v0`, belong to these.
Structure take_apart(const std::string& func) {
  Structure out;
  const size_t begin = std::min(func.find('('), func.size());
  for (size_t i = begin; i < func.size();) {
    const auto is = [&](size_t at, auto test) {
      return at < func.size() && test(static_cast<unsigned char>(func[at]));
    };
    const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    const auto word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    size_t end = i;
    if (is(i, digit)) {
      while (is(end, digit)) ++end;
      out.numbers.push_back(std::strtod(func.substr(i, end - i).c_str(), nullptr));
      out.text += '#';
    }
    while (is(end, word)) out.text += func[end++];
    if (end == i) out.text += func[end++];
    i = end;
  }
  return out;
}

// Of sizes, by their ratios.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(std::log2((a[i] + 1) / (b[i] + 1)));
  return sum;
}

std::string shown(const Diagnostic& d) {
  const std::string at =
      d.loc.line > 0 ? d.loc.file + ":" + std::to_string(d.loc.line) + ": " : std::string();
  return one_line(at + d.message + (d.notes.empty() ? "" : ": " + d.notes[0]), 400);
}

}  // namespace

std::vector<Decisions> own_decisions(const PrimFunc& f, const TuneOptions& options, std::mt19937_64& rng) {
  std::vector<Decisions> out;
  for (const ScheduleProvider& provider : options.own)
    if (const auto choice = provider(f, options.target))
      out.push_back({"", legal_decisions(f, choice->trace, rng)});
  for (const ScheduleTemplate& t : options.templates) {
    const auto& wanted = options.families;
    if (!wanted.empty() && !std::count(wanted.begin(), wanted.end(), t.name())) continue;
    try {
      if (const auto trace = t.match(f, options.target)) {
        out.push_back({t.name(), legal_decisions(f, *trace, rng)});
      }
    } catch (const ScheduleError& e) {
      if (options.warn)
        options.warn("template " + t.name() + " isn't used for " + f.name + ": " + shown(e.diagnostic()));
    }
  }
  return out;
}

std::string structure_of(const std::string& func) {
  return take_apart(func).text;
}

std::vector<Candidate> from_nearest(const PrimFunc& f, const Database& db, const Proposals& proposals,
                                    const TuneOptions& options) {
  const Structure mine = take_apart(print(f));
  std::vector<std::pair<double, std::string>> plans;  // by distance
  for (const Record& r : db.best_of_others(workload_key(f), record_target(options.target), options.threads))
    if (const Structure other = take_apart(r.func); other.text == mine.text)
      plans.emplace_back(distance(mine.numbers, other.numbers), r.plan);
  std::stable_sort(plans.begin(), plans.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Candidate> out;
  for (const auto& [far, plan] : plans) {
    if (out.size() == kMostNearest) break;
    auto c = proposals.carried_over(plan);
    const bool known =
        !c || std::any_of(out.begin(), out.end(), [&](const Candidate& o) { return o.text == c->text; });
    if (!known) out.push_back(std::move(*c));
  }
  return out;
}

}  // namespace nestor
