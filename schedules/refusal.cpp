// Refusals: how a requirement that is broken becomes an error, and how a test switches a requirement off.
#include <algorithm>

#include "nestor/print.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

std::vector<Waiver> waivers_in_force;

[[noreturn]] void throw_refusal(const std::string& message, const SourceLoc& at, const PrimFunc& f,
                                const std::string& why, const std::vector<Stmt>& marked,
                                const std::string& hint) {
  Diagnostic d;
  d.message = message;
  d.loc = at;
  if (!why.empty()) d.notes.push_back(why);
  std::vector<const void*> nodes;
  for (const Stmt& s : marked) nodes.push_back(s.get());
  if (!nodes.empty()) d.notes.push_back("here:\n" + print_marked(f, nodes));
  d.hint = hint;
  throw ScheduleError(std::move(d));
}

}  // namespace

void waive(const std::vector<Waiver>& waivers) {
  waivers_in_force = waivers;
}
bool is_waived(const std::string& primitive, int requirement) {
  const auto repeats_d = [](const Waiver& w) {
    return w.requirement == 2 &&
           (w.primitive == "parallel" || w.primitive == "vectorize" || w.primitive == "bind");
  };
  return std::any_of(waivers_in_force.begin(), waivers_in_force.end(), [&](const Waiver& w) {
    if (requirement == 0) return w.requirement == 0 || repeats_d(w);
    return w.requirement == requirement && w.primitive == primitive;
  });
}

void StepContext::refuse(int requirement, int at, const std::string& why, const std::vector<Stmt>& marked,
                         const std::string& hint) const {
  const SourceLoc loc = at == kPrimitive ? loc_of_primitive(step_)
                        : at == kResults ? loc_of_result(step_, 0)
                                         : loc_of_row_arg(static_cast<size_t>(at));
  refuse(requirement, loc, why, marked, hint);
}
void StepContext::refuse(int requirement, const SourceLoc& at, const std::string& why,
                         const std::vector<Stmt>& marked, const std::string& hint) const {
  NESTOR_CHECK(requirement >= 1 && static_cast<size_t>(requirement) <= row_.requirements.size()) << row_.name;
  throw_refusal("`" + print(step_) + "` breaks requirement " + std::to_string(requirement) + " of " +
                    row_.name + ": " + row_.requirements[static_cast<size_t>(requirement) - 1].text,
                at, func_, why, marked, hint);
}

void StepContext::forbid(int requirement, int at, const std::string& why, const std::vector<Stmt>& marked,
                         const std::string& hint) const {
  NESTOR_CHECK(row_.requirements.at(static_cast<size_t>(requirement) - 1).semantic)
      << row_.name << " " << requirement;
  if (!is_waived(row_.name, requirement)) refuse(requirement, at, why, marked, hint);
}
void StepContext::refuse_common(char requirement, const SourceLoc& at, const std::string& why,
                                const std::string& hint, const std::vector<Stmt>& marked) const {
  static const std::map<char, std::string> texts = {
      {'A', "a step is written as its primitive's usage says"},
      {'B', "the blocks, loops and buffers that a step names exist"},
      {'C', "the names that a step makes are new"},
      {'D', "iterations of parallel, vectorized and thread loops don't conflict"},
      {'E', "a block inside of another one moves with it"}};
  throw_refusal(
      "`" + print(step_) + "` breaks requirement " + requirement + " of every step: " + texts.at(requirement),
      at, func_, why, marked, hint);
}

}  // namespace nestor::schedules
