// Sizes that values decide (found_sizes.h): counts that operators make, and integers of the model of which
// --dim says how large they may be. From there on they are symbols.
#include <fmt/format.h>

#include <algorithm>

#include "src/graph/build_parts.h"
#include "src/graph/builder.h"
#include "src/graph/edit.h"
#include "src/graph/found_sizes.h"

namespace nestor {

// The size is a symbol from here on, unless it is known already.
void Builder::build_found(const ModelNode& mn, Node n) {
  const ValueId out = find(mn.outputs[0]);
  value_of(g_, out).type = {DType::i64, {}};
  known_[static_cast<size_t>(out)] = true;
  const Value& count = value_of(g_, n.inputs[0]);
  if (count.constant.defined() || !count.elements.empty()) {
    value_of(g_, out).constant = count.constant;
    value_of(g_, out).elements = count.elements;
    return;
  }
  if (!options_.control_flow)
    return refuse(mn, "sizes that values decide aren't supported on this target", "a CPU as target");
  const std::string wanted = symbol_found_by(n);
  std::string name = wanted;
  for (int k = 1; g_.symbols->find(name); ++k) name = fmt::format("{}{}", wanted, k);
  const auto said = options_.open.find(name);
  const OpenSize bounds = said == options_.open.end() ? OpenSize{.least = 0} : said->second;
  const Dim size = g_.symbols->add_found(name, min(size_in(n.inputs[1]).value(), Dim(bounds.most)),
                                         bounds.least, bounds.typical);
  if (const auto it = options_.found.find(name); it != options_.found.end())
    value_of(g_, out).constant = number(it->second, DType::i64);
  else
    value_of(g_, out).elements = {size.expr()};
  n.inputs.pop_back();
  n.attrs["symbol"] = name;
  n.outputs = {add_unread({DType::i64, {}})};
  value_of(g_, n.outputs[0]).name = name;
  value_of(g_, n.outputs[0]).producer = static_cast<int>(g_.nodes.size());
  g_.nodes.push_back(std::move(n));
}

namespace {

constexpr int64_t kMostSizes = 8;  // in one list

// Whether it may be taken for sizes: a few integers that are computed at run time.
bool may_be_sizes(const Value& v) {
  return (v.type.dtype == DType::i64 || v.type.dtype == DType::i32) && v.type.shape.known() &&
         product(v.type.shape) >= 1 && product(v.type.shape) <= kMostSizes && !v.constant.defined() &&
         v.elements.empty();
}

// What --dim calls element k.
std::string size_name(const Value& v, int64_t k) {
  return product(v.type.shape) == 1 ? v.name : fmt::format("{}.{}", v.name, k);
}

}  // namespace

// Where --dim bounds an integer that the model computes, those who read it from here on read the symbol.
void Builder::take_for_sizes(ValueId v) {
  if (options_.open.empty() || !may_be_sizes(value_of(g_, v))) return;
  const Value value = value_of(g_, v);
  const int64_t count = product(value.type.shape);
  const auto bounded = [&](int64_t k) { return options_.open.count(size_name(value, k)) > 0; };
  bool any = false;
  for (int64_t k = 0; k < count; ++k) any = any || bounded(k);
  const auto by_name = by_name_.find(value.name);
  if (!any || by_name == by_name_.end() || by_name->second != v) return;
  ModelNode mn;
  mn.op = value.name;
  mn.outputs = {value.name};
  for (int64_t k = 0; k < count; ++k)
    if (!bounded(k))
      return refuse(
          mn, fmt::format("--dim bounds some of its {} elements and not `{}`", count, size_name(value, k)));
  const std::string list = fresh_(value.name + ".list"), wide = fresh_(value.name + ".wide"),
                    whole = fresh_(value.name + ".shape");
  Tensor length(DType::i64, {1});
  length.set_int(0, count);
  std::vector<ModelNode> nodes = {plain(mn, "Constant", {}, whole, {{"value", length}}),
                                  plain(mn, "Reshape", {value.name, whole}, list),
                                  plain(mn, "Cast", {list}, wide, {{"to", std::string("i64")}})};
  const std::string most = add_number(mn, Symbols::kMost, DType::i64);
  std::vector<std::string> found;
  for (int64_t k = 0; k < count; ++k) {
    const std::string one = fresh_(size_name(value, k) + ".element");
    found.push_back(fresh_(size_name(value, k) + ".size"));
    nodes.push_back(plain(mn, "Gather", {wide, add_number(mn, k, DType::i64)}, one));
    nodes.push_back(plain(mn, "FoundSize", {one, most}, found.back(), {{"symbol", size_name(value, k)}}));
    nodes.back().domain = "nestor";
    nodes.back().opset = 1;
    read_.insert(found.back());
  }
  add_inner(nodes);
  std::vector<Expr> elements;
  for (const std::string& size : found) {
    const std::vector<Expr> is = known_elements(value_of(g_, find(size)));
    if (is.empty()) return;  // refused
    elements.push_back(is[0]);
  }
  const ValueId sizes = define(fresh_(value.name + ".sizes"), "sizes", value.type, true);
  value_of(g_, sizes).elements = elements;
  if (const Tensor known = constant_of_elements(value_of(g_, sizes)); known.defined()) {
    value_of(g_, sizes).constant = known;
    value_of(g_, sizes).elements.clear();
  }
  by_name_[value.name] = sizes;
}

std::string how_to_bound(const std::vector<std::string>& sizes) {
  std::string out;
  for (const std::string& name : sizes) out += fmt::format("--dim {}=..512 ", name);
  if (out.empty()) return "";
  return out + (sizes.size() == 1
                    ? "where it is a size, of at most that"
                    : "where they are sizes, of at most that; --dim '*=..512' bounds all there are");
}

// How to bound the integers that a list of sizes is made of; empty where they are none.
std::string Builder::ask_for_bounds(ValueId v) {
  std::set<std::string> names;
  std::vector<ValueId> left = {v};
  static const std::set<std::string> hands_on = {"Concat",  "Unsqueeze", "Squeeze",
                                                 "Reshape", "Cast",      "Identity"};
  while (!left.empty()) {
    const Value& value = value_of(g_, left.back());
    left.pop_back();
    if (value.constant.defined() || !value.elements.empty()) continue;
    const Node* maker = value.producer < 0 ? nullptr : &g_.nodes[static_cast<size_t>(value.producer)];
    const auto is_real = [&](ValueId of) { return is_float(value_of(g_, of).type.dtype); };
    if (maker && maker->domain.empty() && hands_on.count(maker->op) && !is_real(maker->inputs[0])) {
      left.insert(left.end(), maker->inputs.begin(), maker->inputs.end());
      continue;
    }
    if (!may_be_sizes(value)) return "";
    for (int64_t k = 0; k < product(value.type.shape); ++k) names.insert(size_name(value, k));
  }
  if (names.empty() || !options_.control_flow) return "";
  unbounded_.insert(names.begin(), names.end());
  return how_to_bound({names.begin(), names.end()});
}

std::string Builder::ask_for_value_or_bounds(ValueId v) {
  return v < 0 ? "" : either(ask_for(v), ask_for_bounds(v));
}

}  // namespace nestor
