// Templates: families that users write as schedule files with placeholders. A file becomes a definition whose
// parameters are the names in its `when` lines; it is applied to what these names match.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "nestor/plan.h"
#include "nestor/read_text.h"
#include "schedules/plans/when.h"

namespace nestor {

using plans::Bindings;
using plans::When;

struct ScheduleTemplate::Impl {
  std::string name, path;
  When when;
  std::string before, steps;  // the file's lines around the last `when`

  // Steps keep their lines: the definition's header stands where the last `when` did.
  Trace expand(const Bindings& bound) const {
    std::string params;
    for (const auto& [name, to] : bound)
      params += fmt::format("{}{}={}", params.empty() ? "" : ", ", name, to);
    Trace trace = parse_trace(fmt::format("{}define template_of_steps({}) {{\n{}\n}}\nschedule {{\n  apply "
                                          "template_of_steps()\n}}\n",
                                          before, params, steps),
                              path);
    for (Step& s : trace.steps) s.calls.clear();
    return trace;
  }
};

ScheduleTemplate::ScheduleTemplate(const std::string& path, const std::string& text) {
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  impl->name = std::filesystem::path(path).stem().string();
  if (!schedules::is_identifier(impl->name) || impl->name == "any" || impl->name == "default")
    throw UserError(Diagnostic{path + ": `" + impl->name + "` can't be the name of a family",
                               {},
                               {},
                               "letters, digits and _, and neither `any` nor `default`"});
  SourceLoc line;
  line.file = path;
  bool steps = false;
  std::string since;  // the last `when`, or the beginning
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    line.text = text.substr(begin, end - begin);
    if (line.text.ends_with('\r')) line.text.pop_back();
    ++line.line;
    begin = end + 1;
    const std::vector<schedules::Word> words = schedules::split_words(line);
    if (!words.empty() && words[0].text == "when") {
      if (steps) schedules::fail(line, words[0].column, 4, "`when` comes before the steps");
      // A `when` before this one leaves a blank line.
      impl->before +=
          (impl->when.blocks.empty() && impl->when.target.empty() && !impl->when.others ? "" : "\n") + since;
      since.clear();
      plans::read_when(words, line, impl->when);
      continue;
    }
    steps |= !words.empty() && words[0].text != "include";
    since += line.text + "\n";
  }
  impl->steps = since;
  if (impl->when.blocks.empty())
    throw UserError(Diagnostic{path + " doesn't say which functions it is for",
                               {},
                               {},
                               "its first line: when block C reduction k >= 64, spatial i j, reads A B"});
  Bindings own;  // the steps are read once, whether or not a function matches
  for (const plans::BlockPattern& b : impl->when.blocks) own[b.name] = b.name;
  impl->expand(own);
  impl_ = std::move(impl);
}

const std::string& ScheduleTemplate::name() const {
  return impl_->name;
}
const std::string& ScheduleTemplate::path() const {
  return impl_->path;
}

std::optional<Trace> ScheduleTemplate::match(const PrimFunc& f, const Target& target,
                                             std::string* why_not) const {
  const auto bound = plans::bind(impl_->when, f, target, why_not);
  if (!bound) return std::nullopt;
  return impl_->expand(*bound);
}

std::vector<ScheduleTemplate> read_templates(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".sched") paths.push_back(entry.path().string());
  if (error) throw UserError(folder + " can't be read as a folder of templates: " + error.message());
  if (paths.empty())
    throw UserError(Diagnostic{folder + " has no *.sched", {}, {}, "a file for each template"});
  std::sort(paths.begin(), paths.end());
  std::vector<ScheduleTemplate> out;
  for (const std::string& path : paths) out.emplace_back(path, read_text(path));
  return out;
}

}  // namespace nestor
