#include "tuner/task.h"

#include <algorithm>
#include <random>
#include <tuple>

#include "nestor/library.h"
#include "nestor/print.h"
#include "schedules/sched_file.h"
#include "tuner/job.h"
#include "tuner/space.h"
#include "tuner/starts.h"

namespace nestor {

namespace {

constexpr int kMostAttempts = 3;
constexpr double kShareOfTime = 8;  // a candidate that hangs takes one in so many of the time at most
constexpr double kLeastTimeout = 1;

// Storing the outputs at 128 bytes a cycle of 8 GHz for each core: no processor is near that.
double least_time(const PrimFunc& f, int threads) {
  double bytes = 0;
  for (const Param& p : f.params) {
    if (p.role != Role::out) continue;
    double size = bytes_of(p.decl.buffer->type.dtype);
    for (const Expr& extent : p.decl.shape) size *= static_cast<double>(as_int(extent).value_or(0));
    bytes += size;
  }
  constexpr double kBytesNs = 128 * 8;
  return bytes / (kBytesNs * threads);
}

// Whatever the order in which they came.
bool is_faster(const Record& a, const Record& b) {
  return std::tie(a.median_ns, a.trace) < std::tie(b.median_ns, b.trace);
}

}  // namespace

Task::Task(const TuneTask& wanted, const Database& db, const TuneOptions& options, const Budget& budget)
    : func(wanted.func), calls(wanted.calls) {
  text = print(func);
  key = workload_key(func);
  name = key + " " + record_target(options.target) + " " + std::to_string(options.threads);
  start = default_schedule(func, options.target);
  start_text = print(start);
  least_ns = least_time(func, options.threads);
  timeout_s = std::min(options.workers.timeout_s, std::max(kLeastTimeout, options.seconds / kShareOfTime));
  const auto is_wanted = [&](const char* family) {
    if (options.families.empty()) return options.own.empty();
    return std::count(options.families.begin(), options.families.end(), family) > 0;
  };
  std::seed_seq seeds{options.seed};
  std::mt19937_64 rng(seeds);
  std::vector<Decisions> decisions = own_decisions(func, options, rng);
  const auto measure_first = [&](const Trace& trace, const std::string& plan) {
    own.push_back(trace);
    plans[print(trace)] = plan;
  };
  for (const Decisions& d : decisions)
    measure_first(d.trace, d.family.empty() ? "" : describe(d.family, d.trace));
  if (is_wanted("default")) decisions.push_back({"", start});
  const bool every_family = options.families.empty() && options.own.empty();
  proposals = std::make_unique<Proposals>(func, std::move(decisions), options.target, options.threads,
                                          every_family ? nullptr : &options.families);
  for (const Candidate& c : from_nearest(func, db, *proposals, options)) measure_first(c.trace, c.plan);
  result.func = func.name;
  result.outcomes.assign(kOutcomes, 0);
  resume(db, options, budget);
}

// Records are input: the fastest must be usable. Failures were events of the runs that met them.
void Task::resume(const Database& db, const TuneOptions& options, const Budget& budget) {
  int of_this_seed = 0;
  std::vector<Record> right;
  for (Record& r : db.records(key, record_target(options.target), options.threads)) {
    of_this_seed += r.seed == options.seed;
    if (r.outcome != Outcome::ok || !seen.insert(r.trace).second) continue;
    ++result.resumed;
    right.push_back(std::move(r));
  }
  batches = (of_this_seed + options.batch - 1) / options.batch;
  std::stable_sort(right.begin(), right.end(), is_faster);
  size_t unusable = 0;
  for (Record& r : right) {
    const bool is_start = r.trace == start_text;
    if (!is_start && (population.size() >= kParents || unusable >= kMostUnusable || budget.is_cut()))
      continue;
    const double seconds = std::clamp(budget.left() / kShareOfTime, 0.1, 20.0);
    if (const std::string why = why_unusable(r, func, &options.target, seconds); !why.empty()) {
      ++unusable;
      if (options.warn) options.warn(is_not_used(r, db.path(), func, why));
      if (is_start) seen.erase(r.trace);
      continue;
    }
    if (is_start) {
      result.default_ns = r.median_ns;
      constexpr double kCalls = 6;  // at least, of a candidate that is measured
      slowest_s = kCalls * r.median_ns / 1e9 + r.compile_ms / 1e3;
    }
    plans[r.trace] = r.plan;
    population.push_back(std::move(r));
  }
}

double Task::weight() const {
  const double best = population.empty() ? result.default_ns : population.front().median_ns;
  return exhausted && again.empty() ? -1 : calls * std::max(best, 1.0) / (1 + batches);
}

void Task::put(const Record& r, int worker) {
  population.insert(std::upper_bound(population.begin(), population.end(), r, is_faster), r);
  if (worker != kNobody) measured_by[r.trace] = worker;
  if (r.trace == start_text) result.default_ns = r.median_ns;
}

void Task::learn(const Record& r, int worker) {
  if (worker != kNobody) ++result.outcomes[static_cast<size_t>(r.outcome)];
  if (r.outcome == Outcome::ok) {
    failed.erase(r.trace);
    return put(r, worker);
  }
  const bool met = failed.count(r.trace) > 0;
  Failed& f = failed[r.trace];
  const bool same_again = met && f.outcome == r.outcome;
  f = {r.trace, r.outcome, met ? f.times + 1 : 1, worker};
  // What the compiler refuses it refuses again; what failed twice in one way, or three times, is the
  // candidate's fault.
  const bool refused = r.outcome == Outcome::illegal || r.outcome == Outcome::compile_error;
  if (!refused && !same_again && f.times < kMostAttempts) again.push_back(r.trace);
}

void Task::forget(const Record& r) {
  std::erase_if(population, [&](const Record& p) { return p.trace == r.trace; });
  measured_by.erase(r.trace);
  if (r.trace == start_text) result.default_ns = 0;
}

const Record* Task::find(const std::string& trace) const {
  for (const Record& r : population)
    if (r.trace == trace) return &r;
  return nullptr;
}

std::vector<std::string> Task::next_batch(size_t count, uint64_t seed) {
  std::vector<std::string> batch;
  const size_t old = std::min(count, again.size());
  batch.assign(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(old));
  again.erase(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(old));
  if (batch.size() == count) return batch;
  std::seed_seq seeds{seed, static_cast<uint64_t>(std::stoull(key.substr(0, 8), nullptr, 16)),
                      static_cast<uint64_t>(batches)};
  std::mt19937_64 rng(seeds);
  const std::vector<Record> parents(
      population.begin(),
      population.begin() + static_cast<std::ptrdiff_t>(std::min(kParents, population.size())));
  for (const Candidate& c : proposals->next(parents, seen, count - batch.size(), rng)) {
    batch.push_back(c.text);
    plans[c.text] = c.plan;
  }
  ++batches;
  exhausted = batch.empty();
  return batch;
}

std::vector<std::string> Task::contestants() const {
  constexpr double kAsFast = 1.05;
  constexpr size_t kMost = 4;
  std::vector<std::string> out = {start_text};
  for (const Record& r : population) {
    if (r.median_ns > kAsFast * population.front().median_ns || out.size() == kMost) break;
    if (r.trace == start_text) {
      if (out.size() == 1) break;  // the default was the fastest
      continue;
    }
    out.push_back(r.trace);
  }
  return out;
}

void Task::note_best(double elapsed_s) {
  auto& improvements = result.improvements;
  if (!population.empty() && (improvements.empty() || best_ns() < improvements.back().second))
    improvements.emplace_back(elapsed_s, best_ns());
}

}  // namespace nestor
