// Plans: schedules as plain data. A family knows which functions it has plans for, the possible values of
// each field, and the trace that follows from a plan. The tuner changes plans. The database stores traces,
// together with their plans.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "nestor/schedule.h"
#include "nestor/target.h"

namespace nestor {

// A choice that a plan makes: "T.j.tile" is one of "1", "2", "4" ...
struct PlanField {
  std::string name;
  std::vector<std::string> values;  // two at least
};

// As many values as the space has fields, in their order.
struct SchedulePlan {
  std::string family;
  std::vector<std::string> values;
  bool operator==(const SchedulePlan&) const = default;
};

// The plans that one family has for one function on one target.
class PlanSpace {
 public:
  virtual ~PlanSpace() = default;
  virtual const std::string& family() const = 0;
  virtual const std::vector<PlanField>& fields() const = 0;
  // Why the plan can't be good, though it may be legal: its tile doesn't fit the registers, its code would
  // explode. Empty where nothing speaks against it.
  virtual std::string misfit(const SchedulePlan& plan) const = 0;
  // Throws ScheduleError where a step is refused.
  virtual Trace emit(const SchedulePlan& plan) const = 0;

  // Any plan that fits; none where 1,000 draws found none.
  std::optional<SchedulePlan> draw(std::mt19937_64& rng) const;
  // The plan with a field or a few changed; it fits.
  std::optional<SchedulePlan> change(const SchedulePlan& plan, std::mt19937_64& rng) const;
  // Each field as one of the two has it; it fits.
  std::optional<SchedulePlan> cross(const SchedulePlan& a, const SchedulePlan& b, std::mt19937_64& rng) const;

  // "any T.lane=j T.width=4 ...", one line. What parses again may be another version's: values that this
  // space doesn't have make it nothing.
  std::string print(const SchedulePlan& plan) const;
  std::optional<SchedulePlan> parse(const std::string& text) const;
  // A plan of another function as this one has it: of each field the value that is nearest, its first where
  // the other had none. It fits.
  std::optional<SchedulePlan> carry_over(const std::string& text) const;
};

// Of every family that matches the function: the family `any` matches all with plain blocks and known
// extents. CPU targets.
std::vector<std::unique_ptr<PlanSpace>> plan_spaces(const PrimFunc& f, const Target& target);

// A family that a user wrote: a schedule file over names, whose first lines say what a function must look
// like and bind the names to its blocks, loops and buffers. The file's name is the family's.
//
//   when block C reduction k >= 64, spatial i j, reads A B
//   when target lanes >= 8
//   rows = sample_choice [2, 4, 6, 8] -> 4
//   i0 i1 = split C.i [_, rows]
//   ...
class ScheduleTemplate {
 public:
  // UserError with file and line where that isn't what the text is.
  ScheduleTemplate(const std::string& path, const std::string& text);
  const std::string& name() const;
  const std::string& path() const;
  // Its steps for the function, in the function's names; else `why_not` says what doesn't match.
  std::optional<Trace> match(const PrimFunc& f, const Target& target, std::string* why_not = nullptr) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};
// Of each *.sched in the folder, by their names; UserError where there is none.
std::vector<ScheduleTemplate> read_templates(const std::string& folder);

}  // namespace nestor
