#include "src/report/function_json.h"

#include "nestor/flops.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/report/diff.h"
#include "src/report/links.h"
#include "src/report/loop_costs.h"

namespace nestor::report {

namespace {

Json lines_json(const std::string& text, Tables& tables) {
  Json out = Json::array();
  for (const std::string& line : split_lines(text)) out.push_back(tables.strings.add(line));
  return out;
}

// Runs of equal marks.
Json edits_json(const std::string& before, const std::string& after, Tables& tables) {
  Json out = Json::array();
  char last = 0;
  for (const Edit& e : diff(split_lines(before), split_lines(after))) {
    if (e.mark == ' ' || e.mark == '-') {
      const int one = e.mark == ' ' ? 1 : -1;
      if (e.mark == last)
        out.back() = out.back().get<int>() + one;
      else
        out.push_back(one);
    } else {
      if (e.mark != last) out.push_back(Json::array({std::string(1, e.mark)}));
      out.back().push_back(tables.strings.add(e.line));
    }
    last = e.mark;
  }
  return out;
}

Json cost_json(const LoopCost& c, Tables& tables) {
  Json uses = Json::array();
  for (const BufferUse& u : c.body) uses.push_back({tables.strings.add(u.name), name_of(u.scope), u.bytes});
  return {c.extent, c.trips, c.flops, c.touched, c.footprint, c.registers, c.exact ? 1 : 0, std::move(uses)};
}

// The index of a table row: for each loop its place in the text, its kind and its figures.
int loops_json(const PrimFunc& f, Tables& tables) {
  const Printed printed = print_with_spans(f);
  const std::vector<LoopCost> costs = loop_costs(f);
  Json rows = Json::array();
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (!loop) return;
    const Span& at = printed.spans.at(s.get());
    rows.push_back({at.line, at.column, at.length, name_of(loop->kind),
                    tables.costs.add(cost_json(costs[rows.size()], tables)),
                    tables.strings.add(loop->var->name)});
  });
  return tables.loops.add(rows);
}

Json links_json(const std::vector<std::vector<int>>& lines, Tables& tables) {
  Json out = Json::array();
  for (const std::vector<int>& loops : lines) out.push_back(tables.links.add(loops));
  return out;
}

void add_lowered(Json& out, const PrimFunc& scheduled, const Target& target, Tables& tables) {
  const PrimFunc lowered = lower(scheduled, target);
  const std::vector<std::vector<int>> links = link_lines(scheduled, lowered);
  out["lowered"] = lines_json(print(lowered), tables);
  out["links"] = links_json(links, tables);
  const bool cuda = target.kind == TargetKind::cuda;
  const std::vector<CodeLine> listing =
      cuda ? emit_cuda_with_lines(lowered, target) : emit_asm_with_lines(lowered, target);
  Json code = Json::array(), lines = Json::array();
  for (const CodeLine& l : listing) {
    code.push_back(tables.strings.add(l.text));
    lines.push_back(l.line);
  }
  out["code"] = std::move(code);
  out["code_lines"] = std::move(lines);
  out["code_links"] = links_json(link_code(listing, links), tables);
}

}  // namespace

Json function_json(const Walk& walk, const Target& target, Tables& tables) {
  std::string text = print(walk.start);
  Json out = {{"name", walk.start.name},
              {"origin", walk.origin.substr(walk.origin.rfind('/') + 1)},  // a file's name without its folder
              {"flops", flops_of(walk.start)},
              {"start", lines_json(text, tables)},
              {"loops", loops_json(walk.start, tables)},
              {"steps", Json::array()}};
  for (const std::string& plan : walk.given_up) out["given_up"].push_back(tables.strings.add(plan));
  for (const StepTaken& step : walk.steps) {
    const std::string after = print(step.after);
    out["steps"].push_back({{"text", tables.strings.add(step.text)},
                            {"edits", edits_json(text, after, tables)},
                            {"loops", loops_json(step.after, tables)}});
    if (!step.why.empty()) out["steps"].back()["why"] = tables.strings.add(step.why);
    text = after;
  }
  if (walk.refused) {
    out["refused"] = {{"step", walk.refused_step}, {"message", walk.refused->what()}};
    return out;
  }
  try {
    add_lowered(out, walk.last(), target, tables);
  } catch (const UserError& e) {  // a schedule that no machine code can be made of yet
    out["not_lowered"] = e.what();
  }
  return out;
}

}  // namespace nestor::report
