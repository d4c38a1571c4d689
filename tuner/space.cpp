#include "tuner/space.h"

#include <algorithm>

#include "nestor/error.h"

namespace nestor {

namespace {

// The trace if every step still applies.
std::optional<Trace> if_legal(const PrimFunc& f, Trace trace) {
  const QuietRefusals quiet;
  try {
    apply(f, trace);
    return trace;
  } catch (const ScheduleError&) {
    return std::nullopt;
  }
}

// The step as if it were open.
std::string undecided(const Step& step) {
  Step open = step;
  const auto arrow = std::find(open.args.begin(), open.args.end(), "->");
  if (step.primitive.starts_with("sample_")) open.args.erase(arrow, open.args.end());
  return print(open);
}

}  // namespace

bool same_space(const Trace& a, const Trace& b) {
  return std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                    [](const Step& x, const Step& y) { return undecided(x) == undecided(y); });
}

size_t decisions_in(const PrimFunc& f, const Trace& trace) {
  return decision_sites(f, trace).size();
}

std::string describe(const std::string& family, const Trace& trace) {
  std::string out = family;
  for (const Step& s : trace.steps) {
    const auto arrow = std::find(s.args.begin(), s.args.end(), "->");
    if (!s.primitive.starts_with("sample_") || s.results.empty() || arrow == s.args.end()) continue;
    std::string decided;
    for (auto word = arrow + 1; word != s.args.end(); ++word) decided += *word;
    out += " " + s.results[0] + "=";
    for (const char c : decided)
      if (c != ' ') out += c;
  }
  return out;
}

Trace legal_decisions(const PrimFunc& f, const Trace& trace, std::mt19937_64& rng) {
  constexpr int kMostDraws = 50;
  for (int draw = 0; draw < kMostDraws; ++draw) {
    const QuietRefusals quiet;
    try {
      if (auto legal = if_legal(f, sample_decisions(f, trace, rng))) return *legal;
    } catch (const ScheduleError&) {
    }
  }
  const Trace refused = sample_decisions(f, trace, rng);
  apply(f, refused);  // says why
  return refused;
}

std::vector<IllegalChoice> illegal_choices(const PrimFunc& f, const Trace& open) {
  std::vector<IllegalChoice> out;
  std::mt19937_64 rng(1);
  const QuietRefusals quiet;
  Trace trace;
  try {
    trace = legal_decisions(f, open, rng);
  } catch (const ScheduleError&) {
    return {};  // no value is legal, which the search says
  }
  const std::vector<DecisionSite> sites = decision_sites(f, trace);
  for (size_t i = 0; i < sites.size(); ++i) {
    const Step& step = trace.steps[sites[i].step];
    if (step.primitive != "sample_choice") continue;
    for (const std::string& value : sites[i].candidates) {
      std::vector<std::vector<std::string>> decisions(sites.size());
      decisions[i] = {value};
      try {
        apply(f, with_decisions(trace, decisions));
      } catch (const ScheduleError& e) {
        out.push_back({open.steps[sites[i].step].loc, step.results.empty() ? "" : step.results[0], value,
                       e.diagnostic().message});
      }
    }
  }
  return out;
}

std::optional<Trace> mutate(const PrimFunc& f, const Trace& trace, std::mt19937_64& rng) {
  if (decision_sites(f, trace).empty()) return std::nullopt;
  const QuietRefusals quiet;
  try {
    Trace changed = mutate_decision(f, trace, rng);
    while (rng() % 3 == 0) changed = mutate_decision(f, changed, rng);
    return if_legal(f, changed);
  } catch (const ScheduleError&) {
    return std::nullopt;
  }
}

std::optional<Trace> crossover(const PrimFunc& f, const Trace& a, const Trace& b, std::mt19937_64& rng) {
  const std::vector<DecisionSite> mine = decision_sites(f, a), theirs = decision_sites(f, b);
  if (mine.empty() || !same_space(a, b)) return std::nullopt;
  std::vector<std::vector<std::string>> decisions;
  for (size_t i = 0; i < mine.size(); ++i) decisions.push_back((rng() % 2 ? mine : theirs)[i].decision);
  return if_legal(f, with_decisions(a, decisions));
}

}  // namespace nestor
