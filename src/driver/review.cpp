// An independent check of a schedule: by the proof, or by the interpreter if the proof can't decide. If sizes
// are open and the proof can't decide for all of them, by either at a few sizes.
#include <algorithm>
#include <array>
#include <random>

#include "nestor/driver.h"
#include "nestor/flops.h"
#include "nestor/interpret.h"
#include "nestor/nest_file.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"

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

// What couldn't be proved for all sizes is proved, or interpreted, for some, in the order of the dimensions.
ScheduleReview at_given_sizes(const PrimFunc& before, const PrimFunc& after, const ProofOptions& options,
                              const std::vector<std::vector<int64_t>>& tried, ScheduleReview out) {
  std::string all;
  for (const std::vector<int64_t>& sizes : tried) {
    VarMap values, of_after;
    std::string at;
    for (size_t i = 0; i < before.dims.size(); ++i) {
      values[before.dims[i]] = of_after[after.dims[i]] = Expr(sizes[i]);
      at += (i ? ", " : "") + before.dims[i]->name + "=" + std::to_string(sizes[i]);
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
  out.agrees = !tried.empty();
  out.interpreted = tried.empty() ? "no sizes were found to try" : "right at the sizes tried: " + all;
  return out;
}

std::vector<std::vector<int64_t>> few_sizes(size_t dims) {
  constexpr std::array<std::array<int64_t, 2>, 4> kSizes = {{{1, 1}, {7, 5}, {16, 24}, {33, 18}}};
  std::vector<std::vector<int64_t>> out;
  for (const auto& sizes : kSizes) {
    out.emplace_back();
    for (size_t i = 0; i < dims; ++i) out.back().push_back(sizes[i % sizes.size()]);
  }
  return out;
}

// Small ones of which all conditions hold.
std::vector<std::vector<int64_t>> possible_sizes(const std::vector<Var>& dims,
                                                 const std::vector<Expr>& conditions) {
  constexpr std::array<int64_t, 12> kSizes = {1, 2, 3, 5, 7, 8, 12, 16, 24, 32, 48, 64};
  constexpr int kDrawn = 3000;
  constexpr size_t kTried = 4;
  std::mt19937_64 rng(1);
  std::vector<std::vector<int64_t>> out;
  for (int draw = 0; draw < kDrawn && out.size() < kTried; ++draw) {
    VarMap values;
    std::vector<int64_t> sizes;
    for (const Var& d : dims) {
      sizes.push_back(kSizes[rng() % kSizes.size()]);
      values[d] = Expr(sizes.back());
    }
    const bool hold = std::all_of(conditions.begin(), conditions.end(), [&](const Expr& c) {
      return is_const_int(simplify(substitute(c, values)), 1);
    });
    if (hold) out.push_back(std::move(sizes));
  }
  return out;
}

}  // namespace

ScheduleReview review_schedule(const PrimFunc& before, const PrimFunc& after, const ProofOptions& options) {
  ScheduleReview out;
  out.proof = verify_schedule(before, after, options);
  out.wrong = out.proof.verdict == Verdict::wrong;
  if (out.proof.verdict != Verdict::unproved) return out;
  if (!before.dims.empty())
    return at_given_sizes(before, after, options, few_sizes(before.dims.size()), std::move(out));
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

ScheduleReview review_possible_sizes(const PrimFunc& before, const PrimFunc& after,
                                     const std::vector<Expr>& conditions) {
  ScheduleReview out = review_schedule(before, after);
  std::vector<Expr> about;
  for (const Expr& c : conditions) {
    bool known = true;
    for_each_expr(c, [&](const Expr& e) {
      const auto* size = e.as<VarRef>();
      known = known &&
              (!size || std::find(before.dims.begin(), before.dims.end(), size->var) != before.dims.end());
    });
    if (known) about.push_back(c);
  }
  if (out.proof.verdict != Verdict::wrong || about.empty()) return out;
  out.proof.verdict = Verdict::unproved;
  out.proof.reason += ", if the model's sizes could be any";
  out.wrong = false;
  return at_given_sizes(before, after, {}, possible_sizes(before.dims, about), std::move(out));
}

std::string describe(const ScheduleReview& r) {
  return describe(r.proof) + (r.interpreted.empty() ? "" : "\n  " + r.interpreted);
}

}  // namespace nestor
