// Expands `apply`: the steps of the definition, with arguments in the place of parameters, word by word.
//
// Names that a definition makes are local. What it returns gets the caller's names; others are renamed if the
// schedule already has such a name. So a definition can be applied to several blocks, and several times to
// one.
#include <algorithm>
#include <cctype>
#include <set>

#include "schedules/sched_file.h"

namespace nestor::schedules {

namespace {

using Names = std::map<std::string, std::string>;

// Whole names in a word, outside of quotes.
std::string with_names(const std::string& word, const Names& names) {
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string out;
  bool quoted = false;
  for (size_t at = 0; at < word.size();) {
    size_t end = at;
    while (!quoted && end < word.size() && in_name(word[end])) ++end;
    if (end == at) {
      quoted = quoted != (word[at] == '"');
      out += word[at++];
      continue;
    }
    const std::string name = word.substr(at, end - at);
    const auto it = names.find(name);
    out += it == names.end() ? name : it->second;
    at = end;
  }
  return out;
}

// The variables of a map, `(n, c) -> (c, n)`, hide names of the definition.
void replace_names(std::vector<std::string>& words, const Names& names) {
  for (size_t i = 0; i < words.size(); ++i) {
    const bool map =
        i + 2 < words.size() && words[i][0] == '(' && words[i + 1] == "->" && words[i + 2][0] == '(';
    if (!map) {
      words[i] = with_names(words[i], names);
      continue;
    }
    Names others = names;
    for (const std::string& v : list_items(words[i])) others.erase(v);
    words[i + 2] = with_names(words[i + 2], others);
    i += 2;
  }
}

std::string trimmed(const std::string& s) {
  const size_t first = s.find_first_not_of(' '), last = s.find_last_not_of(' ');
  return first == std::string::npos ? "" : s.substr(first, last - first + 1);
}

// Goes through the steps in order, since what a name means depends on what has been made before.
class Expander {
 public:
  explicit Expander(const Definitions& definitions) : definitions_(definitions) {}

  // `names`: of the definition that the steps stand in; `calls`: where it was applied, innermost first.
  void expand(const std::vector<Step>& steps, Names names, const std::vector<SourceLoc>& calls) {
    for (const Step& written : steps) {
      Step s = written;
      if (s.primitive != "apply") replace_names(s.args, names);  // its arguments may be `mr=mr`
      for (auto& [key, value] : s.options) value = with_names(value, names);
      s.calls = calls;
      count(s);
      for (std::string& r : s.results) {
        if (r == "_") continue;
        if (!calls.empty() && !names.count(r)) names[r] = fresh(r);
        if (const auto it = names.find(r); it != names.end()) r = it->second;
        made_.insert(r);
      }
      if (out_.size() >= kMostSteps || ++calls_ > kMostSteps)
        refuse(s, "the definitions come to more than " + std::to_string(kMostSteps) + " steps");
      if (s.primitive == "apply")
        apply(s, names);
      else
        out_.push_back(std::move(s));
    }
  }
  std::vector<Step> take() { return std::move(out_); }

 private:
  // What a step holds: words, and the lines that a refusal shows. A definition may be applied many times
  // over.
  void count(const Step& s) {
    constexpr size_t kMost = 128 << 20;
    bytes_ += s.loc.text.size();
    for (const std::string& word : s.args) bytes_ += word.size();
    for (const auto& [key, value] : s.options) bytes_ += value.size();
    for (const SourceLoc& at : s.calls) bytes_ += sizeof at + at.text.size();
    if (bytes_ > kMost) refuse(s, "the definitions come to more than 128 MiB");
  }

  [[noreturn]] static void refuse(const Step& at, const std::string& why, const std::string& hint = "") {
    Diagnostic d{why, loc_of_arg(at, 0), {}, hint};
    add_calls(d, at);
    throw UserError(std::move(d));
  }

  // Each level may double what it passes on.
  static void check_length(const Step& s, const std::string& argument) {
    constexpr size_t kLongest = 4096;
    if (argument.size() > kLongest)
      refuse(s, "an argument comes to more than " + std::to_string(kLongest) + " characters");
  }

  // A file's own definitions come before the library's.
  const Definition& find(const Step& s, const std::string& name) const {
    if (const auto it = definitions_.find(name); it != definitions_.end()) return it->second;
    if (const auto it = library_definitions().find(name); it != library_definitions().end())
      return it->second;
    std::vector<std::string> known;
    for (const auto& [n, d] : definitions_) known.push_back(n);
    for (const auto& [n, d] : library_definitions()) known.push_back(n);
    std::string list;
    for (const std::string& n : known) list += (list.empty() ? "" : ", ") + n;
    refuse(s, "there is no definition `" + name + "`", "the definitions are " + list);
  }

  // The definition's steps; what it returns is named as the caller wrote.
  void apply(const Step& s, const Names& outside) {
    Call call = read_call(s);
    for (std::string& value : call.positional) value = with_names(value, outside);
    for (auto& [key, value] : call.named) value = with_names(value, outside);
    for (const std::string& value : call.positional) check_length(s, value);
    for (const auto& [key, value] : call.named) check_length(s, value);
    const Definition& d = find(s, call.name);
    if (stack_.size() == kDeepest)
      refuse(s, "definitions apply each other more than " + std::to_string(kDeepest) + " deep");
    if (std::find(stack_.begin(), stack_.end(), call.name) != stack_.end())
      refuse(s, "`" + call.name + "` applies itself: definitions can't be recursive");
    Names names = arguments(s, call, d);
    if (s.results.size() > d.returns.size())
      refuse(s, std::to_string(s.results.size()) + " names for what `" + call.name + "` returns", heading(d));
    for (size_t i = 0; i < s.results.size(); ++i)
      if (s.results[i] != "_") names[d.returns[i]] = s.results[i];
    std::vector<SourceLoc> calls{s.loc};
    calls.insert(calls.end(), s.calls.begin(), s.calls.end());
    stack_.push_back(call.name);
    expand(d.steps, std::move(names), calls);
    stack_.pop_back();
  }

  // The definition's first line, for hints.
  static std::string heading(const Definition& d) {
    std::string params, returns;
    for (const auto& [name, value] : d.params)
      params += (params.empty() ? "" : ", ") + name + (value ? "=" + *value : "");
    for (const std::string& r : d.returns) returns += " " + r;
    return "define " + d.name + "(" + params + ")" + (returns.empty() ? "" : " ->" + returns);
  }

  // What each parameter stands for: given in order, by name, or by default.
  static Names arguments(const Step& s, const Call& call, const Definition& d) {
    Names names;
    if (call.positional.size() > d.params.size())
      refuse(s, "`" + d.name + "` has " + std::to_string(d.params.size()) + " parameters", heading(d));
    for (size_t i = 0; i < call.positional.size(); ++i) names[d.params[i].first] = call.positional[i];
    for (const auto& [key, value] : call.named) {
      const bool known = std::any_of(d.params.begin(), d.params.end(),
                                     [&key = key](const auto& p) { return p.first == key; });
      if (!known) refuse(s, "`" + d.name + "` has no parameter `" + key + "`", heading(d));
      if (!names.emplace(key, value).second) refuse(s, "`" + key + "` is given twice", heading(d));
    }
    for (const auto& [name, value] : d.params)
      if (!names.count(name)) {
        if (!value) refuse(s, "`" + name + "` is not given", heading(d));
        names[name] = *value;
      }
    return names;
  }

  // A name that no step so far has made.
  std::string fresh(const std::string& name) const {
    if (!made_.count(name)) return name;
    for (int i = 2;; ++i)
      if (const std::string other = name + "_" + std::to_string(i); !made_.count(other)) return other;
  }

  const Definitions& definitions_;
  size_t calls_ = 0, bytes_ = 0;
  std::vector<std::string> stack_;
  std::set<std::string> made_;
  std::vector<Step> out_;
};

}  // namespace

Call read_call(const Step& apply) {
  std::string text;
  for (const std::string& a : apply.args) text += a;
  const size_t open = text.find('(');
  const std::string hint = "apply NAME(T, mr=14)";
  const auto bad = [&] {
    throw UserError(
        Diagnostic{"an `apply` names a definition and its arguments", loc_of_primitive(apply), {}, hint});
  };
  Call call;
  call.name = text.substr(0, open);
  if (!is_identifier(call.name) || !apply.options.empty()) bad();
  if (open == std::string::npos) return call;
  if (text.back() != ')') bad();
  std::string inside = text.substr(open);
  if (inside.find(',') == std::string::npos)
    inside.insert(inside.size() - 1, ",");  // one argument, with blanks
  for (const std::string& item : list_items(inside)) {
    const size_t eq = item.find('=');
    const std::string key = trimmed(item.substr(0, eq));
    if (item.empty()) continue;
    if (eq != std::string::npos && is_identifier(key))
      call.named.emplace_back(key, trimmed(item.substr(eq + 1)));
    else if (!call.named.empty())
      bad();
    else
      call.positional.push_back(item);
  }
  return call;
}

Definition read_definition_header(const std::vector<Word>& words, const SourceLoc& line) {
  const std::string hint = "define NAME(T, mr=14) -> i0 i1 {";
  const auto bad = [&](size_t i, const std::string& why) {
    const Word& w = words[std::min(i, words.size() - 1)];
    fail(line, w.column, w.length, why, hint);
  };
  Definition d;
  d.loc = line;
  d.loc.column = words[0].column;
  if (words.back().text != "{") bad(words.size() - 1, "a definition's first line ends with `{`");
  size_t i = 1;
  Step head;
  while (i + 1 < words.size() && words[i].text != "->") head.args.push_back(words[i++].text);
  if (head.args.empty()) bad(1, "a definition needs a name");
  head.loc = line;
  const Call call = [&] {
    try {
      return read_call(head);
    } catch (const UserError&) {
      bad(1, "`" + words[1].text + "` isn't a definition's head");
      throw;
    }
  }();
  d.name = call.name;
  std::set<std::string> seen;
  const auto param = [&](const std::string& name) {
    if (!is_identifier(name) || !seen.insert(name).second) bad(1, "`" + name + "` isn't a parameter's name");
  };
  for (const std::string& p : call.positional) {
    param(p);
    d.params.emplace_back(p, std::nullopt);
  }
  for (const auto& [name, value] : call.named) {
    param(name);
    d.params.emplace_back(name, value);
  }
  if (words[i].text == "->")
    for (++i; i + 1 < words.size(); ++i) {
      if (!is_identifier(words[i].text)) bad(i, "`" + words[i].text + "` isn't a name");
      d.returns.push_back(words[i].text);
    }
  return d;
}

std::vector<Step> expand(const std::vector<Step>& steps, const Definitions& definitions) {
  Expander e(definitions);
  e.expand(steps, {}, {});
  return e.take();
}

}  // namespace nestor::schedules
