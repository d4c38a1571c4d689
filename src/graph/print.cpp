// A graph as text, one node a line, in order: for people and for golden tests.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nestor/graph.h"
#include "src/graph/control_flow.h"
#include "src/graph/edit.h"

namespace nestor {

namespace {

std::string name_of(const Graph& g, ValueId v) {
  if (v < 0) return "_";
  const std::string& name = value_of(g, v).name;
  return name.empty() ? fmt::format("%{}", v) : name;
}

std::string text(const AttrValue& v) {
  const auto list = [](const auto& items) { return fmt::format("[{}]", fmt::join(items, ",")); };
  return std::visit(Overloaded{[](int64_t i) { return fmt::format("{}", i); },
                               [](double d) { return fmt::format("{}", d); },
                               [](const std::string& s) { return fmt::format("\"{}\"", s); },
                               [](const Tensor& t) { return to_string(t.dtype(), t.shape()); },
                               [&](const std::vector<int64_t>& l) { return list(l); },
                               [&](const std::vector<double>& l) { return list(l); },
                               [&](const std::vector<std::string>& l) { return list(l); }},
                    v);
}

// The values of a constant that is short enough to be read.
std::string contents(const Tensor& t) {
  if (t.size() > 8) return "";
  std::vector<std::string> items;
  for (int64_t i = 0; i < t.size(); ++i)
    items.push_back(is_float(t.dtype()) ? fmt::format("{}", t.get(i)) : fmt::format("{}", t.get_int(i)));
  return fmt::format(" = [{}]", fmt::join(items, ","));
}

std::string typed(const Graph& g, ValueId v) {
  return v < 0 ? "_" : fmt::format("{}: {}", name_of(g, v), to_string(value_of(g, v).type));
}

std::string node_line(const Graph& g, const Node& n) {
  std::vector<std::string> inputs, outputs, attrs;
  for (ValueId v : n.inputs) inputs.push_back(name_of(g, v));
  for (ValueId v : n.outputs) outputs.push_back(typed(g, v));
  for (const auto& [key, value] : n.attrs) attrs.push_back(fmt::format("{}={}", key, text(value)));
  const std::string op = n.domain.empty() ? n.op : n.domain + "." + n.op;
  std::string line = fmt::format("{} = {}({})", fmt::join(outputs, ", "), op, fmt::join(inputs, ", "));
  if (!attrs.empty()) line += fmt::format(" {{{}}}", fmt::join(attrs, ", "));
  if (!n.name.empty()) line += fmt::format("  # {}", n.name);
  return line;
}

std::string header(const Graph& g) {
  std::vector<std::string> inputs, outputs;
  for (ValueId v : g.inputs) inputs.push_back(typed(g, v));
  for (ValueId v : g.outputs) outputs.push_back(typed(g, v));
  std::string out =
      fmt::format("graph {}({}) -> ({}) {{\n", g.name, fmt::join(inputs, ", "), fmt::join(outputs, ", "));
  for (size_t v = 0; v < g.values.size(); ++v)
    if (g.values[v].constant.defined())
      out += fmt::format("  const {}{}\n", typed(g, static_cast<ValueId>(v)), contents(g.values[v].constant));
  return out;
}

}  // namespace

namespace {

std::string indented(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    out += "    " + text.substr(at, end - at);
    at = end;
  }
  return out;
}

}  // namespace

std::string print(const Graph& g) {
  std::string out = header(g);
  for (const Node& n : g.nodes) {
    out += "  " + node_line(g, n) + "\n";
    for (const auto& body : n.bodies) out += indented(print(*body));
  }
  return out + "}\n";
}

std::string describe_mark(const Graph& g, const KernelCall& call) {
  const ControlFlow& c = *call.control;
  const std::string& name = g.nodes[static_cast<size_t>(call.nodes[0])].name;
  const std::string of = name.empty() ? "" : " `" + name + "`";
  const auto when = [&](ValueId v) { return v < 0 ? "" : fmt::format(", while {}", name_of(g, v)); };
  switch (call.func) {
    case kLoopBegins: {
      std::vector<std::string> states;
      for (const ControlFlow::State& s : c.states)
        states.push_back(fmt::format("{} = {}", name_of(g, s.inside), name_of(g, s.initial)));
      for (const ControlFlow::Part& p : c.scanned)
        states.push_back(fmt::format("{} of {}{}", name_of(g, p.part), name_of(g, p.whole),
                                     p.backward ? " backward" : ""));
      const std::string trips = c.known_trips  ? to_string(*c.known_trips)
                                : c.trips >= 0 ? name_of(g, c.trips)
                                               : "any number of";
      return fmt::format("loop{}: {} iterations{}: {}", of, trips, when(c.condition),
                         fmt::join(states, ", "));
    }
    case kLoopEnds: {
      std::vector<std::string> next;
      for (const ControlFlow::State& s : c.states)
        next.push_back(fmt::format("{} = {}", name_of(g, s.inside), name_of(g, s.next)));
      for (const ControlFlow::Part& p : c.made)
        next.push_back(fmt::format("{} is in {}{}", name_of(g, p.part), name_of(g, p.whole),
                                   p.backward ? " backward" : ""));
      return fmt::format("next{}{}: {}", of, when(c.goes_on), fmt::join(next, ", "));
    }
    case kBranchBegins:
      return fmt::format("if{} {}", of, name_of(g, c.condition));
    default:
      return call.func == kOtherwise ? "else" : "end of if";
  }
}

std::string print(const Graph& g, const Partition& p) {
  std::string out = header(g);
  for (const auto& [v, root] : p.alias)
    out += fmt::format("  alias {} of {}\n", typed(g, v), name_of(g, root));
  for (ValueId v : p.blocked)
    out += fmt::format("  channels of {} in blocks of {}\n", typed(g, v), p.channel_block);
  for (const KernelCall& c : p.calls) {
    if (c.control) {
      out += "  " + describe_mark(g, c) + "\n";
      continue;
    }
    std::vector<std::string> args;
    for (ValueId v : c.args) args.push_back(name_of(g, v));
    out += fmt::format("  {}({}) {{\n", p.funcs[static_cast<size_t>(c.func)].name, fmt::join(args, ", "));
    for (int i : c.nodes) out += "    " + node_line(g, g.nodes[static_cast<size_t>(i)]) + "\n";
    out += "  }\n";
  }
  return out + "}\n";
}

}  // namespace nestor
