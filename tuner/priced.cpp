// The start and the default schedule are the first candidates. Then the cheaper of two candidates that were
// drawn before has a decision changed, half of the time, or all decisions are drawn anew (tournament
// selection).
#include "tuner/priced.h"

#include <random>
#include <set>

#include "nestor/device.h"
#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/gpu_cost.h"
#include "nestor/library.h"
#include "nestor/passes.h"

namespace nestor {

namespace {

class PricedSearch {
 public:
  PricedSearch(const PrimFunc& f, const PricedOptions& options)
      : f_(f), options_(options), rng_(options.seed) {}

  PricedResult run(const Trace& start) {
    result_.start = price_of(start);
    take(start);
    take(default_schedule(f_, options_.target));
    // Draws that repeat what was priced don't count, but a small space ends.
    for (int64_t draws = 0; result_.priced + result_.refused < options_.trials && draws < 4 * options_.trials;
         ++draws) {
      if (pool_.empty() || (options_.stop && options_.stop())) break;
      const QuietRefusals quiet;
      try {
        const Trace& parent = tournament();
        take(rng_() % 2 ? mutate_decision(f_, parent, rng_) : sample_decisions(f_, parent, rng_, true));
      } catch (const ScheduleError&) {
        ++result_.refused;
      }
    }
    return std::move(result_);
  }

 private:
  struct Candidate {
    Trace trace;
    double cost = 0;
  };

  double price_of(const Trace& trace) const {
    return price_gpu(lower(apply(f_, trace), options_.target), options_.target).total;
  }
  std::optional<double> priced(const Trace& trace) const {
    try {
      return price_of(trace);
    } catch (const UserError&) {
      return std::nullopt;
    }
  }

  const Trace& tournament() {
    const Candidate &a = pool_[rng_() % pool_.size()], &b = pool_[rng_() % pool_.size()];
    return (a.cost <= b.cost ? a : b).trace;
  }

  void take(const Trace& trace) {
    if (!seen_.insert(print(trace)).second) return;
    const auto cost = priced(trace);
    if (!cost) {
      ++result_.refused;
      return;
    }
    ++result_.priced;
    if (result_.best > 0 && *cost >= result_.best) {
      pool_.push_back({trace, *cost});
      return;
    }
    if (!agrees(trace)) return;
    pool_.push_back({trace, *cost});
    result_.best = *cost;
    result_.trace = trace;
  }

  bool agrees(const Trace& trace) {
    ++result_.emulated;
    CompiledModel alone;
    alone.target = options_.target;
    try {
      alone.funcs.push_back(compile_function(f_, {trace, "a candidate"}, options_.target));
      const Device device(alone, true);
      for (const OutputCheck& c : check_function(alone.funcs[0], Against::oracle, options_.target, device))
        if (!c.comparison.ok()) {
          result_.wrong.push_back(describe(c.comparison, c.name, c.want));
          return false;
        }
    } catch (const UserError& e) {
      result_.wrong.push_back(e.what());
      return false;
    }
    return true;
  }

  const PrimFunc& f_;
  const PricedOptions& options_;
  std::mt19937_64 rng_;
  std::set<std::string> seen_;
  std::vector<Candidate> pool_;
  PricedResult result_;
};

}  // namespace

PricedResult tune_by_price(const PrimFunc& f, const Trace& start, const PricedOptions& options) {
  return PricedSearch(f, options).run(start);
}

}  // namespace nestor
