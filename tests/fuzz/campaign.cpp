// The cases are divided into jobs. Each job is done by a child process, which reports the case it is at. If a
// child dies, its job is repeated without that case; if that was a whole batch in a compiler, case by case.
#include "tests/fuzz/campaign.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <iostream>
#include <regex>
#include <set>
#include <sstream>

#include "nestor/error.h"
#include "nestor/print.h"
#include "tests/fuzz/child.h"

namespace nestor {

namespace {

constexpr int64_t kJob = 400;
constexpr double kSilence = 300;  // seconds

struct Job {
  int64_t first = 0, last = 0;
  std::set<int64_t> skip;
  bool alone = false;  // batches of one
};

std::vector<std::string> lines_of(const Trace& trace) {
  std::vector<std::string> out;
  for (const Step& s : trace.steps) out.push_back(print(s));
  return out;
}

void say_failure(const Report& report, int64_t number, const Draft& d, const Finding& v,
                 const std::vector<std::string>& steps) {
  std::vector<std::string> fields = {"fail", std::to_string(number), d.road, v.kind, v.what};
  fields.insert(fields.end(), steps.begin(), steps.end());
  report.line(fields);
}

void say_counts(const Report& report, const TraceCounts& counts) {
  for (const auto& [name, row] : counts.rows) {
    std::vector<std::string> fields = {"count", name, std::to_string(row.accepted)};
    for (const auto& [requirement, n] : row.refused) {
      fields.push_back(requirement);
      fields.push_back(std::to_string(n));
    }
    report.line(fields);
  }
}

// In the child.
class Worker {
 public:
  Worker(const CampaignOptions& o, const Job& job, const Roads& roads, const Report& report)
      : o_(o), job_(job), makers_(roads), report_(report) {}

  void run() {
    for (int64_t i = job_.first; i < job_.last; ++i)
      if (!job_.skip.count(i)) one(i);
    for (const auto& [name, road] : roads_) run_batch(name);
    say_counts(report_, counts_);
    report_.line({"end"});
  }

 private:
  void one(int64_t number) {
    report_.line({"case", std::to_string(number)});
    Draft d = draft_case(o_, number);
    std::string last;
    d.options.on_try = [&](const std::string& line) { last = line; };
    std::optional<Schedule> s;
    try {
      s = random_schedule(d.function.func, d.rng, counts_, d.options);
    } catch (const std::exception& e) {
      return say_failure(report_, number, d, {"step", last + "\n" + e.what()}, {});
    }
    const std::vector<std::string> steps = lines_of(s->trace());
    report_.line({"done", std::to_string(number), d.function.name, std::to_string(steps.size()),
                  d.ragged ? "1" : "0"});
    const Subject subject{d.function.func, d.function.tolerance, o_.seed + static_cast<uint64_t>(number),
                          d.sizes};
    const Finding v = check_trace(subject, *s);
    if (v.failed()) return say_failure(report_, number, d, v, steps);
    const auto maker = makers_.find(d.road);
    if (maker == makers_.end()) return;
    auto& road = roads_[d.road];
    if (!road) road = maker->second();
    const Road::Entry entry = road->add(subject, s->func(), number);
    if (entry.verdict.failed()) return say_failure(report_, number, d, entry.verdict, steps);
    if (!entry.taken) return report_.line({"refused", d.road, entry.why});
    waiting_[number] = steps;
    for (const Step& step : s->trace().steps)
      if (step.primitive == "tensorize") report_.line({"instruction", d.road, step.args[1]});
    if (job_.alone) run_batch(d.road);
  }

  void run_batch(const std::string& name) {
    if (!job_.alone) report_.line({"batch", name});
    for (const auto& [number, verdict] : roads_.at(name)->run()) {
      report_.line({"ran", name});
      if (verdict.failed())
        say_failure(report_, number, draft_case(o_, number), verdict, waiting_.at(number));
    }
  }

  const CampaignOptions& o_;
  const Job& job_;
  const Roads& makers_;
  const Report& report_;
  TraceCounts counts_;
  std::map<std::string, std::unique_ptr<Road>> roads_;
  std::map<int64_t, std::vector<std::string>> waiting_;
};

// "loop `i` is bound to x inside of loop `k`" -> "loop . is bound to x inside of loop .", so that reasons can
// be counted.
std::string without_names(const std::string& message) {
  static const std::regex names(
      "`[^`]*`|buffer [A-Za-z0-9_]+|index [^ ,]+|program[^:]*:|f[0-9]+[_0-9]*:? |[0-9]+");
  return std::regex_replace(message, names, ".");
}

// In the parent: a job on its way, and what its child has said so far.
struct Running {
  Job job;
  std::unique_ptr<Child> child;
  CampaignResult said;
  int64_t at = -1;  // the case it is at; -1: in a batch
  bool ended = false;
  std::string threw;
  std::chrono::steady_clock::time_point heard;

  void hear(const std::vector<std::string>& f) {
    heard = std::chrono::steady_clock::now();
    if (f[0] == "case") at = std::stoll(f[1]);
    if (f[0] == "batch") at = -1;
    if (f[0] == "end") ended = true;
    if (f[0] == "threw") threw = f[1];
    if (f[0] == "ran") ++said.roads[f[1]].ran;
    if (f[0] == "instruction") ++said.roads[f[1]].instructions[f[2]];
    if (f[0] == "refused") {
      ++said.roads[f[1]].refused;
      ++said.roads[f[1]].reasons[without_names(f[2])];
    }
    if (f[0] == "done") {
      ++said.traces;
      ++said.functions[f[2]];
      said.lengths.push_back(std::stoll(f[3]));
      said.ragged += f[4] == "1";
    }
    if (f[0] == "fail")
      said.failures.push_back({std::stoll(f[1]), f[2], f[3], f[4], {f.begin() + 5, f.end()}});
    if (f[0] == "count") {
      TraceCounts::Row& row = said.counts.rows[f[1]];
      row.accepted += std::stoll(f[2]);
      for (size_t i = 3; i + 1 < f.size(); i += 2) row.refused[f[i]] += std::stoll(f[i + 1]);
    }
  }
};

// The steps of a case whose process died in one of them or after them.
std::vector<std::string> steps_before_death(const CampaignOptions& o, int64_t number) {
  std::vector<std::string> tried, steps;
  const auto work = [&](const Report& report) {
    Draft d = draft_case(o, number);
    TraceCounts counts;
    d.options.on_try = [&](const std::string& line) { report.line({"try", line}); };
    for (const std::string& line :
         lines_of(random_schedule(d.function.func, d.rng, counts, d.options).trace()))
      report.line({"step", line});
  };
  run_child(work, kSilence, [&](const std::vector<std::string>& f) {
    if (f[0] == "try") tried.push_back(f[1]);
    if (f[0] == "step") steps.push_back(f[1]);
  });
  return steps.empty() ? tried : steps;  // replaying leaves out what was refused
}

void merge(CampaignResult& all, const CampaignResult& part) {
  all.traces += part.traces;
  all.ragged += part.ragged;
  all.lengths.insert(all.lengths.end(), part.lengths.begin(), part.lengths.end());
  all.counts.add(part.counts);
  for (const auto& [name, n] : part.functions) all.functions[name] += n;
  for (const auto& [name, r] : part.roads) {
    all.roads[name].ran += r.ran;
    all.roads[name].refused += r.refused;
    for (const auto& [instruction, n] : r.instructions) all.roads[name].instructions[instruction] += n;
    for (const auto& [why, n] : r.reasons) all.roads[name].reasons[why] += n;
  }
  all.failures.insert(all.failures.end(), part.failures.begin(), part.failures.end());
}

class Campaign {
 public:
  Campaign(const CampaignOptions& options, const Roads& roads) : o_(options), roads_(roads) {
    for (int64_t i = 0; i < o_.traces; i += kJob)
      jobs_.push_back({i, std::min(i + kJob, o_.traces), {}, false});
  }

  CampaignResult run() {
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    while (!jobs_.empty() || !running_.empty()) {
      const bool stop =
          seconds() > o_.minutes * 60 || static_cast<int64_t>(all_.failures.size()) >= o_.most_failures;
      if (stop) jobs_.clear();
      while (!jobs_.empty() && static_cast<int>(running_.size()) < o_.processes) start();
      listen();
      if (o_.progress) progress(seconds());
    }
    std::sort(all_.lengths.begin(), all_.lengths.end());
    std::sort(all_.failures.begin(), all_.failures.end(),
              [](const Failure& a, const Failure& b) { return a.number < b.number; });
    all_.seconds = seconds();
    return std::move(all_);
  }

 private:
  void start() {
    auto r = std::make_unique<Running>();
    r->job = jobs_.front();
    jobs_.pop_front();
    r->heard = std::chrono::steady_clock::now();
    const Job job = r->job;
    r->child =
        std::make_unique<Child>([&, job](const Report& report) { Worker(o_, job, roads_, report).run(); });
    running_.push_back(std::move(r));
  }

  void listen() {
    std::vector<pollfd> fds;
    for (const auto& r : running_) fds.push_back({r->child->fd(), POLLIN, 0});
    poll(fds.data(), fds.size(), 1000);
    for (size_t i = fds.size(); i-- > 0;) {
      Running& r = *running_[i];
      const double silent = std::chrono::duration<double>(std::chrono::steady_clock::now() - r.heard).count();
      const bool hung = fds[i].revents == 0 && silent > kSilence;
      if (hung) r.child->kill();
      if (!hung && fds[i].revents == 0) continue;
      if (!hung && r.child->read_lines([&](const std::vector<std::string>& f) { r.hear(f); })) continue;
      finish(r, hung);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void finish(Running& r, bool hung) {
    std::string death = r.child->death();
    if (hung) death = "silent for " + std::to_string(static_cast<int>(kSilence)) + " s";
    if (!r.threw.empty()) death = "threw: " + r.threw;
    if (r.ended) return merge(all_, r.said);
    Job again = r.job;
    if (r.at < 0) {
      NESTOR_CHECK(!again.alone) << death;
      again.alone = true;
    } else {
      again.skip.insert(r.at);
      all_.failures.push_back(
          {r.at, draft_case(o_, r.at).road, "crash", death, steps_before_death(o_, r.at)});
    }
    jobs_.push_front(again);
  }

  void progress(double seconds) {
    if (all_.traces == said_) return;
    said_ = all_.traces;
    std::cerr << "  " << all_.traces << " of " << o_.traces << " traces, " << all_.failures.size()
              << " failures, " << static_cast<int>(seconds) << " s\n";
  }

  const CampaignOptions& o_;
  const Roads& roads_;
  std::deque<Job> jobs_;
  std::vector<std::unique_ptr<Running>> running_;
  CampaignResult all_;
  int64_t said_ = 0;
};

}  // namespace

Draft draft_case(const CampaignOptions& o, int64_t number) {
  Draft d;
  d.rng.seed(o.seed * 1000003 + static_cast<uint64_t>(number));
  const int64_t kinds = fuzz_function_count(), round = number / kinds;
  d.ragged = round % 2 == 0;
  const int index = static_cast<int>(number % kinds);
  const Sizes sizes = draw_sizes(d.ragged, d.rng);
  const std::string open = o.open ? draw_open(index, d.rng) : "";
  if (!open.empty()) d.sizes = draw_open_sizes(open, sizes, d.rng);
  d.function = make_function(index, sizes, open);
  const int64_t part = (number + 3 * round) % 20;
  if (!open.empty())  // kernels of CUDA need all sizes
    d.road = part < 12 ? "cpu" : part < 18 ? "proof" : "";
  else
    d.road = part < 7 ? "cpu" : part < 10 ? "cuda" : part < 13 ? "proof" : "";
  d.options.cpu = d.road != "cuda";
  d.options.gpu = d.road != "cpu";
  d.options.prefer = o.prefer;
  d.options.wanted = 5 + static_cast<int>(d.rng() % 9);
  return d;
}

CampaignResult run_campaign(const CampaignOptions& options, const Roads& roads) {
  return Campaign(options, roads).run();
}

std::string print(const CampaignResult& r) {
  std::ostringstream out;
  out << r.traces << " random traces over " << r.functions.size() << " functions, " << r.ragged
      << " at ragged sizes, median " << (r.lengths.empty() ? 0 : r.lengths[r.lengths.size() / 2])
      << " steps, " << static_cast<int>(r.seconds) << " s\n";
  for (const auto& [name, road] : r.roads) {
    out << road.ran << " went on to " << name << ", " << road.refused << " couldn't\n";
    if (!road.instructions.empty()) out << "  instructions:";
    for (const auto& [instruction, n] : road.instructions) out << " " << instruction << " " << n;
    if (!road.instructions.empty()) out << "\n";
    std::vector<std::pair<int64_t, std::string>> reasons;
    for (const auto& [why, n] : road.reasons) reasons.emplace_back(-n, why);
    std::sort(reasons.begin(), reasons.end());
    for (size_t i = 0; i < std::min<size_t>(5, reasons.size()); ++i)
      out << "  " << -reasons[i].first << ": " << reasons[i].second << "\n";
  }
  out << print(r.counts);
  return out.str();
}

}  // namespace nestor
