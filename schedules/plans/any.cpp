#include "schedules/plans/any.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/words.h"

namespace nestor::plans {

namespace {

using library::Access;
using library::BlockInfo;
using library::Iter;

constexpr size_t kMostBlocks = 16;  // more are what graph passes make, of which other families know more

std::vector<std::string> up_to(std::initializer_list<int64_t> sizes, int64_t extent) {
  std::vector<std::string> out;
  for (const int64_t size : sizes)
    if (size == 1 || size <= extent) out.push_back(std::to_string(size));
  return out;
}

// Lanes along the iterator read or write neighbours somewhere, and nothing else than neighbours or one
// element where that can be told.
bool has_neighbours(const BlockInfo& b, const Iter& i) {
  return std::any_of(b.accesses.begin(), b.accesses.end(),
                     [&](const Access& a) { return a.uses(i) && a.stride(i) == 1; });
}

class AnySpace : public PlanSpace {
 public:
  AnySpace(const PrimFunc& f, std::vector<PlanBlock> blocks, const Target& target)
      : func_(f), blocks_(std::move(blocks)), target_(target) {
    for (const PlanBlock& b : blocks_) add_fields(b);
  }

  const std::string& family() const override {
    static const std::string name = "any";
    return name;
  }
  const std::vector<PlanField>& fields() const override { return fields_; }

  std::string misfit(const SchedulePlan& plan) const override {
    const std::vector<BlockPlan> plans = read(plan);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const BlockInfo& b = blocks_[i].info;
      if (!blocks_[i].reads.empty() && (plans[i].place == "outer" || plans[i].place == "tile"))
        for (size_t k = 0; k < i; ++k)
          if (blocks_[k].info.name == blocks_[i].reads && plans[k].place != "root")
            return fmt::format("{} and {} each go to the other", blocks_[k].info.name, b.name);
      if (plans[i].place != "root") continue;
      int64_t accumulators = plans[i].lanes == "none" ? 1 : plans[i].width, unrolled = 1;
      for (const Iter& iter : b.iters) {
        const auto inner = plans[i].inner.find(iter.loop);
        if (inner == plans[i].inner.end() || iter.loop == plans[i].lanes) continue;
        (iter.reduce ? unrolled : accumulators) *= std::min(inner->second, iter.extent);
      }
      const int64_t registers = target_.vector_registers - 2;
      if (b.reduction && plans[i].local && accumulators > registers)
        return fmt::format("{} results of {} don't fit {} registers", accumulators, b.name, registers);
      if (accumulators * unrolled > kMostUnrolled)
        return fmt::format("{} steps of {} would be written out", accumulators * unrolled, b.name);
    }
    return "";
  }

  Trace emit(const SchedulePlan& plan) const override { return emit_any(func_, blocks_, read(plan)); }

 private:
  static constexpr int64_t kMostUnrolled = 512;

  void add(const std::string& name, std::vector<std::string> values) {
    if (values.size() > 1) fields_.push_back({name, std::move(values)});
  }

  void add_fields(const PlanBlock& block) {
    const BlockInfo& b = block.info;
    if (block.keeps_order) return;
    std::vector<std::string> places = {"root"};
    if (block.moves && !b.reduction) places.push_back("inline");
    if (block.moves || !block.reads.empty()) places.insert(places.end(), {"outer", "tile"});
    add(b.name + ".place", places);
    std::vector<std::string> lanes;
    for (const Iter& i : b.iters)
      if (!i.loop.empty() && i.extent > 1 && has_neighbours(b, i)) lanes.push_back(i.loop);
    lanes.push_back("none");
    add(b.name + ".lanes", lanes);
    add(b.name + ".width", {"1", "2", "3", "4", "6", "8"});
    int64_t loops = 0;
    for (const Iter& i : b.iters) {
      if (i.loop.empty() || i.extent < 2) continue;
      const std::string loop = b.name + "." + i.loop;
      if (!i.reduce) {
        ++loops;
        add(loop + ".tile", up_to({1, 2, 4, 8, 16, 32, 64, 128}, i.extent));
      }
      add(loop + ".inner", i.reduce ? up_to({1, 2, 4, 8, 16}, i.extent)
                                    : up_to({1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}, i.extent));
    }
    std::vector<std::string> parallel;
    for (int64_t n = std::min<int64_t>(loops, 3); n >= 0; --n) parallel.push_back(std::to_string(n));
    add(b.name + ".parallel", parallel);
    add(b.name + ".tail", {"peel", "mask", "guard", "balanced"});
    if (b.reduction) add(b.name + ".local", {"yes", "no"});
    for (const std::string& c : block.constants) add(b.name + ".pack." + c, {"yes", "no"});
  }

  std::vector<BlockPlan> read(const SchedulePlan& plan) const {
    std::map<std::string, std::string> said;
    for (size_t i = 0; i < fields_.size(); ++i) said[fields_[i].name] = plan.values[i];
    const auto value = [&](const std::string& name, const std::string& otherwise) {
      const auto it = said.find(name);
      return it == said.end() ? otherwise : it->second;
    };
    std::vector<BlockPlan> out;
    for (const PlanBlock& block : blocks_) {
      const BlockInfo& b = block.info;
      BlockPlan p;
      p.place = value(b.name + ".place", "root");
      p.lanes = value(b.name + ".lanes", "none");
      p.width = std::stoll(value(b.name + ".width", "1"));
      for (const Iter& i : b.iters) {
        if (i.loop.empty()) continue;
        const std::string loop = b.name + "." + i.loop;
        if (!i.reduce) p.tile[i.loop] = std::stoll(value(loop + ".tile", "1"));
        p.inner[i.loop] = std::stoll(value(loop + ".inner", "1"));
      }
      p.parallel = std::stoll(value(b.name + ".parallel", "0"));
      p.tail = value(b.name + ".tail", "peel");
      p.local = value(b.name + ".local", "yes") == "yes";
      for (const std::string& c : block.constants)
        if (value(b.name + ".pack." + c, "no") == "yes") p.packed.push_back(c);
      out.push_back(std::move(p));
    }
    return out;
  }

  PrimFunc func_;
  std::vector<PlanBlock> blocks_;
  Target target_;
  std::vector<PlanField> fields_;
};

bool has_known_extents(const PrimFunc& f) {
  bool known = true;
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* loop = s.as<For>()) {
      const auto extent = as_int(loop->extent);
      known &= extent && *extent > 0;
    }
  });
  return known;
}

}  // namespace

std::vector<PlanBlock> plan_blocks(const PrimFunc& f, const Target& target) {
  std::vector<PlanBlock> out;
  for (const std::string& name : block_names(f)) {
    PlanBlock p;
    p.info = library::analyze(f, name);
    const BlockInfo& b = p.info;
    if (!b.output) return {};
    const bool sole_writer = library::writers_of(f, b.output).size() == 1;
    p.moves = !b.output_is_param && sole_writer && library::readers_of(f, b.output).size() == 1;
    if (!b.reduction)
      for (const PlanBlock& before : out)
        if (before.info.reduction && library::epilogue_of(f, before.info) == name) p.reads = before.info.name;
    for (const Access& a : b.accesses) {
      // What reads what it wrote, or shares its loops with others, keeps them.
      p.keeps_order |= !b.reduction && !a.write && a.buffer == b.output;
      if (a.constant && a.strides.size() > 1 && a.has_plain_indices() &&
          !std::count(p.constants.begin(), p.constants.end(), a.buffer->name))
        p.constants.push_back(a.buffer->name);
    }
    for (const std::string& other : block_names(f))
      p.keeps_order |= other != name && library::share_a_loop(f, name, other);
    p.moves &= !p.keeps_order;
    p.lanes = std::max(1, target.lanes(std::max(4, bytes_of(b.output->type.dtype))));
    out.push_back(std::move(p));
  }
  return out;
}

std::unique_ptr<PlanSpace> any_plans(const PrimFunc& f, const Target& target) {
  if (target.kind != TargetKind::cpu || !has_known_extents(f)) return nullptr;
  std::vector<PlanBlock> blocks = plan_blocks(f, target);
  if (blocks.empty() || blocks.size() > kMostBlocks) return nullptr;
  return std::make_unique<AnySpace>(f, std::move(blocks), target);
}

}  // namespace nestor::plans
