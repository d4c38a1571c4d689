// The manual's text of each row: the summary, the syntax, the arguments, the requirements, and what it does
// to a small function. That example is executed, so it can't become outdated.
#include "schedules/manual.h"

#include <sstream>

#include "nestor/parse.h"
#include "nestor/print.h"
#include "schedules/guide.h"

namespace nestor::schedules {

namespace {

const char* meaning_of(ArgKind kind) {
  switch (kind) {
    case ArgKind::loop:
      return "a loop around a block, written BLOCK.LOOP";
    case ArgKind::location:
      return "a loop around a block, written BLOCK.LOOP; or `root`, or `inline`";
    case ArgKind::integer:
      return "an integer, or a name that a `sample_` step gave";
    case ArgKind::loops:
      return "loops around one block";
    case ArgKind::block:
      return "a block";
    case ArgKind::target:
      return "a loop or a block";
    case ArgKind::buffer:
      return "a buffer";
    case ArgKind::buffers:
      return "one buffer or more";
    case ArgKind::ints:
      return "integers, or names that a `sample_` step gave; `_` is computed";
    case ArgKind::words:
      return "words or integers";
    case ArgKind::map:
      return "a name for each dimension, and the expressions of the new dimensions";
    case ArgKind::word:
      return "one of these words";
    case ArgKind::decision:
      return "the current choice";
  }
  return "";
}

std::string code(const std::string& text) {
  return "```\n" + text + (text.ends_with('\n') ? "" : "\n") + "```\n";
}

struct Meaning {
  std::string word, meaning;
};
std::vector<Meaning> words_of(const Primitive& p) {
  std::vector<Meaning> out;
  if (*p.results)
    out.push_back(
        {p.results, "names of what it makes; without a name, or with `_`, the compiler chooses one"});
  for (const ArgSpec& a : p.args) out.push_back({a.name, meaning_of(a.kind)});
  for (const OptionSpec& o : p.options) out.push_back({std::string(o.key) + "=" + o.values, o.meaning});
  return out;
}

std::string text_of(const Requirement& r) {
  return std::string(r.text) + (r.semantic ? " (semantic)\n" : "\n");
}

// "TVM: `split`. Halide: `split`.", of those that have one.
std::string other_names(const Advice& a) {
  std::string out;
  if (*a.tvm) out += " TVM: " + std::string(a.tvm) + ".";
  if (*a.halide) out += " Halide: " + std::string(a.halide) + ".";
  return out.empty() ? " Neither TVM nor Halide has it." : out;
}

std::string section(const Primitive& p) {
  const Advice& a = advice_on(p.name);
  std::string out = "#### " + std::string(p.name) + "\n\n" + p.summary + "\n\n*When:* " + a.when +
                    "\n\n*Elsewhere:*" + other_names(a) + "\n\n" + code(usage(p)) + "\n";
  for (const Meaning& w : words_of(p)) out += "- `" + w.word + "`: " + w.meaning + "\n";
  out += "\nRequires\n\n";
  for (size_t i = 0; i < p.requirements.size(); ++i)
    out += std::to_string(i + 1) + ". " + text_of(p.requirements[i]);
  const Shown shown = show(p.example);
  out += "\n" + code(shown.before) + "\n`" + std::string(p.example.steps);
  for (size_t at = out.rfind("\n`"); (at = out.find('\n', at + 1)) != std::string::npos;)
    out.replace(at, 1, "`<br>`");
  return out + "`\n\n" + code(shown.after);
}

std::string indented(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += "  " + line + "\n";
  return out;
}

}  // namespace

Shown show(const Example& example) {
  const PrimFunc before = parse_func(example.func);
  return {print(before), print(apply(before, parse_trace(example.steps, "example")))};
}

std::string plain_text(const Primitive& p) {
  const Advice& a = advice_on(p.name);
  std::string out = std::string(p.name) + "\n\n" + p.summary + "\n\nWhen\n" + indented(a.when) +
                    "\nElsewhere\n " + other_names(a) + "\n\nUsage\n" + indented(usage(p)) + "\nArguments\n";
  for (const Meaning& w : words_of(p)) out += "  " + w.word + "\n      " + w.meaning + "\n";
  out += "\nRequires\n";
  for (size_t i = 0; i < p.requirements.size(); ++i)
    out += "  " + std::to_string(i + 1) + ". " + text_of(p.requirements[i]);
  const Shown shown = show(p.example);
  return out + "\nBefore\n" + indented(shown.before) + "\nSteps\n" + indented(p.example.steps) + "\nAfter\n" +
         indented(shown.after);
}

std::string common_requirements_text() {
  std::string out;
  for (const CommonRequirement& c : common_requirements())
    out += std::string(1, c.letter) + ". " + text_of(c.requirement);
  return out;
}

std::string manual() {
  std::string out = "| primitive | does |\n|---|---|\n";
  for (const Group& g : guide()) {
    out += "| **" + std::string(g.title) + "** | |\n";
    for (const Advice& a : g.primitives)
      out += "| [" + std::string(a.primitive) + "](#" + a.primitive + ") | " +
             find_primitive(a.primitive)->summary + " |\n";
  }
  out += "\nRequirements of every step:\n\n";
  for (const CommonRequirement& c : common_requirements())
    out += std::string("- ") + c.letter + ". " + text_of(c.requirement);
  for (const Group& g : guide()) {
    out += "\n### " + std::string(g.title) + "\n";
    for (const Advice& a : g.primitives) out += "\n" + section(*find_primitive(a.primitive));
  }
  return out;
}

}  // namespace nestor::schedules
