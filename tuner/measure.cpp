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
#include <map>

#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/interpret.h"
#include "nestor/library.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/tune.h"
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

std::vector<double> time_runs(FunctionRunner& runner, double seconds, double cutoff_ns) {
  constexpr double kSampleNs = 1e5;  // a sample is a group of calls of about this long
  Clock::time_point start = Clock::now();
  runner.run();
  const double once = std::max(ns_since(start), 20.0);
  if (cutoff_ns > 0 &&
      once > 3 * cutoff_ns) {  // surely slow: three times the best, even if this call was cold
    start = Clock::now();
    runner.run();
    const double again = ns_since(start);
    if (again > 3 * cutoff_ns) return {again};
  }
  const int group = std::clamp(static_cast<int>(kSampleNs / once), 1, 10000);
  std::vector<double> samples;
  const Clock::time_point begin = Clock::now();
  while (samples.size() < 3 || (ns_since(begin) < seconds * 1e9 && samples.size() < 1000)) {
    start = Clock::now();
    for (int i = 0; i < group; ++i) runner.run();
    samples.push_back(ns_since(start) / group);
  }
  return samples;
}

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

void measure_into(Record& r, const Job& job) {
  const PrimFunc f = parse_func(job.func, "job");
  const Target target = parse_target(job.target);
  r.workload = workload_key(f);
  r.target = record_target(target);
  const Reference& reference = reference_of(f, job.seed, target);

  const Clock::time_point start = Clock::now();
  CompiledFunction compiled;
  try {
    compiled = compile_function(
        f, ScheduleChoice{schedules::parse_primitives(job.trace, "trace"), "candidate"}, target);
  } catch (const UserError& e) {
    r.outcome = Outcome::illegal;
    r.detail = e.diagnostic().message;
    return;
  }
  FunctionRunner runner(compiled, target, job.threads);
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
  r.samples_ns = time_runs(runner, job.seconds, job.cutoff_ns);
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

int serve_worker(std::istream& in, std::ostream& out) {
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) out << answer_of(measure(job_from_json(line))) << std::endl;
  return 0;
}

}  // namespace nestor
