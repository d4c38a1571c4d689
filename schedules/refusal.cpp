// Refusals: how a requirement that is broken becomes an error, and how a test switches a requirement off.
#include <algorithm>
#include <sstream>

#include "nestor/print.h"
#include "schedules/access.h"
#include "schedules/primitive.h"
#include "schedules/suggest.h"

namespace nestor::schedules {

namespace {

std::vector<Waiver> waivers_in_force;

thread_local int quiet_scopes = 0;

// Plain words may begin with a primitive's name: "split so that ...".
bool is_step(const PrimFunc& f, const Decisions& decisions, const std::string& line) {
  try {
    const Step step = parse_step(line);
    const Primitive* row = find_primitive(step.primitive);
    Decisions copy = decisions;
    if (row) StepContext(f, step, *row, copy);
    return row != nullptr;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

const std::vector<CommonRequirement>& common_requirements() {
  static const std::vector<CommonRequirement> all = {
      {'A', "the step is written as its primitive's usage says"},
      {'B', "the blocks, loops and buffers that the step names exist"},
      {'C', "the names that the step makes are new"},
      {'D', semantic("iterations of parallel, vectorized and thread loops don't conflict")},
      {'E', "a block inside of another one moves with it"},
      {'F',
       "the result stays within limits: 256 nested loops and blocks, 1,000 operations in an index, 200,000 "
       "in all"},
      {'G', "the target can do what the step asks for"}};
  return all;
}

bool quiet_refusals() {
  return quiet_scopes > 0;
}

// What the step names of the function, for want of something better to underline: blocks and loops, else the
// blocks that use a buffer, else the first blocks there are.
std::vector<Stmt> StepContext::named_nodes() const {
  constexpr size_t kMost = 4;
  std::vector<Stmt> out, users, first;
  for (const std::string& word : step_.args) {
    const auto p = find_place(func_, word.substr(0, word.find('.')));
    if (!p) continue;
    Stmt node = p->stmt;
    for (const Stmt& l : p->loops())
      if (word == p->name() + "." + loop_name(l)) node = l;
    out.push_back(node);
  }
  if (!out.empty()) return out;
  for (const Place& p : places(func_.body)) {
    const auto all = accesses_of(p.block());
    const bool uses = std::any_of(all.begin(), all.end(), [&](const BlockAccess& a) {
      return std::count(step_.args.begin(), step_.args.end(), a.buffer->name) > 0;
    });
    if (uses && users.size() < kMost) users.push_back(p.stmt);
    if (first.size() < kMost) first.push_back(p.stmt);
  }
  return users.empty() ? first : users;
}

// `hint` may hold steps and plain words, a line each. A step is shown if it is accepted; where none is,
// alternatives are looked for; words are the hint only where no step is.
void StepContext::throw_refusal(const std::string& message, const SourceLoc& at, const std::string& why,
                                const std::vector<Stmt>& marked, const std::string& hint) const {
  Diagnostic d;
  d.message = message;
  d.loc = at;
  if (!why.empty()) d.notes.push_back(why);
  if (quiet_refusals()) throw ScheduleError(std::move(d));
  add_calls(d, step_);
  std::vector<const void*> nodes;
  for (const Stmt& s : marked.empty() ? named_nodes() : marked) nodes.push_back(s.get());
  if (!nodes.empty()) d.notes.push_back("here:\n" + print_marked(func_, nodes));
  const QuietRefusals quiet;
  std::vector<Step> given;
  std::vector<std::string> words;
  std::istringstream lines(hint);
  for (std::string line; std::getline(lines, line);)
    if (line.empty())
      continue;
    else if (is_step(func_, decisions_, line))
      given.push_back(parse_step(line));
    else
      words.push_back(line);
  std::vector<std::string> steps = legal_steps(func_, decisions_, given);
  if (steps.empty()) steps = alternatives(at);
  if (!steps.empty()) {
    if (!words.empty()) d.notes.push_back(join(words, "\n"));
    d.hint = join(steps, "\n");
  } else {
    d.hint = join(words, "\n");
  }
  throw ScheduleError(std::move(d));
}

namespace {

std::string shortened(const std::string& text) {
  constexpr size_t kMost = 240;
  return text.size() <= kMost ? text : text.substr(0, kMost) + " ...";
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
  throw_refusal("`" + shortened(print(step_)) + "` breaks requirement " + std::to_string(requirement) +
                    " of " + row_.name + ": " + row_.requirements[static_cast<size_t>(requirement) - 1].text,
                at, why, marked, hint);
}

void StepContext::forbid(int requirement, int at, const std::string& why, const std::vector<Stmt>& marked,
                         const std::string& hint) const {
  NESTOR_CHECK(row_.requirements.at(static_cast<size_t>(requirement) - 1).semantic)
      << row_.name << " " << requirement;
  if (!is_waived(row_.name, requirement)) refuse(requirement, at, why, marked, hint);
}
void StepContext::refuse_common(char requirement, const SourceLoc& at, const std::string& why,
                                const std::string& hint, const std::vector<Stmt>& marked) const {
  std::string text;
  for (const CommonRequirement& c : common_requirements())
    if (c.letter == requirement) text = c.requirement.text;
  const std::string message =
      "`" + shortened(print(step_)) + "` breaks requirement " + requirement + " of every step: " + text;
  const std::string written = "it is written: " + usage(row_);
  if (requirement != 'A') throw_refusal(message, at, why, marked, hint);
  const bool known = hint.empty() || hint == usage(row_);
  throw_refusal(message, at, why + "\n" + written, marked, known ? "" : hint);
}

}  // namespace nestor::schedules

namespace nestor {

QuietRefusals::QuietRefusals() {
  ++schedules::quiet_scopes;
}
QuietRefusals::~QuietRefusals() {
  --schedules::quiet_scopes;
}

}  // namespace nestor
