#include "src/graph/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nestor/graph.h"

namespace nestor {

namespace {

constexpr size_t kNames = 3;  // of nodes that are refused alike

// A message without what differs between nodes that are refused alike: numbers, shapes, names.
std::string pattern_of(const std::string& message) {
  std::string out;
  char closing = 0;
  for (const char c : message) {
    if (closing != 0) {
      if (c == closing) closing = 0;
    } else if (c == '`' || c == '[') {
      closing = c == '[' ? ']' : c;
    } else if (c < '0' || c > '9') {
      out += c;
    }
  }
  return out;
}

std::string short_name(const NodeLabel& n) {
  const std::string& name = n.name.empty() ? n.makes : n.name;
  return name.empty() ? "" : '`' + name + '`';
}

}  // namespace

std::string to_string(const NodeLabel& n) {
  std::string out = n.op + " node";
  if (!n.name.empty())
    out += " `" + n.name + "`";
  else if (!n.makes.empty())
    out += " that makes `" + n.makes + "`";
  return n.context.empty() ? out : fmt::format("{} ({})", out, n.context);
}

void Problems::add(const std::string& message, const std::string& hint) {
  list_.push_back({{}, message, hint, step_});
}

void Problems::add(const NodeLabel& node, const std::string& message, const std::string& hint) {
  list_.push_back({node, message, hint, step_});
}

void Problems::drop_steps(const std::vector<bool>& dropped) {
  std::erase_if(list_, [&](const Problem& p) { return p.step >= 0 && dropped[static_cast<size_t>(p.step)]; });
}

// In the order in which they came, an operator's next to each other.
std::vector<std::vector<Problems::Problem>> Problems::grouped() const {
  std::vector<std::vector<Problem>> out;
  std::map<std::string, size_t> place_of_op, group_of;
  std::vector<std::vector<size_t>> places;  // groups, by operator
  for (const Problem& p : list_) {
    const std::string& op = p.node.op;
    const auto place = op.empty() ? places.size() : place_of_op.try_emplace(op, places.size()).first->second;
    if (place == places.size()) places.emplace_back();
    const std::string key =
        fmt::format("{}\n{}\n{}\n{}", op, p.node.context, pattern_of(p.message), pattern_of(p.hint));
    const auto group = op.empty() ? out.size() : group_of.try_emplace(key, out.size()).first->second;
    if (group == out.size()) {
      out.emplace_back();
      places[place].push_back(group);
    }
    out[group].push_back(p);
  }
  std::vector<std::vector<Problem>> ordered;
  for (const std::vector<size_t>& groups : places)
    for (size_t g : groups) ordered.push_back(std::move(out[g]));
  return ordered;
}

void Problems::throw_if_any(const std::vector<std::string>& unknown_inputs,
                            const std::vector<std::string>& unbounded) const {
  if (list_.empty()) return;
  Diagnostic d;
  d.loc.file = file_;
  const auto text_of = [](const std::vector<Problem>& group) {
    const Problem& first = group.front();
    if (first.node.op.empty()) return first.message;
    if (group.size() == 1) return fmt::format("{}: {}", to_string(first.node), first.message);
    std::string names;
    for (size_t i = 0; i < std::min(group.size(), kNames); ++i)
      names += (i ? ", " : "") + short_name(group[i].node);
    if (group.size() > kNames) names += fmt::format(" and {} more", group.size() - kNames);
    const bool alike =
        std::all_of(group.begin(), group.end(), [&](const Problem& p) { return p.message == first.message; });
    return fmt::format("{} {} nodes ({}; {}): {}{}", group.size(), first.node.op, first.node.context, names,
                       first.message,
                       alike ? "" : fmt::format(" (of {}; the others are alike)", short_name(first.node)));
  };
  const auto groups = grouped();
  if (groups.size() == 1) {
    d.message = text_of(groups[0]);
    d.hint = groups[0][0].hint;
  } else {
    d.message = fmt::format("the model has {} problems", groups.size());
    for (const auto& group : groups) {
      const std::string text = text_of(group);
      d.notes.push_back(group[0].hint.empty() ? text : fmt::format("{} ({})", text, group[0].hint));
    }
  }
  if (!unknown_inputs.empty()) throw NeedsValues(unknown_inputs, unbounded, d);
  throw UserError(d);
}

}  // namespace nestor
