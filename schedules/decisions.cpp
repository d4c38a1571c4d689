// Decisions of a trace: finding, drawing and changing them. A decision is the text behind `->` of a sample_*
// step, so a trace with other decisions is just another text. Which values are legal depends on the loops at
// that point of the replay.
#include <algorithm>

#include "nestor/error.h"
#include "schedules/primitive.h"

namespace nestor {

namespace {

using schedules::Decisions;

bool is_site(const Step& s) {
  return s.primitive == "sample_factors" || s.primitive == "sample_choice" ||
         s.primitive == "sample_location";
}

size_t decision_at(const Step& s) {
  for (size_t i = 0; i < s.args.size(); ++i)
    if (s.args[i] == "->") return i;
  return s.args.size();
}

std::vector<std::string> decision_of(const Step& s) {
  const size_t at = decision_at(s);
  if (at + 1 >= s.args.size()) return {};
  const std::string& w = s.args[at + 1];
  return w[0] == '[' ? schedules::list_items(w) : std::vector<std::string>{w};
}

void set_decision(Step& s, const std::vector<std::string>& d) {
  s.args.resize(decision_at(s));
  s.args.push_back("->");
  s.args.push_back(s.primitive == "sample_factors" ? "[" + schedules::join(d, ", ") + "]" : d.at(0));
  s.loc = SourceLoc();  // the line is no longer what the file says
}

DecisionSite site_of(const PrimFunc& f, const Step& step, size_t index, Decisions& decisions) {
  DecisionSite site;
  site.step = index;
  site.decision = decision_of(step);
  const schedules::StepContext ctx(f, step, *schedules::find_primitive(step.primitive), decisions);
  if (step.primitive == "sample_choice") {
    site.candidates = ctx.items(0);
    if (site.candidates.empty()) schedules::apply_step(f, step, decisions);  // says what is wrong
    return site;
  }
  if (step.primitive == "sample_location") {
    site.candidates = schedules::legal_locations(f, ctx.block(0), ctx.choice("by"));
    return site;
  }
  site.extent = schedules::extent_of(ctx.loop(0).stmt);
  const int64_t parts = ctx.int_option("parts").value_or(2);
  site.max = ctx.int_option("max").value_or(64);
  const bool few = parts >= 2 && parts <= static_cast<int64_t>(schedules::kMostParts);
  if (site.extent < 0 || !few || site.max < 1) schedules::apply_step(f, step, decisions);  // refuses it
  site.parts = static_cast<int>(parts);
  return site;
}

std::vector<std::string> first_choice(const DecisionSite& site) {
  if (!site.candidates.empty()) return {site.candidates[0]};
  std::vector<std::string> d(static_cast<size_t>(site.parts), "1");
  d[0] = std::to_string(std::max<int64_t>(site.extent, 1));
  return d;
}

// Would the step be accepted as it is?
bool fits(const PrimFunc& f, const Step& step, Decisions decisions) {
  const QuietRefusals quiet;
  try {
    schedules::apply_step(f, step, decisions);
    return true;
  } catch (const ScheduleError&) {
    return false;
  }
}

// Replays; at each site `decide` may change the step's decision.
template <class Decide>
Trace replay(const PrimFunc& f, const Trace& trace, const Decide& decide) {
  Trace out = trace;
  Decisions decisions;
  PrimFunc now = f;
  for (size_t i = 0; i < out.steps.size(); ++i) {
    Step& step = out.steps[i];
    if (is_site(step)) decide(now, step, site_of(now, step, i, decisions), decisions);
    now = schedules::apply_step(now, step, decisions);
  }
  return out;
}

}  // namespace

std::vector<DecisionSite> decision_sites(const PrimFunc& f, const Trace& trace) {
  std::vector<DecisionSite> sites;
  replay(f, trace, [&](const PrimFunc&, Step& step, const DecisionSite& site, const Decisions&) {
    sites.push_back(site);
    if (site.decision.empty()) set_decision(step, first_choice(site));
  });
  return sites;
}

Trace with_decisions(const Trace& trace, const std::vector<std::vector<std::string>>& decisions) {
  Trace out = trace;
  size_t site = 0;
  for (Step& s : out.steps) {
    if (!is_site(s)) continue;
    NESTOR_CHECK(site < decisions.size()) << decisions.size() << " decisions for more sites";
    if (!decisions[site].empty()) set_decision(s, decisions[site]);
    ++site;
  }
  NESTOR_CHECK(site == decisions.size()) << decisions.size() << " decisions for " << site << " sites";
  return out;
}

std::vector<std::string> draw_decision(const DecisionSite& site, std::mt19937_64& rng) {
  const auto below = [&](size_t n) { return static_cast<size_t>(rng() % n); };  // the same on every platform
  if (!site.candidates.empty()) return {site.candidates[below(site.candidates.size())]};
  const int64_t extent = std::max<int64_t>(site.extent, 1);
  std::vector<int64_t> factors(static_cast<size_t>(site.parts), 1);
  int64_t product = 1;
  for (size_t i = factors.size() - 1; i > 0; --i) {
    std::vector<int64_t> even, ragged;
    for (int64_t f = 1; f <= site.max && product * f <= extent; ++f) {
      const int64_t covered = ceil_div(extent, product * f) * product * f;
      if (covered == extent)
        even.push_back(f);
      else if (covered - extent <= extent / 4)
        ragged.push_back(f);
    }
    // A prime extent has no divisors worth the name.
    const bool prefer_even = even.size() > 1 && (ragged.empty() || below(4) != 0);
    std::vector<int64_t>& pool = prefer_even || ragged.empty() ? even : ragged;
    factors[i] = pool.empty() ? 1 : pool[below(pool.size())];
    product *= factors[i];
  }
  factors[0] = ceil_div(extent, product);
  std::vector<std::string> out;
  for (int64_t f : factors) out.push_back(std::to_string(f));
  return out;
}

Trace sample_decisions(const PrimFunc& f, const Trace& trace, std::mt19937_64& rng, bool all) {
  return replay(f, trace, [&](const PrimFunc&, Step& step, const DecisionSite& site, const Decisions&) {
    if (all || site.decision.empty()) set_decision(step, draw_decision(site, rng));
  });
}

Trace mutate_decision(const PrimFunc& f, const Trace& trace, std::mt19937_64& rng) {
  const std::vector<DecisionSite> sites = decision_sites(f, trace);
  if (sites.empty()) return trace;
  const size_t chosen = sites[rng() % sites.size()].step;
  return replay(f, trace,
                [&](const PrimFunc& now, Step& step, const DecisionSite& site, const Decisions& decisions) {
                  if (site.step == chosen) {
                    std::vector<std::string> next = draw_decision(site, rng);
                    for (int tries = 0; tries < 16 && next == site.decision; ++tries)
                      next = draw_decision(site, rng);
                    set_decision(step, next);
                  } else if (site.decision.empty() || !fits(now, step, decisions)) {
                    set_decision(step, draw_decision(site, rng));
                  }
                });
}

}  // namespace nestor
