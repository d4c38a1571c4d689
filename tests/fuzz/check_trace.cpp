#include "tests/fuzz/check_trace.h"

#include <algorithm>
#include <optional>

#include "nestor/check.h"
#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/start_before_loops.h"
#include "nestor/walk.h"
#include "tests/fuzz/equivalence.h"
#include "tests/fuzz/tensorize_plan.h"

namespace nestor {

namespace {

bool has_zero(const std::vector<int64_t>& dims) {
  return std::find(dims.begin(), dims.end(), 0) != dims.end();
}

// At a size of 0 sums have nothing to add: there they start before their loops, as in models. Nothing where
// they can't.
std::optional<PrimFunc> as_run(const PrimFunc& f, const std::vector<int64_t>& dims) {
  if (!has_zero(dims)) return at_sizes(f, dims);
  try {
    const QuietRefusals quiet;
    Trace starts;
    return at_sizes(start_before_loops(f, starts), dims);
  } catch (const ScheduleError&) {
    return std::nullopt;
  }
}

// Not of a function that reads elements which aren't there, or has some around nothing (padding), which
// schedules needn't compute.
bool is_for(const PrimFunc& f, const std::vector<int64_t>& dims, uint64_t seed) {
  const auto run = as_run(f, dims);
  if (!run || !has_zero(dims)) return run.has_value();
  const auto known = declarations(at_sizes(f, dims));
  for (const auto& [buffer, decl] : declarations(f)) {
    bool named = false, empty = false;
    for (size_t d = 0; d < dims.size(); ++d)
      for (const Expr& e : decl.shape) named = named || (dims[d] == 0 && uses_var(e, f.dims[d]));
    for (const auto& [other, numbers] : known)
      if (other->name == buffer->name)
        for (const Expr& e : numbers.shape) empty = empty || is_const_int(e, 0);
    if (named && !empty) return false;
  }
  try {
    run_original(*run, seed);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The first step after which the result differs, for the report.
std::string first_bad_step(const Subject& subject, const Trace& trace, const std::vector<Tensor>& expected,
                           const std::vector<int64_t>& dims) {
  Schedule s(subject.func);
  for (const Step& step : trace.steps) {
    s.step(step);
    const auto f = as_run(s.func(), dims);
    if (!f) continue;
    const Agreement a = compare_runs(*f, expected, subject.seed, subject.tolerance);
    if (!a.same)
      return "after `" + print(step) + "`" + print_sizes(s.func(), dims) + ": " + a.why + "\n" +
             print(s.func());
  }
  return "no single step: the last comparison passes now";
}

}  // namespace

Subject Subject::at(const std::vector<int64_t>& dims) const {
  return {at_sizes(func, dims), tolerance, seed};
}

Subject start_sums(const Subject& subject, PrimFunc& scheduled) {
  Subject out = subject;
  std::erase_if(out.sizes, [&](const auto& dims) { return !is_for(subject.func, dims, subject.seed); });
  if (std::none_of(out.sizes.begin(), out.sizes.end(), has_zero)) return out;
  if (subject.seed % 2 == 0) try {
      const QuietRefusals quiet;
      Trace starts;
      PrimFunc started = start_before_loops(scheduled, starts);
      out.func = start_before_loops(subject.func, starts);
      scheduled = std::move(started);
      return out;
    } catch (const ScheduleError&) {
    }
  std::erase_if(out.sizes, has_zero);
  return out;
}

std::string print_sizes(const PrimFunc& f, const std::vector<int64_t>& dims) {
  std::string out;
  for (size_t i = 0; i < dims.size(); ++i)
    out += (i ? ", " : " at ") + f.dims[i]->name + "=" + std::to_string(dims[i]);
  return out;
}

Finding check_trace(const Subject& subject, const Schedule& s) {
  try {
    check_well_formed(s.func());
  } catch (const Error& e) {
    return {"ill-formed", e.what()};
  }
  for (const std::vector<int64_t>& dims : subject.sizes) {
    const auto original = as_run(subject.func, dims), scheduled = as_run(s.func(), dims);
    if (!scheduled || !is_for(subject.func, dims, subject.seed)) continue;
    const std::vector<Tensor> expected = run_original(*original, subject.seed);
    if (!compare_runs(*scheduled, expected, subject.seed, subject.tolerance).same)
      return {"result", first_bad_step(subject, s.trace(), expected, dims)};
  }
  if (!structural_equal(apply(subject.func, parse_trace(print(s.trace()))), s.func(), true))
    return {"replay", "the printed trace replays to another function"};
  return {};
}

Finding replay(const std::vector<std::string>& steps, Schedule& s) {
  read_fuzz_instructions();
  for (const std::string& step : steps) {
    try {
      s.try_step(step);
    } catch (const std::exception& e) {
      return {"step", step + "\n" + e.what()};
    }
  }
  return {};
}

Finding check_all(const Subject& subject, const Schedule& s, const std::string& road, const Roads& roads) {
  const Finding v = check_trace(subject, s);
  const auto it = roads.find(road);
  if (v.failed() || it == roads.end()) return v;
  const auto way = it->second();
  const Road::Entry entry = way->add(subject, s.func(), 0);
  if (!entry.taken) return entry.verdict;
  return way->run().at(0).second;
}

}  // namespace nestor
