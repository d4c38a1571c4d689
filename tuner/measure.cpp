// One candidate: scheduled, compiled, compared with the oracle, timed. Runs in a worker process.
//
// The oracle is the unscheduled function compiled in f64, with a bound on what rounding may do (verify.h); it
// is computed once per function and kept, since a worker gets many candidates of the same function in a row.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <list>
#include <map>
#include <thread>

#include "nestor/cost.h"
#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/interpret.h"
#include "nestor/library.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/tune.h"
#include "nestor/unwanted.h"
#include "nestor/verify.h"
#include "schedules/sched_file.h"
#include "tuner/job.h"

namespace nestor {

namespace {

using Clock = std::chrono::steady_clock;
double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// A function's seeded inputs (outputs not filled) and what it should make of them.
struct Reference {
  std::vector<Tensor> args;
  Oracle oracle;
};

const Reference& reference_of(const PrimFunc& f, uint64_t seed, const Target& target) {
  static std::map<std::pair<std::string, uint64_t>, Reference> kept;
  if (kept.size() > 4) kept.clear();
  const auto key = std::make_pair(workload_key(f), seed);
  if (const auto it = kept.find(key); it != kept.end()) return it->second;
  Reference r;
  r.args = random_args(f, seed);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < f.params.size(); ++i)
    if (f.params[i].role != Role::out) inputs.push_back(r.args[i]);
  r.oracle = make_oracle(f, inputs, target);
  return kept.emplace(key, std::move(r)).first->second;
}

// The largest |difference| over its allowance, and what is wrong if something is.
double compare_outputs(const PrimFunc& f, const Oracle& oracle, const std::vector<Tensor>& args,
                       std::string* wrong) {
  double worst = 0;
  size_t next = 0;
  for (size_t i = 0; i < f.params.size(); ++i) {
    if (f.params[i].role != Role::out) continue;
    const size_t k = next++;
    const Comparison c = compare(args[i], oracle, k);
    if (c.allowed > 0) worst = std::max(worst, std::abs(c.got - c.want) / c.allowed);
    if (!c.ok() && wrong->empty()) *wrong = describe(c, f.params[i].decl.buffer->name, oracle.wanted[k]);
  }
  return worst;
}

// Ranks between which the median of all runs lies in 19 of 20 cases (order statistics of a binomial).
std::pair<double, double> bounds_of_median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  const double half = 0.98 * std::sqrt(n);
  const auto at = [&](double rank) { return samples[static_cast<size_t>(std::clamp(rank, 0.0, n - 1))]; };
  return {at(std::floor(n / 2 - half)), at(std::ceil(n / 2 + half))};
}

}  // namespace

// Ends early where the candidate is clearly slower than what it is held against, goes on to kLonger times as
// long where the two can't be told apart.
std::vector<double> time_calls(const std::function<void()>& call, double seconds, double cutoff_ns) {
  constexpr double kSampleNs = 1e5;  // a sample is a group of calls of about this long
  constexpr double kClearly = 1.1, kLonger = 3;
  constexpr size_t kFewest = 3, kMost = 1000, kToTell = 5;
  Clock::time_point start = Clock::now();
  call();
  const double once = std::max(ns_since(start), 20.0);
  if (cutoff_ns > 0 && once > 3 * cutoff_ns) {  // surely slow, even if this call was cold
    start = Clock::now();
    call();
    const double again = ns_since(start);
    if (again > 3 * cutoff_ns) return {again};
  }
  const int group = std::clamp(static_cast<int>(kSampleNs / once), 1, 10000);
  std::vector<double> samples;
  size_t next_look = kToTell;
  const Clock::time_point begin = Clock::now();
  for (bool apart = cutoff_ns <= 0; samples.size() < kMost;) {
    start = Clock::now();
    check_wanted();
    for (int i = 0; i < group; ++i) call();
    samples.push_back(ns_since(start) / group);
    const double took = ns_since(begin) / 1e9;
    if (samples.size() < kFewest && took < 10 * seconds) continue;
    if (took >= kLonger * seconds || (apart && took >= seconds)) break;
    if (cutoff_ns <= 0 || samples.size() < next_look) continue;
    next_look = samples.size() * 5 / 4 + 1;
    const auto [low, high] = bounds_of_median(samples);
    if (low > kClearly * cutoff_ns) break;
    apart = low > cutoff_ns || high < cutoff_ns;
  }
  return samples;
}

namespace {

// Faults for tests: NESTOR_FAULT="crash:3" makes this worker's third job crash; also hang, wrong.
bool fault(const char* kind) {
  static const std::string spec = std::getenv("NESTOR_FAULT") ? std::getenv("NESTOR_FAULT") : "";
  static std::map<std::string, int> seen;
  const size_t colon = spec.find(':');
  return colon != std::string::npos && spec.substr(0, colon) == kind &&
         ++seen[kind] == std::atoi(spec.c_str() + colon + 1);
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

struct Compiled {
  std::string func, trace, target;
  CompiledFunction function;
  std::shared_ptr<JitModule> code;
};

// The last few are kept: at the end of a search some candidates are measured in turn, many times.
const Compiled& compiled_for(const PrimFunc& f, const Job& job, const Target& target) {
  constexpr size_t kKept = 5;
  static std::list<Compiled> kept;
  for (const Compiled& c : kept)
    if (c.trace == job.trace && c.func == job.func && c.target == job.target) return c;
  Compiled c{job.func, job.trace, job.target,
             compile_function(f, ScheduleChoice{schedules::parse_primitives(job.trace, "trace"), "candidate"},
                              target),
             nullptr};
  c.code = JitModule::compile({c.function.lowered}, target);
  if (kept.size() == kKept) kept.pop_front();
  return kept.emplace_back(std::move(c));
}

void measure_into(Record& r, const Job& job) {
  const PrimFunc f = parse_func(job.func, "job");
  const Target target = parse_target(job.target);
  r.workload = workload_key(f);
  r.target = record_target(target);
  const Reference& reference = reference_of(f, job.seed, target);

  const Clock::time_point start = Clock::now();
  const Compiled* compiled = nullptr;
  try {
    compiled = &compiled_for(f, job, target);
  } catch (const UserError& e) {
    r.outcome = Outcome::illegal;
    r.detail = e.diagnostic().message;
    return;
  }
  FunctionRunner runner(compiled->function, target, job.threads, compiled->code);
  r.compile_ms = ns_since(start) / 1e6;

  std::vector<Tensor> args = reference.args;
  for (size_t i = 0; i < args.size(); ++i)
    if (f.params[i].role == Role::out) args[i] = args[i].clone();
  runner.bind(args);
  if (fault("crash")) raise(SIGSEGV);
  if (fault("hang")) pause();
  runner.run();
  if (fault("wrong"))
    for (size_t i = 0; i < args.size(); ++i)
      if (f.params[i].role == Role::out && args[i].size() > 0) args[i].set(0, args[i].get(0) + 1e3);
  std::string wrong;
  r.error = compare_outputs(f, reference.oracle, args, &wrong);
  if (!wrong.empty()) {
    r.outcome = Outcome::wrong_result;
    r.detail = wrong;
    return;
  }
  r.samples_ns = time_calls([&] { runner.run(); }, job.seconds, job.cutoff_ns);
  r.median_ns = median(r.samples_ns);
}

}  // namespace

Record measure(const Job& job) {
  Record r = record_of(job);
  r.version = NESTOR_VERSION;
  r.host = host_name();
  try {
    measure_into(r, job);
  } catch (const std::exception& e) {
    r.outcome = Outcome::compile_error;
    r.detail = std::string(e.what()).substr(0, 500);
  }
  return r;
}

Record measure_on_null_device(const Job& job) {
  Record r = record_of(job);
  r.version = NESTOR_VERSION;
  r.host = "null device";
  try {
    const PrimFunc f = parse_func(job.func, "job");
    const Target target = parse_target(job.target);
    const PrimFunc scheduled = apply(f, schedules::parse_primitives(job.trace, "trace"));
    const double ns = price(scheduled, target, job.threads).total / machine_of(target).gigahertz;
    r.samples_ns.assign(3, std::max(ns, 1.0));
    r.median_ns = r.samples_ns[0];
    std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(r.median_ns)));
  } catch (const UserError& e) {
    r.outcome = Outcome::illegal;
    r.detail = e.diagnostic().message;
  }
  return r;
}

int serve_worker(std::istream& in, std::ostream& out, Record (*answer)(const Job&)) {
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) out << answer_of(answer(job_from_json(line))) << std::endl;
  return 0;
}

}  // namespace nestor
