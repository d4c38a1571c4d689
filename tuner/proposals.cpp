// Evolution over plans and decisions. A plan is drawn anew, or is a neighbour of one that was fast, or of two
// of its family each field from one; a trace without a plan has its decisions changed. Of many such the
// cheapest by their price are measured, and a few at random, since the price doesn't know everything.
#include "tuner/proposals.h"

#include <algorithm>

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
                     const std::vector<std::string>* families)
    : func_(f), decisions_(std::move(decisions)), target_(target), threads_(threads) {
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

std::vector<Candidate> Proposals::next(const std::vector<Record>& parents, std::set<std::string>& seen,
                                       size_t count, std::mt19937_64& rng) const {
  std::vector<Candidate> found;
  std::set<std::string> texts;
  for (size_t tries = 0; tries < count * kMostTries && found.size() < count * kOfEach; ++tries)
    if (auto c = propose(parents, rng); c && !seen.count(c->text) && texts.insert(c->text).second)
      found.push_back(std::move(*c));
  // A few of any price stand before the cheapest.
  const size_t any = std::min(found.size(), count / kAtRandom);
  std::stable_sort(found.begin() + static_cast<std::ptrdiff_t>(any), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost.total < b.cost.total; });
  std::vector<Candidate> taken;
  for (Candidate& c : found) {
    if (taken.size() == count) break;
    seen.insert(c.text);
    if (can_be_lowered(c)) taken.push_back(std::move(c));
  }
  return taken;
}

}  // namespace nestor
