// Chooses what to measure next: plans of the families that match, and neighbours of fast plans.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "nestor/cost.h"
#include "nestor/plan.h"
#include "nestor/tune.h"

namespace nestor {

struct Candidate {
  Trace trace;
  std::string text;  // of the trace
  std::string plan;  // what it was made from; empty: decisions of a trace
  Cost cost;
  PrimFunc scheduled;
};

// A trace whose decisions are a space, and the family that it is of; empty: the default's, or a user's own.
struct Decisions {
  std::string family;
  Trace trace;
};

class Proposals {
 public:
  // `families`: of plans, all where it is null.
  Proposals(const PrimFunc& f, std::vector<Decisions> decisions, const Target& target, int threads,
            const std::vector<std::string>* families);

  // Whether there is anything to choose.
  bool empty() const;
  // Up to `count` candidates whose traces aren't in `seen`, the cheapest of many; `parents` are right, the
  // fastest first.
  std::vector<Candidate> next(const std::vector<Record>& parents, std::set<std::string>& seen, size_t count,
                              std::mt19937_64& rng) const;

  // What a plan of another function would be for this one; nothing where none of its families has it.
  std::optional<Candidate> carried_over(const std::string& plan) const;

 private:
  std::optional<Candidate> propose(const std::vector<Record>& parents, std::mt19937_64& rng) const;
  std::optional<Candidate> of_plan(const PlanSpace& space, const SchedulePlan& plan) const;
  bool can_be_lowered(const Candidate& c) const;
  std::optional<Candidate> of_trace(const std::optional<Trace>& trace) const;
  std::optional<Candidate> of_decisions(const std::string& family, const std::optional<Trace>& trace) const;

  const PrimFunc& func_;
  std::vector<Decisions> decisions_;
  const Target& target_;
  int threads_;
  std::vector<std::unique_ptr<PlanSpace>> spaces_;
};

}  // namespace nestor
