#include "tests/fuzz/check_trace.h"

#include "nestor/check.h"
#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "tests/fuzz/equivalence.h"
#include "tests/fuzz/tensorize_plan.h"

namespace nestor {

namespace {

// The first step after which the result differs, for the report.
std::string first_bad_step(const Subject& subject, const Trace& trace, const std::vector<Tensor>& expected,
                           const std::vector<int64_t>& dims) {
  Schedule s(subject.func);
  for (const Step& step : trace.steps) {
    s.step(step);
    const Agreement a = compare_runs(at_sizes(s.func(), dims), expected, subject.seed, subject.tolerance);
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
    const std::vector<Tensor> expected = run_original(at_sizes(subject.func, dims), subject.seed);
    if (!compare_runs(at_sizes(s.func(), dims), expected, subject.seed, subject.tolerance).same)
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
