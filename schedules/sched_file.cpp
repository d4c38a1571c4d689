// Reading a schedule file by lines. What is applied is put in right here (expand.cpp), so that everything
// behind the parser sees primitives only, and a trace in the database needs no file to be replayed.
#include "schedules/sched_file.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "nestor/embedded.h"
#include "nestor/read_text.h"
#include "schedules/schedule_folder.h"

namespace nestor {

namespace schedules {

namespace {

enum class Scope : uint8_t { file, schedule, definition };

// What a text may hold besides primitives.
enum class Kind : uint8_t {
  schedule,     // anything
  definitions,  // a file that is included, or the library's: nothing else
  primitives    // a record: nothing
};

std::string folder_of(const std::string& file) {
  return std::filesystem::path(file).parent_path().string();
}

struct Reader {
  Definitions definitions;
  std::vector<Trace> schedules;
  std::string folder;              // of the schedule: what is included lies in there
  std::set<std::string> included;  // files, so that each is read once
  size_t depth = 0, bytes = 0, steps = 0;

  void read(std::string_view text, const std::string& file, Kind kind);
  void close(Scope scope, Definition& current, const std::vector<Word>& words, const SourceLoc& line);
  void include(const std::vector<Word>& words, const SourceLoc& line);
  Step read_step(const std::vector<Word>& words, const SourceLoc& line, Kind kind);
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
  if (words.size() != 2 || words[1].text.size() < 3 || words[1].text.front() != '"')
    fail_at(line, words.back(), "an include names one file", "include \"file.sched\"");
  const std::string name = words[1].text.substr(1, words[1].text.size() - 2);
  const NamedFile file = find_in_folder(folder, folder_of(line.file), name, ".sched");
  if (file.path.empty()) fail_at(line, words[1], "can't include the file: " + file.why, file.hint);
  if (!included.insert(file.path).second) return;
  if (depth == kDeepest)
    fail_at(line, words[0], "files include each other more than " + std::to_string(kDeepest) + " deep",
            "include them in one file, one after another");
  std::string text;
  try {
    text = read_text(file.path);
  } catch (const UserError& e) {
    fail_at(line, words[1], e.diagnostic().message);
  }
  ++depth;
  read(text, (std::filesystem::path(folder_of(line.file)) / name).string(), Kind::definitions);
  --depth;
}

// Input doesn't choose what code is compiled: an instruction file holds the compiler's own text.
Step Reader::read_step(const std::vector<Word>& words, const SourceLoc& line, Kind kind) {
  if (++steps > kMostSteps)
    fail_at(line, words[0], "a schedule has at most " + std::to_string(kMostSteps) + " steps");
  Step step = step_from(words, line);
  if (kind == Kind::primitives && step.primitive == "apply")
    fail(line, loc_of_primitive(step).column, 5, "a record holds primitives only, and `apply` is none");
  if (kind != Kind::schedule)
    for (const auto& [key, value] : step.options)
      if (key == "from")
        fail(line, loc_of_option(step, key).column, loc_of_option(step, key).length,
             "a file of instructions is named by the schedule itself, not by what it includes, nor by a "
             "record",
             "the instruction's name alone, behind a step of the schedule that names its file");
  return step;
}

// A `}`: keeps the definition that ends here.
void Reader::close(Scope scope, Definition& current, const std::vector<Word>& words, const SourceLoc& line) {
  if (scope == Scope::file) fail_at(line, words[0], "`}` closes nothing");
  if (words.size() > 1) fail_at(line, words[1], "text after a closing `}`");
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
void Reader::read(std::string_view text, const std::string& file, Kind kind) {
  if ((bytes += text.size()) > kMostText)
    throw UserError(file + ": a schedule and what it includes have at most 64 MiB");
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
    if (line.text.size() > kLongestLine) {
      line.text.resize(80);
      fail(line, 1, 80, "a line has at most " + std::to_string(kLongestLine) + " characters");
    }
    const std::vector<Word> words = split_words(line);
    if (words.empty()) continue;
    if (first(words, "}")) {
      close(scope, current, words, line);
      scope = Scope::file;
      continue;
    }
    const bool opens = first(words, "schedule") || first(words, "define") || first(words, "include");
    if (opens && kind == Kind::primitives && !first(words, "schedule"))
      fail_at(line, words[0], "a record holds primitives only, and `" + words[0].text + "` is none");
    if (opens && scope != Scope::file)
      fail_at(line, words[0], "`" + words[0].text + "` inside of braces; a closing `}` is missing");
    if (first(words, "define")) {
      current = read_definition_header(words, line);
      scope = Scope::definition;
    } else if (first(words, "include")) {
      include(words, line);
    } else if (scope == Scope::definition) {
      current.steps.push_back(read_step(words, line, kind));
    } else if (kind == Kind::definitions) {
      if (first(words, "schedule")) fail_at(line, words[0], "a file that is included holds definitions only");
      fail_at(line, words[0], "a step outside of a definition, in a file that is included");
    } else if (first(words, "schedule")) {
      if (loose) fail_at(line, words[0], "a schedule behind steps that is outside of braces");
      schedules.push_back(read_header(words, line));
      scope = Scope::schedule;
    } else {
      if (scope == Scope::file && !loose) {
        if (!schedules.empty()) fail_at(line, words[0], "text after the schedule's closing `}`");
        schedules.emplace_back();
        loose = true;
      }
      schedules.back().steps.push_back(read_step(words, line, kind));
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
    for (const EmbeddedFile& f : definition_files())
      r.read(f.text, "library/" + std::string(f.name), Kind::definitions);
    return r.definitions;
  }();
  return all;
}

}  // namespace schedules

std::vector<Trace> parse_schedules(std::string_view text, const std::string& file) {
  schedules::Reader r;
  r.folder = schedules::folder_of(file);
  r.read(text, file, schedules::Kind::schedule);
  for (Trace& t : r.schedules) t.steps = schedules::expand(t.steps, r.definitions);
  return std::move(r.schedules);
}

namespace {

Trace only_one(std::vector<Trace> all, const std::string& file) {
  if (all.size() > 1)
    throw UserError(file + " has " + std::to_string(all.size()) + " schedules where one is expected");
  return all.empty() ? Trace{} : std::move(all[0]);
}

}  // namespace

Trace parse_trace(std::string_view text, std::string file) {
  return only_one(parse_schedules(text, file), file);
}

Trace schedules::parse_primitives(std::string_view text, const std::string& file) {
  Reader r;
  r.read(text, file, Kind::primitives);
  return only_one(std::move(r.schedules), file);
}

}  // namespace nestor
