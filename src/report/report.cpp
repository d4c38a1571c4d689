// The model's side of the page: its graph as calls of functions with the operators fused in them, the target,
// and the page itself around the data.
#include "nestor/report.h"

#include <algorithm>

#include "nestor/print.h"
#include "src/report/function_json.h"
#include "src/report/page.h"
#include "src/report/profile.h"

namespace nestor {

namespace {

using report::Json;

// A value that is another's bytes is drawn as that one.
ValueId resolved(const Partition& p, ValueId v) {
  const auto it = p.alias.find(v);
  return it == p.alias.end() ? v : it->second;
}

Json graph_json(const CompiledModel& m, report::Tables& tables) {
  const auto value = [&](ValueId v) {
    const Value& x = m.graph.values[static_cast<size_t>(v)];
    return Json{tables.strings.add(x.name), tables.strings.add(to_string(x.type))};
  };
  Json calls = Json::array(), values = Json::object(), inputs = Json::array(), outputs = Json::array();
  const auto used = [&](ValueId v) {
    values[std::to_string(v)] = value(v);
    return v;
  };
  for (const KernelCall& call : m.partition.calls) {
    if (call.control) continue;
    const PrimFunc& f = m.partition.funcs[static_cast<size_t>(call.func)];
    Json ins = Json::array(), outs = Json::array(), ops = Json::array(), why = Json::array();
    int weights = 0;
    for (size_t i = 0; i < call.args.size(); ++i) {
      const ValueId v = resolved(m.partition, call.args[i]);
      if (f.params[i].role == Role::out)
        outs.push_back(used(v));
      else if (!m.graph.values[static_cast<size_t>(v)].constant.defined())
        ins.push_back(used(v));
      else
        ++weights;
    }
    for (const int n : call.nodes) {
      const Node& node = m.graph.nodes[static_cast<size_t>(n)];
      ops.push_back(tables.strings.add(node.op));
      if (!node.why.empty()) why.push_back(tables.strings.add(node.why));
    }
    calls.push_back({{"func", call.func}, {"ops", ops}, {"in", ins}, {"out", outs}, {"weights", weights}});
    if (!why.empty()) calls.back()["why"] = why;
  }
  for (const ValueId v : m.graph.inputs) inputs.push_back(used(v));
  for (const ValueId v : m.graph.outputs) outputs.push_back(used(resolved(m.partition, v)));
  return {{"calls", calls}, {"values", values}, {"inputs", inputs}, {"outputs", outputs}};
}

Json target_json(const Target& t) {
  return {{"name", t.name},
          {"cuda", t.kind == TargetKind::cuda},
          {"l1", t.l1_bytes},
          {"l2", t.l2_bytes},
          {"l3", t.l3_bytes},
          {"vector_bits", t.vector_bits},
          {"registers", int64_t{t.vector_bits} / 8 * t.vector_registers},
          {"cores", t.cores}};
}

// Times in nanoseconds: of a run, of each call of the graph, and of all calls of a function, with what they
// take at least.
Json profile_json(const report::Profile& p) {
  Json funcs = Json::object(), calls = Json::array(), copies = Json::array();
  for (const report::FunctionTime& f : p.functions)
    if (f.func >= 0)
      funcs[std::to_string(f.func)] = {{"ns", f.ns},
                                       {"operations", f.work.operations},
                                       {"bytes", f.work.bytes},
                                       {"at_once", f.work.operations_at_once},
                                       {"bound_ns", f.bound.ns()},
                                       {"by", f.bound.by()}};
  for (const auto& [kernel, ns] : p.calls)
    if (kernel >= 0) calls.push_back(ns);
  for (const auto& [bytes, gbs] : p.copies) copies.push_back({bytes, gbs});
  return {{"ns", p.ns},     {"peak", p.peak_gflops}, {"runs", p.runs},
          {"funcs", funcs}, {"calls", calls},        {"copies", copies}};
}

}  // namespace

std::string report_title(const std::string& spec) {
  return looks_like_operator(spec) ? spec : spec.substr(spec.rfind('/') + 1);
}

HtmlReport html_report(const CompiledModel& model, const CompileOptions& options, const std::string& title,
                       const std::vector<size_t>& funcs, const report::Profile* profile) {
  HtmlReport out;
  report::Tables tables;
  Json pages = Json::object();
  for (const size_t i : funcs) {
    const PrimFunc& f = model.partition.funcs[i];
    const report::Walk walk = report::walk_trace(f, choose_schedule(f, options));
    if (walk.refused) out.refused.push_back(*walk.refused);
    pages[std::to_string(i)] = report::function_json(walk, model.target, tables);
  }
  Json names = Json::array();
  for (const PrimFunc& f : model.partition.funcs) names.push_back(f.name);
  const Json graph = graph_json(model, tables);
  Json data = {{"title", title},
               {"target", target_json(model.target)},
               {"threads", options.threads},
               {"names", names},
               {"graph", graph},
               {"funcs", pages},
               {"strings", tables.strings.rows()},
               {"costs", tables.costs.rows()},
               {"loops", tables.loops.rows()},
               {"links", tables.links.rows()}};
  if (profile) data["profile"] = profile_json(*profile);
  out.html = report::page(title, data.dump(-1, ' ', false, Json::error_handler_t::replace));
  return out;
}

}  // namespace nestor
