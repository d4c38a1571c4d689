#include "tuner/final.h"

#include <algorithm>

namespace nestor {

namespace {

constexpr size_t kRounds = 3;  // among those that may meet the default
constexpr size_t kPairs = 7;
constexpr size_t kFewestPairs = 5;
constexpr double kGain = 0.98;  // by luck alone, 8 in 128 win so many pairs

double middle(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

constexpr int kAttempts = 3;  // at one of them: a failure says nothing of the others

struct Field {
  WorkerPool& pool;
  int worker;
  const std::function<bool()>& stop;
};

// Times by contestant and round; 0 where one failed or wasn't measured.
std::vector<std::vector<double>> in_turn(const std::vector<Job>& contestants, size_t rounds,
                                         const Field& field) {
  std::vector<Job> jobs;
  for (size_t round = 0; round < rounds; ++round)
    for (const Job& j : contestants) {
      jobs.push_back(j);
      jobs.back().id = static_cast<int64_t>(jobs.size());
      jobs.back().cutoff_ns = 0;
      jobs.back().only_on = field.worker;
    }
  std::vector<std::vector<double>> times(contestants.size(), std::vector<double>(rounds, 0));
  RunControl control;
  control.stop = control.cut = field.stop;
  for (int attempt = 0; attempt < kAttempts && !jobs.empty() && !field.stop(); ++attempt)
    for (const Record& r : field.pool.run(
             jobs, [](Record&) {}, control)) {
      if (r.outcome != Outcome::ok) continue;
      const auto i = static_cast<size_t>(r.id - 1);
      times[i % contestants.size()][i / contestants.size()] = r.median_ns;
      std::erase_if(jobs, [&](const Job& j) { return j.id == r.id; });
    }
  return times;
}

}  // namespace

size_t jobs_of_final(size_t contestants) {
  if (contestants < 2) return 0;
  return 2 * kPairs + (contestants > 2 ? kRounds * (contestants - 1) : 0);
}

Final decide(const std::vector<Job>& contestants, WorkerPool& pool, int worker,
             const std::function<bool()>& stop) {
  const Field field{pool, worker, stop};
  Final out;
  size_t finalist = 1;
  if (contestants.size() > 2) {
    const auto times = in_turn({contestants.begin() + 1, contestants.end()}, kRounds, field);
    double least = 0;
    for (size_t i = 0; i < times.size(); ++i) {
      if (std::count(times[i].begin(), times[i].end(), 0) > 0) continue;
      const double time = middle(times[i]);
      if (least == 0 || time < least) {
        least = time;
        finalist = i + 1;
      }
    }
  }
  const auto times = in_turn({contestants[0], contestants[finalist]}, kPairs, field);
  std::vector<double> default_ns, other_ns, ratios;
  size_t wins = 0;
  for (size_t round = 0; round < kPairs; ++round) {
    if (times[0][round] == 0 || times[1][round] == 0) continue;
    default_ns.push_back(times[0][round]);
    other_ns.push_back(times[1][round]);
    ratios.push_back(default_ns.back() / other_ns.back());
    wins += other_ns.back() < default_ns.back();
  }
  if (other_ns.empty()) return out;
  out.compared = true;
  out.default_ns = out.winner_ns = middle(default_ns);
  const size_t pairs = other_ns.size();
  std::sort(ratios.begin(), ratios.end());
  out.noise = (ratios[pairs - 1 - pairs / 4] - ratios[pairs / 4]) / 2 / ratios[pairs / 2];
  if (pairs >= kFewestPairs && wins + 1 >= pairs && middle(other_ns) < kGain * out.default_ns) {
    out.winner = finalist;
    out.winner_ns = middle(other_ns);
  }
  return out;
}

}  // namespace nestor
