#include "bench/cpu/threads.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "bench/cpu/apart.h"
#include "nestor/pinning.h"

namespace nestor::bench {

namespace {

using Times = std::vector<std::vector<double>>;  // of each contestant, by rounds

constexpr int kLeastRounds = 21;
constexpr double kGroup = 1000, kWarm = 4000;  // microseconds
constexpr double kQuiet = 0.95;                // of what as many cores could bring
constexpr int kSpells = 4;                     // at most, until it is quiet

// Of what it took in the third of all rounds in which it took the least.
double least_third(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  times.resize((times.size() + 2) / 3);
  return median_interval(std::move(times)).median;
}

// The third of the rounds in which the contestant took the least.
Times quiet_rounds(const Times& times, size_t contestant) {
  std::vector<size_t> rounds(times[contestant].size());
  std::iota(rounds.begin(), rounds.end(), size_t{0});
  std::sort(rounds.begin(), rounds.end(),
            [&](size_t a, size_t b) { return times[contestant][a] < times[contestant][b]; });
  rounds.resize((rounds.size() + 2) / 3);
  Times out(times.size());
  for (size_t c = 0; c < times.size(); ++c)
    for (const size_t r : rounds) out[c].push_back(times[c][r]);
  return out;
}

}  // namespace

Gain gain_of_threads(const Problem& p, const Ours& ours, const Settings& settings, Copy* copy) {
  const Ours one_thread = make_ours(p, settings, 1);
  std::optional<Apart> apart;
  if (!copy) apart.emplace(p, settings, cpus_for(settings.threads, parse_pinning(settings.pin)));
  enum { kOurs, kOne, kMachine, kCopyByOne };
  std::vector<std::function<void()>> contestants{
      [&] { ours.run(); },
      // On the same tensors: where they lie makes some per cent.
      [&] { one_thread.executor->run_raw(ours.inputs.data(), ours.outputs.data()); },
      [&] { copy ? copy->by_all() : apart->run(); },
  };
  if (copy) contestants.emplace_back([&] { copy->by_one(); });
  // By themselves, before a peer's threads spin into their turns. In a network kernels follow each other,
  // while here threads fall asleep in others' turns: the calls that wake them aren't timed.
  const size_t one_kernel = copy ? kCopyByOne : kOne;
  const int times_the_work = copy ? 1 : settings.threads;  // kernels apart do it as often
  Times times(contestants.size());
  Gain gain;
  for (int spell = 0; spell < kSpells; ++spell) {
    const Times more = time_rounds(contestants, settings.seconds * 4, kLeastRounds, kGroup, kWarm);
    for (size_t c = 0; c < more.size(); ++c) times[c].insert(times[c].end(), more[c].begin(), more[c].end());
    const Times quiet = quiet_rounds(times, kMachine);
    gain = {ratio(quiet[kOne], quiet[kOurs]), ratio(quiet[one_kernel], quiet[kMachine])};
    for (double* x : {&gain.machine.median, &gain.machine.low, &gain.machine.high}) *x *= times_the_work;
    // By the best of either, whatever a neighbour did to the rounds in which they met.
    const double bring = least_third(times[one_kernel]) / least_third(times[kMachine]) * times_the_work;
    if (bring >= kQuiet * settings.threads) break;
  }
  return gain;
}

}  // namespace nestor::bench
