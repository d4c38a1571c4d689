// The fields of a block's plan and the meaning of their values. The first value of a field is the one that is
// usually good.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/plans/any.h"

namespace nestor::plans {

namespace {

using library::Access;
using library::BlockInfo;
using library::Iter;
using Values = std::vector<std::string>;

constexpr int64_t kFewestSteps = 64;  // of a part of a reduction

// Those of the sizes that the extent has.
Values up_to(std::initializer_list<int64_t> sizes, int64_t extent) {
  Values out;
  for (const int64_t size : sizes)
    if (size == 1 || size <= extent) out.push_back(std::to_string(size));
  return out;
}

// How a long reduction is cut.
void add_cuts(const PlanBlock& block, const Target& target, const auto& add) {
  const BlockInfo& b = block.info;
  const Iter* k = b.iter(block.longest);
  if (!k) return;
  Values steps = {"0"}, parts = {"1"};
  for (const int64_t n : {64, 128, 256, 512, 1024})
    if (2 * n <= k->extent) steps.push_back(std::to_string(n));
  add("steps", steps);
  if (steps.size() > 1) add("steps_outside", {"no", "yes"});
  const int64_t results = b.instances() / std::max<int64_t>(1, b.reduction_size());
  // Results of all parts are added up: few, of a reduction that is long.
  if (target.cores > 1 && results * kFewestSteps <= b.reduction_size() * 16)
    for (int64_t n = 2; n <= 4 * target.cores && n * kFewestSteps <= k->extent; n *= 2)
      parts.push_back(std::to_string(n));
  add("parts", parts);
  add("sums", {"no", "yes"});
}

}  // namespace

bool PlanBlock::is_constant(const std::string& buffer) const {
  return std::count(constants.begin(), constants.end(), buffer) > 0;
}

bool PlanBlock::has_lanes(const Iter& i) const {
  if (i.loop.empty() || i.extent < 2) return false;
  return std::any_of(info.accesses.begin(), info.accesses.end(), [&](const Access& a) {
    const std::string& buffer = a.buffer->name;
    const bool laid_out = !i.reduce && info.reduction &&
                          (is_constant(buffer) || std::count(inputs.begin(), inputs.end(), buffer) > 0);
    return a.uses(i) && (a.stride(i) == 1 || laid_out);
  });
}

int64_t PlanBlock::rest_of(const Iter& i) const {
  const int64_t rest = i.extent % lanes;
  return !i.reduce && i.extent > lanes && rest <= std::max<int64_t>(1, lanes / 4) ? rest : 0;
}

void add_fields(const PlanBlock& block, const Target& target, std::vector<PlanField>& fields) {
  const BlockInfo& b = block.info;
  if (block.keeps_order) return;
  const auto add = [&](const std::string& name, Values values) {
    if (values.size() > 1) fields.push_back({b.name + "." + name, std::move(values)});
  };
  Values places = {"root"}, lanes, spatial;
  if (block.moves && !b.reduction) places.push_back("inline");
  if (block.moves) places.insert(places.end(), {"outer", "tile"});
  if (!block.reads.empty()) places.insert(places.end(), {"follow-outer", "follow-tile"});
  if (!block.along.empty()) places.push_back("slide");
  add("place", places);
  for (const Iter& i : b.iters)
    if (!i.loop.empty() && i.extent > 1) {
      if (block.has_lanes(i)) lanes.push_back(i.loop);
      if (!i.reduce) spatial.push_back(i.loop);
    }
  lanes.push_back("none");
  add("lanes", lanes);
  add("width", {"1", "2", "3", "4", "6", "8"});
  for (const Iter& i : b.iters) {
    if (i.loop.empty() || i.extent < 2) continue;
    if (!i.reduce) add(i.loop + ".tile", up_to({1, 2, 4, 8, 16, 32, 64, 128}, i.extent));
    add(i.loop + ".inner", i.reduce ? up_to({1, 2, 4, 8, 16}, i.extent)
                                    : up_to({1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}, i.extent));
  }
  const bool has_rest = std::any_of(b.iters.begin(), b.iters.end(), [&](const Iter& i) {
    return block.has_lanes(i) && block.rest_of(i) > 0;
  });
  if (has_rest) add("rest", {"no", "yes"});
  add("outermost", spatial);
  add("nearest", Values(spatial.rbegin(), spatial.rend()));
  if (!block.dense.empty()) add("fused", {"no", "yes"});
  if (b.reduction) add_cuts(block, target, add);
  Values parallel;
  for (int64_t n = std::min<int64_t>(static_cast<int64_t>(spatial.size()), 3); n >= 0; --n)
    parallel.push_back(std::to_string(n));
  add("parallel", parallel);
  add("tail", {"peel", "mask", "guard", "balanced"});
  if (b.reduction) add("local", {"yes", "no"});
  const int64_t bytes =
      b.instances() / std::max<int64_t>(1, b.reduction_size()) * bytes_of(b.output->type.dtype);
  if (b.output_is_param && bytes >= 2 * target.l2_bytes) add("stream", {"no", "yes"});
  for (const std::string& c : block.constants) add("pack." + c, {"yes", "no"});
  for (const std::string& x : block.inputs) add("copy." + x, {"no", "yes"});
}

BlockPlan read_fields(const PlanBlock& block, const std::map<std::string, std::string>& said) {
  const BlockInfo& b = block.info;
  const auto value = [&](const std::string& name, const std::string& otherwise) {
    const auto it = said.find(b.name + "." + name);
    return it == said.end() ? otherwise : it->second;
  };
  const auto number = [&](const std::string& name, int64_t otherwise) {
    return std::stoll(value(name, std::to_string(otherwise)));
  };
  BlockPlan p;
  p.place = value("place", "root");
  p.lanes = value("lanes", "none");
  p.width = number("width", 1);
  for (const Iter& i : b.iters) {
    if (i.loop.empty()) continue;
    if (!i.reduce) p.tile[i.loop] = number(i.loop + ".tile", 1);
    p.inner[i.loop] = number(i.loop + ".inner", 1);
  }
  p.outermost = value("outermost", "");
  p.nearest = value("nearest", "");
  p.steps = number("steps", 0);
  p.steps_outside = value("steps_outside", "no") == "yes";
  p.parts = number("parts", 1);
  p.sums = value("sums", "no") == "yes";
  p.rest = value("rest", "no") == "yes";
  p.fused = value("fused", "no") == "yes";
  p.parallel = number("parallel", 0);
  p.tail = value("tail", "peel");
  p.local = value("local", "yes") == "yes";
  p.stream = value("stream", "no") == "yes";
  for (const std::string& c : block.constants)
    if (value("pack." + c, "no") == "yes") p.packed.push_back(c);
  for (const std::string& x : block.inputs)
    if (value("copy." + x, "no") == "yes") p.packed.push_back(x);
  return p;
}

}  // namespace nestor::plans
