// Reading a schedule file by lines. What is applied is put in right here (expand.cpp), so that everything
// behind the parser sees primitives only, and a trace in the database needs no file to be replayed.
#include "schedules/sched_file.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "nestor/embedded.h"
#include "nestor/read_text.h"

namespace nestor {

namespace schedules {

namespace {

enum class Scope : uint8_t { file, schedule, definition };

struct Reader {
  Definitions definitions;
  std::vector<Trace> schedules;
  std::set<std::string> included;  // files, so that each is read once

  void read(std::string_view text, const std::string& file, bool only_definitions);
  void close(Scope scope, Definition& current, const std::vector<Word>& words, const SourceLoc& line);
  void include(const std::vector<Word>& words, const SourceLoc& line);
};

[[noreturn]] void fail_at(const SourceLoc& line, const Word& w, std::string message, std::string hint = "") {
  fail(line, w.column, w.length, std::move(message), std::move(hint));
}

// `schedule NAME [for TARGET] {`, or `schedule {`
Trace read_header(const std::vector<Word>& words, const SourceLoc& line) {
  Trace trace;
  const auto bad = [&](const Word& w) {
    fail_at(line, w, "`" + w.text + "` is not expected in a schedule's header", "schedule NAME for TARGET {");
  };
  size_t i = 1;
  if (i < words.size() && words[i].text != "{" && words[i].text != "for") trace.func = words[i++].text;
  if (i < words.size() && words[i].text == "for") {
    if (i + 1 == words.size() || words[i + 1].text == "{") bad(words[i]);
    trace.target = words[i + 1].text;
    i += 2;
  }
  if (i == words.size()) fail(line, words.back().column + words.back().length, 1, "`{` is missing");
  if (words[i].text != "{") bad(words[i]);
  if (i + 1 < words.size()) bad(words[i + 1]);
  return trace;
}

// What a definition gives back is made in it.
void check_returns(const Definition& d) {
  for (const std::string& r : d.returns) {
    const bool made = std::any_of(d.steps.begin(), d.steps.end(), [&](const Step& s) {
      return std::find(s.results.begin(), s.results.end(), r) != s.results.end();
    });
    if (!made)
      throw UserError(
          Diagnostic{"`" + d.name + "` returns `" + r + "`, which none of its steps makes", d.loc, {}, ""});
  }
}

// `include "file.sched"`, relative to the file that says so. Each file is read once, so that they may include
// each other.
void Reader::include(const std::vector<Word>& words, const SourceLoc& line) {
  const std::string hint = "include \"file.sched\"";
  if (words.size() != 2 || words[1].text.size() < 3 || words[1].text.front() != '"')
    fail_at(line, words.back(), "an include names one file", hint);
  const std::string name = words[1].text.substr(1, words[1].text.size() - 2);
  const std::filesystem::path path = std::filesystem::path(line.file).parent_path() / name;
  if (!included.insert(path.lexically_normal().string()).second) return;
  std::string text;
  try {
    text = read_text(path.string());
  } catch (const UserError& e) {
    fail_at(line, words[1], e.diagnostic().message);
  }
  read(text, path.string(), true);
}

// A `}`: keeps the definition that ends here.
void Reader::close(Scope scope, Definition& current, const std::vector<Word>& words, const SourceLoc& line) {
  if (scope == Scope::file) fail_at(line, words[0], "`}` closes nothing");
  if (words.size() > 1) fail_at(line, words[1], "text behind a closing `}`");
  if (scope != Scope::definition) return;
  check_returns(current);
  const auto before = definitions.find(current.name);
  if (before != definitions.end())
    throw UserError(
        Diagnostic{"`" + current.name + "` is defined twice",
                   current.loc,
                   {"first in " + before->second.loc.file + ":" + std::to_string(before->second.loc.line)},
                   ""});
  definitions[current.name] = std::move(current);
}

// Line by line: braces don't nest, and every statement is a line. Steps outside of braces are the file's only
// schedule; a file that is included has definitions only.
void Reader::read(std::string_view text, const std::string& file, bool only_definitions) {
  Scope scope = Scope::file;
  bool loose = false;  // steps outside of braces: the file's only schedule
  Definition current;
  SourceLoc line;
  line.file = file;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark, as some editors write
  const auto first = [&](const std::vector<Word>& words, const char* word) { return words[0].text == word; };
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    line.text = std::string(text.substr(begin, end - begin));
    if (line.text.ends_with('\r')) line.text.pop_back();
    ++line.line;
    begin = end + 1;
    const std::vector<Word> words = split_words(line);
    if (words.empty()) continue;
    if (first(words, "}")) {
      close(scope, current, words, line);
      scope = Scope::file;
      continue;
    }
    const bool opens = first(words, "schedule") || first(words, "define") || first(words, "include");
    if (opens && scope != Scope::file)
      fail_at(line, words[0], "`" + words[0].text + "` inside of braces; a closing `}` is missing");
    if (first(words, "define")) {
      current = read_definition_header(words, line);
      scope = Scope::definition;
    } else if (first(words, "include")) {
      include(words, line);
    } else if (scope == Scope::definition) {
      current.steps.push_back(step_from(words, line));
    } else if (only_definitions) {
      if (first(words, "schedule")) fail_at(line, words[0], "a file that is included holds definitions only");
      fail_at(line, words[0], "a step outside of a definition, in a file that is included");
    } else if (first(words, "schedule")) {
      if (loose) fail_at(line, words[0], "a schedule behind steps that stand outside of braces");
      schedules.push_back(read_header(words, line));
      scope = Scope::schedule;
    } else {
      if (scope == Scope::file && !loose) {
        if (!schedules.empty()) fail_at(line, words[0], "text after the schedule's closing `}`");
        schedules.emplace_back();
        loose = true;
      }
      schedules.back().steps.push_back(step_from(words, line));
    }
  }
  if (scope != Scope::file)
    fail(line, 1, 1,
         std::string("the ") + (scope == Scope::schedule ? "schedule's" : "definition's") +
             " closing `}` is missing");
}

}  // namespace

const Definitions& library_definitions() {
  static const Definitions all = [] {
    Reader r;
    for (const EmbeddedFile& f : definition_files()) r.read(f.text, "library/" + std::string(f.name), true);
    return r.definitions;
  }();
  return all;
}

}  // namespace schedules

std::vector<Trace> parse_schedules(std::string_view text, const std::string& file) {
  schedules::Reader r;
  r.read(text, file, false);
  for (Trace& t : r.schedules) t.steps = schedules::expand(t.steps, r.definitions);
  return std::move(r.schedules);
}

Trace parse_trace(std::string_view text, std::string file) {
  std::vector<Trace> all = parse_schedules(text, file);
  if (all.size() > 1)
    throw UserError(file + " has " + std::to_string(all.size()) + " schedules where one is expected");
  return all.empty() ? Trace{} : std::move(all[0]);
}

}  // namespace nestor
