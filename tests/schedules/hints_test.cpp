// What a refusal offers is accepted: every line of a hint that reads as a step is taken instead of the step
// that was refused, of golden errors and of random steps; after a refusal of lowering, in addition.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.h"
#include "golden.h"
#include "nestor/check.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "schedules/primitive.h"
#include "tests/fuzz/equivalence.h"
#include "tests/fuzz/functions.h"
#include "tests/fuzz/proposals.h"
#include "tests/fuzz/random_trace.h"

using namespace nestor;

namespace {

std::vector<GoldenCase> all_cases() {
  const std::filesystem::path root = std::filesystem::path(NESTOR_SOURCE_DIR) / "tests/golden/schedules";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(root))
    if (entry.path().extension() == ".test") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<GoldenCase> out;
  for (const auto& path : files) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    for (GoldenCase& c : parse_golden(text.str(), path.filename().string())) out.push_back(std::move(c));
  }
  return out;
}

// A schedule up to the step that is refused.
struct Refused {
  Schedule before;
  std::string step, hint, message;
};
std::optional<Refused> refused(const GoldenCase& c) {
  Refused r{Schedule(parse_func(c.text("input"))), "", "", ""};
  for (const Step& step : parse_trace(c.text("schedule"), "steps").steps) {
    try {
      r.before.step(step);
    } catch (const ScheduleError& e) {
      r.step = print(step);
      r.hint = e.diagnostic().hint;
      r.message = e.diagnostic().message;
      return r;
    }
  }
  return std::nullopt;
}

// Written as the table says; plain words may begin with a primitive's name too.
bool is_step(const PrimFunc& f, const std::string& line) {
  try {
    const Step step = parse_step(line);
    const schedules::Primitive* row = schedules::find_primitive(step.primitive);
    schedules::Decisions decisions;
    if (row) schedules::StepContext(f, step, *row, decisions);
    return row != nullptr;
  } catch (const UserError&) {
    return false;
  }
}

std::vector<std::string> steps_of(const PrimFunc& f, const std::string& hint) {
  std::vector<std::string> out;
  std::istringstream lines(hint);
  for (std::string line; std::getline(lines, line);)
    if (is_step(f, line)) out.push_back(line);
  return out;
}

}  // namespace

TEST_CASE("every hint that reads as a step is accepted in place of the refused one") {
  int refusals = 0, with_steps = 0;
  std::string without;
  for (const GoldenCase& c : all_cases()) {
    const auto r = refused(c);
    if (!r) continue;
    ++refusals;
    INFO(c.file << ": " << c.name << "\n" << r->step);
    const std::vector<std::string> steps = steps_of(r->before.func(), r->hint);
    with_steps += !steps.empty();
    if (steps.empty()) without += c.file + ": " + c.name + "\n";
    for (const std::string& line : steps) {
      INFO("the hint " << line);
      CHECK(line != r->step);
      Schedule s = r->before;
      CHECK_NOTHROW(s(line));
      check_well_formed(s.func());
    }
  }
  INFO(with_steps << " of " << refusals << " refusals offer a step; these don't:\n" << without);
  CHECK(50 * with_steps >= 49 * refusals);
}

TEST_CASE("hints of random refused steps are accepted in their place") {
  int refusals = 0, with_steps = 0;
  std::mt19937_64 rng(31);
  for (int index = 0; index < fuzz_function_count(); ++index) {
    const FuzzFunction f = make_function(index, draw_sizes(index % 2, rng));
    TraceCounts counts;
    const Schedule s = random_schedule(f.func, rng, counts, {4, true, true, {}});
    const std::vector<std::string> blocks = block_names(s.func());
    for (const std::string& primitive : proposed_primitives()) {
      const std::string line = blocks.empty() ? "" : propose(s, primitive, blocks[0], index % 3 == 0, rng);
      if (line.empty()) continue;
      std::string hint;
      try {
        Schedule tried = s;
        tried(line);
        continue;
      } catch (const ScheduleError& e) {
        hint = e.diagnostic().hint;
      }
      ++refusals;
      const std::vector<std::string> steps = steps_of(s.func(), hint);
      with_steps += !steps.empty();
      if (steps.empty()) continue;
      INFO(print(s.func()) << "\nrefused: " << line << "\nhint: " << steps[0]);
      CHECK(steps[0] != line);
      Schedule other = s;
      CHECK_NOTHROW(other(steps[0]));
      check_well_formed(other.func());
    }
  }
  INFO(with_steps << " of " << refusals << " refusals offer a step");
  CHECK(refusals > 500);
  CHECK(5 * with_steps >= 4 * refusals);
}

TEST_CASE("hints of what can't be lowered are accepted steps, after which it is another matter") {
  int refusals = 0;
  std::mt19937_64 rng(7);
  for (int index = 0; index < 4 * fuzz_function_count(); ++index) {
    const bool gpu = index % 2;
    const FuzzFunction f = make_function(index / 4, draw_sizes(index % 3 == 0, rng));
    TraceCounts counts;
    const Schedule s = random_schedule(f.func, rng, counts, {12, !gpu, gpu, {}});
    Target target;
    target.kind = gpu ? TargetKind::cuda : TargetKind::cpu;
    try {
      lower(s.func(), target);
    } catch (const ScheduleError& refused) {
      ++refusals;
      const Diagnostic& d = refused.diagnostic();
      INFO(print(s.func()) << "\n" << refused.what());
      CHECK(d.hint != "");
      for (const std::string& line : steps_of(s.func(), d.hint)) {
        Schedule more = s;
        CHECK_NOTHROW(more(line));
        try {
          lower(more.func(), target);
        } catch (const ScheduleError& again) {
          CHECK(again.diagnostic().message != d.message);
        }
      }
    }
  }
  CHECK(refusals > 20);
}

TEST_CASE("where nobody reads them, refusals are short") {
  std::optional<Refused> r;
  for (const GoldenCase& c : all_cases())
    if (!r) r = refused(c);
  REQUIRE(r.has_value());
  const QuietRefusals quiet;
  try {
    apply(r->before.func(), parse_step(r->step));
    FAIL("not refused");
  } catch (const ScheduleError& e) {
    CHECK(e.diagnostic().message == r->message);
    CHECK(e.diagnostic().hint == "");
    CHECK(std::string(e.what()).find("here:") == std::string::npos);
  }
}
