// The text of traces: lines to steps and back. Reading is purely by words here; what a word means is the
// business of the primitive's table row (primitive.h), so that a trace with an unknown primitive still
// parses, prints and diffs.
#include <cctype>

#include "nestor/schedule.h"
#include "schedules/words.h"

namespace nestor {

namespace schedules {

void fail(const SourceLoc& line, int column, int length, std::string message, std::string hint) {
  SourceLoc loc = line;
  loc.column = column;
  loc.length = length;
  throw UserError(Diagnostic{std::move(message), std::move(loc), {}, std::move(hint)});
}

namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Blanks in brackets: none after an opening one and before a closing one or a comma, one after a comma, else
// runs become one. Outside of brackets a word has none, and a comma is one more character.
std::string normalized(std::string_view s) {
  std::string out;
  bool quoted = false;
  int depth = 0;
  for (char c : s) {
    if (c == '"') quoted = !quoted;
    if (!quoted) depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
    if (quoted || (depth == 0 && c != ']' && c != ')')) {
      out += c;
      continue;
    }
    const char last = out.empty() ? '(' : out.back();
    if (is_blank(c)) {
      if (last != ' ' && last != '[' && last != '(') out += ' ';
      continue;
    }
    if ((c == ']' || c == ')' || c == ',') && last == ' ') out.pop_back();
    out += c;
    if (c == ',') out += ' ';
  }
  return out;
}

// The end of the word that begins at `begin`.
size_t word_end(const SourceLoc& line, size_t begin) {
  const std::string& s = line.text;
  std::string open;  // brackets not yet closed
  size_t last_open = begin;
  bool quoted = false;
  size_t i = begin;
  for (; i < s.size(); ++i) {
    const char c = s[i];
    if (c == '"') {
      quoted = !quoted;
      last_open = quoted ? i : last_open;
    }
    if (quoted) continue;
    if (open.empty() && i > begin && (is_blank(c) || c == '#' || s.compare(i, 2, "->") == 0)) break;
    if (open.empty() && i == begin && s.compare(i, 2, "->") == 0) return i + 2;
    if (c == '[' || c == '(') {
      open += c == '[' ? ']' : ')';
      last_open = i;
    } else if (c == ']' || c == ')') {
      if (open.empty() || open.back() != c)
        fail(line, static_cast<int>(i) + 1, 1, "`" + s.substr(i, 1) + "` closes nothing");
      open.pop_back();
    }
  }
  if (quoted || !open.empty())
    fail(line, static_cast<int>(last_open) + 1, 1, std::string("`") + s[last_open] + "` is never closed");
  return i;
}

SourceLoc source_of(const Step& step) {
  if (!step.loc.text.empty()) return step.loc;
  SourceLoc loc;
  loc.file = "<step>";
  loc.line = 1;
  loc.text = print(step);
  return loc;
}

bool is_option(const std::string& word) {
  const size_t at = word.find('=');
  return at != std::string::npos && at > 0 && at + 1 < word.size() &&
         is_identifier(std::string_view(word).substr(0, at));
}

// The n-th word of a class: results before `=`, then the primitive, arguments, options.
enum class Part { result, primitive, arg, option };
SourceLoc locate(const Step& step, Part part, size_t n, const std::string& key = "") {
  SourceLoc loc = source_of(step);
  const std::vector<Word> words = split_words(loc);
  size_t first = 0;
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i].text == "=") first = i + 1;
  size_t seen = 0;
  const auto at = [&](const Word& w) {
    loc.column = w.column;
    loc.length = w.length;
    return loc;
  };
  if (part == Part::result && n < words.size()) return at(words[n]);
  if (part == Part::primitive && first < words.size()) return at(words[first]);
  for (size_t i = first + 1; i < words.size(); ++i) {
    const bool option = is_option(words[i].text);
    if (part == Part::option && option && words[i].text.compare(0, key.size() + 1, key + "=") == 0)
      return at(words[i]);
    if (part == Part::arg && !option && seen++ == n) return at(words[i]);
  }
  if (!words.empty()) {  // one that is missing: just behind the line
    loc.column = words.back().column + words.back().length;
    loc.length = 1;
  }
  return loc;
}

}  // namespace

std::vector<Word> split_words(const SourceLoc& line) {
  std::vector<Word> words;
  const std::string& s = line.text;
  for (size_t i = 0; i < s.size();) {
    if (is_blank(s[i])) {
      ++i;
      continue;
    }
    if (s[i] == '#') break;
    const size_t end = word_end(line, i);
    words.push_back({normalized(std::string_view(s).substr(i, end - i)), static_cast<int>(i) + 1,
                     static_cast<int>(end - i)});
    i = end;
  }
  return words;
}

SourceLoc loc_of_primitive(const Step& step) {
  return locate(step, Part::primitive, 0);
}
SourceLoc loc_of_arg(const Step& step, size_t i) {
  return locate(step, Part::arg, i);
}
SourceLoc loc_of_result(const Step& step, size_t i) {
  return locate(step, Part::result, i);
}
SourceLoc loc_of_option(const Step& step, const std::string& key) {
  return locate(step, Part::option, 0, key);
}

std::vector<std::string> list_items(const std::string& word) {
  std::vector<std::string> items;
  if (word.size() < 2) return items;
  const std::string inside = word.substr(1, word.size() - 2);
  const bool commas = inside.find(',') != std::string::npos;
  std::string item;
  int depth = 0;
  const auto flush = [&] {
    while (!item.empty() && is_blank(item.back())) item.pop_back();
    if (!item.empty() || commas) items.push_back(item);
    item.clear();
  };
  for (char c : inside) {
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (depth == 0 && (commas ? c == ',' : is_blank(c)))
      flush();
    else if (!item.empty() || !is_blank(c))
      item += c;
  }
  if (!item.empty()) flush();
  return items;
}

bool is_identifier(std::string_view s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  for (char c : s)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return true;
}

std::string join(const std::vector<std::string>& items, const char* separator) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) out += (i ? separator : "") + items[i];
  return out;
}

namespace {

// `split(T.i, 4)` as a step: words without parentheses, factors in brackets.
std::string without_parentheses(const std::vector<Word>& words, size_t at) {
  const std::string& text = words[at].text;
  const size_t open = text.find('(');
  if (open == std::string::npos || text.back() != ')' || !is_identifier(text.substr(0, open))) return "";
  std::vector<std::string> out, numbers;
  for (size_t i = 0; i < at; ++i) out.push_back(words[i].text);
  out.push_back(text.substr(0, open));
  for (const std::string& item : list_items(text.substr(open))) {
    const bool number = item.find_first_not_of("0123456789_") == std::string::npos;
    (number ? numbers : out).push_back(item);
  }
  if (numbers.size() == 1) numbers.insert(numbers.begin(), "_");
  if (!numbers.empty()) out.push_back("[" + join(numbers, ", ") + "]");
  for (size_t i = at + 1; i < words.size(); ++i) out.push_back(words[i].text);
  return join(out, " ");
}

}  // namespace

Step step_from(const std::vector<Word>& words, const SourceLoc& line) {
  Step step;
  step.loc = line;
  step.loc.column = words[0].column;
  step.loc.length = words.back().column + words.back().length - words[0].column;
  size_t i = 0;
  size_t equals = words.size();
  for (size_t k = 0; k < words.size() && equals == words.size(); ++k)
    if (words[k].text == "=") equals = k;
  if (equals < words.size()) {
    if (equals == 0) fail(line, words[0].column, 1, "there are no names before `=`");
    for (; i < equals; ++i) {
      if (!is_identifier(words[i].text))
        fail(line, words[i].column, words[i].length, "`" + words[i].text + "` isn't a name for a result",
             "names are letters, digits and _; a lone _ lets the primitive choose");
      step.results.push_back(words[i].text);
    }
    ++i;
  }
  if (i == words.size()) fail(line, words.back().column + 1, 1, "a primitive is missing after `=`");
  if (!is_identifier(words[i].text))
    fail(line, words[i].column, words[i].length, "`" + words[i].text + "` isn't a primitive's name",
         without_parentheses(words, i));
  step.primitive = words[i++].text;
  for (; i < words.size(); ++i) {
    if (!is_option(words[i].text)) {
      step.args.push_back(words[i].text);
      continue;
    }
    const size_t at = words[i].text.find('=');
    const std::string key = words[i].text.substr(0, at);
    for (const auto& [other, value] : step.options)
      if (other == key) fail(line, words[i].column, words[i].length, "`" + key + "` is given twice");
    step.options.emplace_back(key, words[i].text.substr(at + 1));
  }
  return step;
}

void add_calls(Diagnostic& d, const Step& step) {
  for (const SourceLoc& at : step.calls) {
    const std::string indent(static_cast<size_t>(at.column) - 1, ' ');
    d.notes.push_back("applied at " + at.file + ":" + std::to_string(at.line) + ":" +
                      std::to_string(at.column) + ":\n  " + at.text.substr(indent.size()) + "\n  " + "^" +
                      std::string(static_cast<size_t>(at.length) - 1, '~'));
  }
}

}  // namespace schedules

std::string print(const Step& step) {
  std::vector<std::string> words = step.results;
  if (!words.empty()) words.push_back("=");
  words.push_back(step.primitive);
  words.insert(words.end(), step.args.begin(), step.args.end());
  // A decision stands last, behind the options that it obeys.
  size_t decision = words.size();
  for (size_t i = 0; i + 1 < step.args.size(); ++i)
    if (step.args[i] == "->" && step.primitive.starts_with("sample_"))
      decision = words.size() - step.args.size() + i;
  std::vector<std::string> options;
  for (const auto& [key, value] : step.options) options.push_back(key + "=" + value);
  words.insert(words.begin() + static_cast<std::ptrdiff_t>(decision), options.begin(), options.end());
  return schedules::join(words, " ");
}

std::string print(const Trace& trace) {
  std::string out = "schedule";
  if (!trace.func.empty()) out += " " + trace.func;
  if (!trace.target.empty()) out += " for " + trace.target;
  out += " {\n";
  for (const Step& s : trace.steps) out += "  " + print(s) + "\n";
  return out + "}\n";
}

Step parse_step(std::string_view line) {
  SourceLoc loc;
  loc.file = "<step>";
  loc.line = 1;
  loc.text = std::string(line);
  const std::vector<schedules::Word> words = schedules::split_words(loc);
  if (words.empty()) schedules::fail(loc, 1, 1, "a schedule step is empty", "i0 i1 = split T.i [_, 16]");
  return schedules::step_from(words, loc);
}

}  // namespace nestor
