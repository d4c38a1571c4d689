// What a reader needs of each row: the sentence, how it is written, what its words mean, what it requires,
// and what it does to a small function. The pictures are made by running the example, so that they can't grow
// old.
#include "schedules/manual.h"

#include <sstream>

#include "nestor/parse.h"
#include "nestor/print.h"

namespace nestor::schedules {

namespace {

const char* meaning_of(ArgKind kind) {
  switch (kind) {
    case ArgKind::loop:
      return "a loop, by a block that it stands around";
    case ArgKind::location:
      return "a loop, by a block that it stands around; `root` and `inline` are places too";
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
      return "a name for each dimension, and the expressions that take their place";
    case ArgKind::word:
      return "one of these words";
    case ArgKind::decision:
      return "what has been decided";
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
    out.push_back({p.results, "names for what it makes; where none is given, or `_`, one is chosen"});
  for (const ArgSpec& a : p.args) out.push_back({a.name, meaning_of(a.kind)});
  for (const OptionSpec& o : p.options) out.push_back({std::string(o.key) + "=" + o.values, o.meaning});
  return out;
}

std::string text_of(const Requirement& r) {
  return std::string(r.text) + (r.semantic ? " (semantic)\n" : "\n");
}

std::string section(const Primitive& p) {
  std::string out = "### " + std::string(p.name) + "\n\n" + p.summary + "\n\n" + code(usage(p)) + "\n";
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
  std::string out = std::string(p.name) + "\n\n" + p.summary + "\n\n" + indented(usage(p)) + "\nArguments\n";
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
  std::string out = "Every step, whatever its primitive, requires\n\n";
  for (const CommonRequirement& c : common_requirements())
    out += std::string("- ") + c.letter + ". " + text_of(c.requirement);
  for (const Primitive& p : primitives()) out += "\n" + section(p);
  return out;
}

}  // namespace nestor::schedules
