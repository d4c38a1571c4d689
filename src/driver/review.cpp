// An independent check of a schedule: by the proof, or by the interpreter if the proof can't decide. If sizes
// are open and the proof can't decide for all of them, by either at a few sizes.
#include <algorithm>
#include <array>

#include "nestor/driver.h"
#include "nestor/flops.h"
#include "nestor/interpret.h"
#include "nestor/nest_file.h"

namespace nestor {

namespace {

constexpr double kLargest = 5e6;  // operations that are still interpreted
constexpr int kRuns = 3;

double work_of(const PrimFunc& f, const std::vector<Tensor>& args) {
  double elements = 0;
  for (const Tensor& t : args) elements += static_cast<double>(t.size());
  return std::max(flops_of(f), elements);
}

// "" where both functions give the same outputs, else what differs.
std::string difference(const PrimFunc& before, const PrimFunc& after, uint64_t seed) {
  std::vector<Tensor> want = random_args(before, seed), got = random_args(after, seed);
  interpret(before, want);
  InterpretOptions options;
  options.check_races = true;
  options.order = LoopOrder::random;
  options.seed = seed;
  try {
    interpret(after, got, options);
  } catch (const UserError& e) {
    return e.diagnostic().message;
  }
  for (size_t i = 0; i < want.size(); ++i) {
    if (before.params[i].role != Role::out) continue;
    const Comparison c = compare(got[i], want[i]);
    if (!c.ok()) return describe(c, before.params[i].decl.buffer->name, want[i]);
  }
  return "";
}

// What couldn't be proved for all sizes is proved, or interpreted, for some.
ScheduleReview at_given_sizes(const PrimFunc& before, const PrimFunc& after, const ProofOptions& options,
                              ScheduleReview out) {
  constexpr std::array<std::array<int64_t, 2>, 4> kSizes = {{{1, 1}, {7, 5}, {16, 24}, {33, 18}}};
  std::string all;
  for (const auto& sizes : kSizes) {
    VarMap values, of_after;
    std::string at;
    for (size_t i = 0; i < before.dims.size(); ++i) {
      values[before.dims[i]] = of_after[after.dims[i]] = Expr(sizes[i % sizes.size()]);
      at += (i ? ", " : "") + before.dims[i]->name + "=" + std::to_string(sizes[i % sizes.size()]);
    }
    const ScheduleReview there =
        review_schedule(with_dims(before, values), with_dims(after, of_after), options);
    if (!there.is_right()) {
      out.wrong = there.wrong;
      out.interpreted = "with " + at + ": " + describe(there);
      return out;
    }
    all += (all.empty() ? "" : "; ") + at;
  }
  out.agrees = true;
  out.interpreted = "right at the sizes tried: " + all;
  return out;
}

}  // namespace

ScheduleReview review_schedule(const PrimFunc& before, const PrimFunc& after, const ProofOptions& options) {
  ScheduleReview out;
  out.proof = verify_schedule(before, after, options);
  out.wrong = out.proof.verdict == Verdict::wrong;
  if (out.proof.verdict != Verdict::unproved) return out;
  if (!before.dims.empty()) return at_given_sizes(before, after, options, std::move(out));
  const double work = work_of(before, random_args(before, 1));
  if (work > kLargest) {
    out.interpreted = "not interpreted: " + std::to_string(static_cast<int64_t>(work)) +
                      " operations are too many, and sizes can't be shrunk under a schedule";
    return out;
  }
  for (uint64_t seed = 1; seed <= kRuns; ++seed)
    if (const std::string why = difference(before, after, seed); !why.empty()) {
      out.wrong = true;
      out.interpreted = "the interpreter on random inputs: " + why;
      return out;
    }
  out.agrees = true;
  out.interpreted = "the interpreter gives the same on " + std::to_string(kRuns) + " random inputs";
  return out;
}

std::string describe(const ScheduleReview& r) {
  return describe(r.proof) + (r.interpreted.empty() ? "" : "\n  " + r.interpreted);
}

}  // namespace nestor
