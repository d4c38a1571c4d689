// `nestor primitives [NAME]`: the table of schedule primitives at the command line.
#include <fmt/format.h>

#include "nestor/error.h"
#include "nestor/nearest.h"
#include "schedules/guide.h"
#include "schedules/manual.h"
#include "src/cli/common.h"

namespace nestor::cli {

namespace {

void print_table() {
  constexpr size_t kColumn = 24;
  for (const schedules::Group& g : schedules::guide()) {
    fmt::print("{}\n", g.title);
    for (const schedules::Advice& a : g.primitives) {
      const schedules::Primitive& p = *schedules::find_primitive(a.primitive);
      fmt::print("  {:<{}}{}\n  {:<{}}{}\n", p.name, kColumn, p.summary, "", kColumn, schedules::usage(p));
    }
  }
  fmt::print(
      "\nRequirements of every step:\n{}\n`nestor primitives NAME` shows one with its options, requirements "
      "and an example.\n",
      schedules::common_requirements_text());
}

[[noreturn]] void refuse_name(const std::string& name) {
  std::vector<std::string> names;
  std::string list;
  for (const schedules::Primitive& p : schedules::primitives()) {
    names.push_back(p.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::string near = did_you_mean(name, names);
  throw UserError(Diagnostic{
      "there is no primitive `" + name + "`", {}, {}, near.empty() ? "the primitives are " + list : near});
}

}  // namespace

int run(const PrimitivesVerb& v) {
  if (v.name.empty()) {
    print_table();
    return 0;
  }
  const schedules::Primitive* p = schedules::find_primitive(v.name);
  if (!p) refuse_name(v.name);
  fmt::print("{}", schedules::plain_text(*p));
  return 0;
}

}  // namespace nestor::cli
