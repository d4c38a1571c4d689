// Evolution over plans and decisions. A plan is drawn anew, or is a neighbour of one that was fast, or of two
// of its family each field from one; a trace without a plan has its decisions changed. Of many such the
// cheapest are measured, by their price as it is corrected by what was measured, and a few at random, since
// the price doesn't know everything.
#include "tuner/proposals.h"

#include <algorithm>
#include <numeric>

#include "nestor/error.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "schedules/sched_file.h"
#include "tuner/space.h"

namespace nestor {

namespace {

constexpr size_t kOfEach = 8;       // proposals for one that is measured
constexpr size_t kAtRandom = 4;     // one in so many is taken whatever its price
constexpr size_t kMostTries = 40;   // for one proposal
constexpr double kMostCode = 3000;  // instructions written out: more take seconds to compile

}  // namespace

Proposals::Proposals(const PrimFunc& f, std::vector<Decisions> decisions, const Target& target, int threads,
                     const std::vector<std::string>* families, bool learns)
    : func_(f), decisions_(std::move(decisions)), target_(target), threads_(threads), learns_(learns) {
  std::erase_if(decisions_, [&](const Decisions& d) { return decisions_in(f, d.trace) == 0; });
  for (auto& space : plan_spaces(f, target)) {
    const bool wanted = !families || std::count(families->begin(), families->end(), space->family());
    if (wanted && !space->fields().empty()) spaces_.push_back(std::move(space));
  }
}

bool Proposals::empty() const {
  return decisions_.empty() && spaces_.empty();
}

std::optional<Candidate> Proposals::of_trace(const std::optional<Trace>& trace) const {
  if (!trace) return std::nullopt;
  const QuietRefusals quiet;
  try {
    PrimFunc scheduled = apply(func_, *trace);
    const Cost cost = price(scheduled, target_, threads_);
    return Candidate{*trace, nestor::print(*trace), "", cost, std::move(scheduled)};
  } catch (const ScheduleError&) {
    return std::nullopt;
  }
}

std::optional<Candidate> Proposals::of_plan(const PlanSpace& space, const SchedulePlan& plan) const {
  try {
    auto c = of_trace(space.emit(plan));
    if (!c || c->cost.code > kMostCode) return std::nullopt;
    c->plan = space.print(plan);
    return c;
  } catch (const ScheduleError&) {
    return std::nullopt;
  }
}

std::optional<Candidate> Proposals::of_decisions(const std::string& family,
                                                 const std::optional<Trace>& trace) const {
  auto c = of_trace(trace);
  if (c && !family.empty()) c->plan = describe(family, *trace);
  return c;
}

std::optional<Candidate> Proposals::carried_over(const std::string& plan) const {
  for (const auto& space : spaces_)
    if (const auto mine = space->carry_over(plan))
      if (auto c = of_plan(*space, *mine); c && can_be_lowered(*c)) return c;
  return std::nullopt;
}

// A worker would refuse it too, but only after it was asked.
bool Proposals::can_be_lowered(const Candidate& c) const {
  try {
    lower(c.scheduled, target_);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

std::optional<Candidate> Proposals::propose(const std::vector<Record>& parents, std::mt19937_64& rng) const {
  const auto parent = [&]() -> const Record& { return parents[rng() % parents.size()]; };
  const bool anew = parents.empty() || rng() % 4 == 0;
  if (!anew) {
    const Record& one = parent();
    for (const auto& space : spaces_) {
      const std::optional<SchedulePlan> a = space->parse(one.plan);
      if (!a) continue;
      const std::optional<SchedulePlan> b = rng() % 4 == 0 ? space->parse(parent().plan) : std::nullopt;
      const std::optional<SchedulePlan> made = b ? space->cross(*a, *b, rng) : space->change(*a, rng);
      return made ? of_plan(*space, *made) : std::nullopt;
    }
    const Trace trace = schedules::parse_primitives(one.trace, "record");
    for (const Decisions& d : decisions_) {
      if (!same_space(d.trace, trace)) continue;
      const auto another = [&] { return schedules::parse_primitives(parent().trace, "record"); };
      return of_decisions(
          d.family, rng() % 4 == 0 ? crossover(func_, trace, another(), rng) : mutate(func_, trace, rng));
    }
  }
  const size_t source = rng() % (spaces_.size() + decisions_.size());
  if (source >= spaces_.size()) {
    const Decisions& d = decisions_[source - spaces_.size()];
    return of_decisions(d.family, mutate(func_, d.trace, rng));
  }
  const std::optional<SchedulePlan> drawn = spaces_[source]->draw(rng);
  return drawn ? of_plan(*spaces_[source], *drawn) : std::nullopt;
}

void Proposals::learn(const Record& r) {
  if (!learns_) return;
  auto known = proposed_.find(r.trace);
  if (known == proposed_.end()) {
    const QuietRefusals quiet;
    try {
      const PrimFunc scheduled = apply(func_, schedules::parse_primitives(r.trace, "record"));
      known = proposed_.emplace(r.trace, price(scheduled, target_, threads_)).first;
    } catch (const UserError&) {
      return;
    }
  }
  correction_.learn(r.trace, known->second, r.median_ns);
}

// The first so many as they were found; then in turn the cheapest by the price as it is corrected, and by the
// price alone: what the correction hasn't seen yet it can't tell from what it has, and a search that asks it
// only stays where it began.
std::vector<size_t> Proposals::order_of(const std::vector<Candidate>& found, size_t as_found) const {
  std::vector<Cost> costs;
  for (const Candidate& c : found) costs.push_back(c.cost);
  const std::vector<double> corrected = correction_.order(costs);
  std::vector<size_t> by_price(found.size());
  std::iota(by_price.begin(), by_price.end(), 0);
  std::vector<size_t> by_correction = by_price;
  std::stable_sort(by_price.begin(), by_price.end(),
                   [&](size_t a, size_t b) { return costs[a].total < costs[b].total; });
  std::stable_sort(by_correction.begin(), by_correction.end(),
                   [&](size_t a, size_t b) { return corrected[a] < corrected[b]; });
  std::vector<size_t> out;
  std::vector<bool> is_out(found.size(), false);
  const auto put = [&](size_t i) {
    if (!is_out[i]) out.push_back(i);
    is_out[i] = true;
  };
  for (size_t i = 0; i < std::min(as_found, found.size()); ++i) put(i);
  for (size_t i = 0; i < found.size(); ++i) {
    put(by_correction[i]);
    put(by_price[i]);
  }
  return out;
}

std::vector<Candidate> Proposals::next(const std::vector<Record>& parents, std::set<std::string>& seen,
                                       size_t count, std::mt19937_64& rng) {
  std::vector<Candidate> found;
  std::set<std::string> texts;
  for (size_t tries = 0; tries < count * kMostTries && found.size() < count * kOfEach; ++tries)
    if (auto c = propose(parents, rng); c && !seen.count(c->text) && texts.insert(c->text).second)
      found.push_back(std::move(*c));
  std::vector<Candidate> taken;
  for (const size_t i : order_of(found, count / kAtRandom)) {
    if (taken.size() == count) break;
    seen.insert(found[i].text);
    if (!can_be_lowered(found[i])) continue;
    proposed_[found[i].text] = found[i].cost;
    taken.push_back(std::move(found[i]));
  }
  return taken;
}

}  // namespace nestor
