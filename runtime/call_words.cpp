#include "runtime/call_words.h"

#include <algorithm>

#include "runtime/artifact_rt.h"

namespace nestor {

namespace {

int64_t region_number(Region r) {
  switch (r) {
    case Region::input:
      return NESTOR_INPUT;
    case Region::output:
      return NESTOR_OUTPUT;
    case Region::arena:
      return NESTOR_ARENA;
    case Region::weights:
      return NESTOR_WEIGHTS;
    case Region::sizes:
      return NESTOR_NUMBERS;
    case Region::moving:
      return NESTOR_MOVING;
  }
  return 0;
}

}  // namespace

std::vector<int64_t> call_words(const Plan& plan) {
  static_assert(kCopy == NESTOR_CALL_COPY && kCheck == NESTOR_CALL_CHECK && kPoint == NESTOR_CALL_POINT &&
                kSkip == NESTOR_CALL_SKIP && kLoop == NESTOR_CALL_LOOP && kNext == NESTOR_CALL_NEXT &&
                kFound == NESTOR_CALL_FOUND);
  std::vector<int64_t> words, starts;
  std::vector<std::pair<size_t, int64_t>> targets;  // the words that they are, and calls
  for (const PlanCall& call : plan.calls) {
    starts.push_back(static_cast<int64_t>(words.size()));
    words.push_back(static_cast<int64_t>(call.args.size()) << 32 | static_cast<uint32_t>(call.kernel));
    for (const Place& p : call.args) words.push_back(p.at << NESTOR_REGION_BITS | region_number(p.region));
    if (call.kernel < 0 && call.kernel != kCheck)
      words.push_back(call.bytes_at < 0 ? call.bytes : -1 - call.bytes_at);
    if (!is_jump(call.kernel)) continue;
    targets.emplace_back(words.size(), call.target);
    words.push_back(0);
  }
  starts.push_back(static_cast<int64_t>(words.size()));
  for (const auto& [word, call] : targets) words[word] = starts[static_cast<size_t>(call)];
  return words;
}

int64_t most_args(const Plan& plan) {
  size_t most = 1;
  for (const PlanCall& call : plan.calls) most = std::max(most, call.args.size());
  return static_cast<int64_t>(most);
}

bool has_jumps(const Plan& plan) {
  return std::any_of(plan.calls.begin(), plan.calls.end(),
                     [](const PlanCall& call) { return call.kernel < kCheck; });
}

int64_t count_checks(const Plan& plan) {
  return std::count_if(plan.calls.begin(), plan.calls.end(),
                       [](const PlanCall& call) { return call.kernel == kCheck; });
}

std::vector<int64_t> bytes_of_all(const std::vector<PlanTensor>& tensors) {
  std::vector<int64_t> out;
  for (const PlanTensor& t : tensors) out.push_back(t.bytes());
  return out;
}

}  // namespace nestor
