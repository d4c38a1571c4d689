#include "schedules/plans/any.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"

namespace nestor::plans {

namespace {

using library::Access;
using library::BlockInfo;
using library::Iter;

constexpr size_t kMostBlocks = 16;  // more are what graph passes make, of which other families know more

class AnySpace : public PlanSpace {
 public:
  AnySpace(const PrimFunc& f, std::vector<PlanBlock> blocks, const Target& target)
      : func_(f), blocks_(std::move(blocks)), target_(target) {
    for (const PlanBlock& b : blocks_) add_fields(b, target, fields_);
  }

  const std::string& family() const override {
    static const std::string name = "any";
    return name;
  }
  const std::vector<PlanField>& fields() const override { return fields_; }

  std::string misfit(const SchedulePlan& plan) const override {
    const std::vector<BlockPlan> plans = read(plan);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (std::string why = misplaced(i, plans); !why.empty()) return why;
      if (plans[i].place != "root") continue;
      if (std::string why = overflow(blocks_[i], plans[i]); !why.empty()) return why;
    }
    return "";
  }

  Trace emit(const SchedulePlan& plan) const override { return emit_any(func_, blocks_, read(plan)); }

 private:
  static constexpr int64_t kMostUnrolled = 512;
  static constexpr int64_t kMostScalars = 64;  // LLVM looks for vectors among them

  // Where blocks that go to each other don't agree.
  std::string misplaced(size_t i, const std::vector<BlockPlan>& plans) const {
    const PlanBlock& b = blocks_[i];
    const BlockPlan& p = plans[i];
    for (size_t k = i + 1; p.goes() && k < blocks_.size(); ++k)
      if (std::string why = apart_from(b, p, k, plans[k]); !why.empty()) return why;
    for (size_t k = 0; p.follows() && k < i; ++k) {
      const std::string& read = blocks_[k].info.name;
      if (read != b.reads) continue;
      if (plans[k].place != "root") return fmt::format("{} and {} each go to the other", read, b.info.name);
      if (plans[k].rest) return fmt::format("{} is made by two blocks", read);
      if (plans[k].parts > 1) return fmt::format("{} is complete after all of its parts only", read);
      if (plans[k].steps > 0 && p.place == "follow-tile")
        return fmt::format("{} isn't complete in a tile", read);
    }
    return "";
  }

  // Why the block can't go to block k, where that reads it. Of several readers the others go to the last.
  std::string apart_from(const PlanBlock& b, const BlockPlan& p, size_t k, const BlockPlan& reader) const {
    const std::string& name = blocks_[k].info.name;
    if (!std::count(b.readers.begin(), b.readers.end(), name)) return "";
    if (reader.rest) return fmt::format("{} is read by two blocks", b.info.name);
    if (name != b.readers.back() && reader.place != "outer" && reader.place != "tile")
      return fmt::format("{} doesn't stand where {} could be made for all that read it", name, b.info.name);
    if (p.place == "slide" && (reader.place != "root" || reader.fused || reader.steps > 0 ||
                               !std::count(b.along.begin(), b.along.end(), first_over_tiles(k, reader))))
      return fmt::format("{} has no tiles along which {} could slide", name, b.info.name);
    return "";
  }

  // The outermost loop over the tiles that stay in a cache; empty: there is none.
  std::string first_over_tiles(size_t i, const BlockPlan& p) const {
    std::string nearest;
    for (const Iter& iter : blocks_[i].info.iters) {
      const auto tile = p.tile.find(iter.loop);
      if (tile == p.tile.end() || tile->second < 2) continue;
      const int64_t inner = iter.loop == p.lanes ? p.width * blocks_[i].lanes : p.inner.at(iter.loop);
      if (inner >= iter.extent) continue;
      if (iter.loop != p.nearest) return iter.loop;
      nearest = iter.loop;
    }
    return nearest;
  }

  // What of a tile is too much.
  std::string overflow(const PlanBlock& block, const BlockPlan& p) const {
    const BlockInfo& b = block.info;
    const Iter* lanes = b.iter(p.lanes);
    if (lanes && lanes->reduce && (p.steps > 0 || p.sums))
      return fmt::format("lanes along {} have sums of their own", p.lanes);
    if (p.rest && (p.parts > 1 || p.steps > 0 || p.sums || p.fused)) return "the rest has a sum of its own";
    if (p.steps > 0 && p.sums) return "steps that stay in a cache don't have sums of their own";
    int64_t accumulators = lanes ? p.width : 1, unrolled = 1;
    for (const Iter& iter : b.iters) {
      const auto inner = p.inner.find(iter.loop);
      if (inner == p.inner.end() || &iter == lanes) continue;
      const bool has_sums = !iter.reduce || (p.sums && iter.loop == block.longest);
      (has_sums ? accumulators : unrolled) *= std::min(inner->second, iter.extent);
    }
    const int64_t registers = target_.vector_registers - 2;
    const bool in_registers = p.local || p.steps > 0 || p.sums;
    if (b.reduction && in_registers && accumulators > registers)
      return fmt::format("{} results of {} don't fit {} registers", accumulators, b.name, registers);
    if (accumulators * unrolled > (lanes ? kMostUnrolled : kMostScalars))
      return fmt::format("{} steps of {} would be written out", accumulators * unrolled, b.name);
    return "";
  }

  std::vector<BlockPlan> read(const SchedulePlan& plan) const {
    std::map<std::string, std::string> said;
    for (size_t i = 0; i < fields_.size(); ++i) said[fields_[i].name] = plan.values[i];
    std::vector<BlockPlan> out;
    for (const PlanBlock& block : blocks_) out.push_back(read_fields(block, said));
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

// The last loops, spatial or of the reduction, that every access walks as if they were one.
std::vector<std::string> dense_loops(const BlockInfo& b) {
  std::vector<std::string> out;
  const Iter* inside = nullptr;
  for (size_t k = b.iters.size(); k-- > 0;) {
    const Iter& i = b.iters[k];
    if (i.reduce != b.reduction) continue;
    const bool dense = !i.loop.empty() &&
                       (!inside || std::all_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
                         if (!a.uses(i) && !a.uses(*inside)) return true;
                         const auto outer = a.stride(i), inner = a.stride(*inside);
                         return outer && inner && *outer == *inner * inside->extent;
                       }));
    if (!dense) break;
    out.insert(out.begin(), i.loop);
    inside = &i;
  }
  return out.size() > 1 ? out : std::vector<std::string>{};
}

// The block's spatial loops along which it reads elements of the buffer in several iterations: a stencil or
// windows.
std::vector<std::string> loops_along(const BlockInfo& b, const Buffer& buffer) {
  std::vector<std::string> out;
  for (const Iter& i : b.iters) {
    if (i.reduce || i.loop.empty()) continue;
    int64_t reads = 0;
    for (const Access& a : b.accesses)
      for (const Expr& e : a.indices)
        if (a.buffer == buffer && uses_var(e, i.var)) reads += e.as<VarRef>() ? 1 : 2;
    if (reads > 1) out.push_back(i.loop);
  }
  return out;
}

// Whether some spatial loop reads the same elements again.
bool is_read_again(const BlockInfo& b, const Access& a) {
  return std::any_of(b.iters.begin(), b.iters.end(),
                     [&](const Iter& i) { return !i.reduce && i.extent > 1 && !a.uses(i); });
}

}  // namespace

std::vector<PlanBlock> plan_blocks(const PrimFunc& f, const Target& target) {
  std::vector<PlanBlock> out;
  const auto add_once = [](std::vector<std::string>& to, const std::string& name) {
    if (!std::count(to.begin(), to.end(), name)) to.push_back(name);
  };
  for (const std::string& name : block_names(f)) {
    PlanBlock p;
    p.info = library::analyze(f, name);
    const BlockInfo& b = p.info;
    if (!b.output) return {};
    const bool sole_writer = library::writers_of(f, b.output).size() == 1;
    p.readers = library::readers_of(f, b.output);
    p.moves = !b.output_is_param && sole_writer && !p.readers.empty();
    if (!b.reduction)
      for (const PlanBlock& before : out)
        if (before.info.reduction && library::epilogue_of(f, before.info) == name) p.reads = before.info.name;
    for (const Access& a : b.accesses) {
      // What reads what it wrote, or shares its loops with others, keeps them.
      p.keeps_order |= !b.reduction && !a.write && a.buffer == b.output;
      if (a.strides.size() < 2 || !a.has_plain_indices()) continue;
      if (a.constant)
        add_once(p.constants, a.buffer->name);
      else if (b.reduction && a.buffer != b.output && is_read_again(b, a))
        add_once(p.inputs, a.buffer->name);
    }
    for (const std::string& other : block_names(f))
      p.keeps_order |= other != name && library::share_a_loop(f, name, other);
    p.moves &= !p.keeps_order;
    if (p.moves && p.readers.size() == 1)
      p.along = loops_along(library::analyze(f, p.readers.front()), b.output);
    int64_t longest = 1;
    for (const Iter& i : b.iters)
      if (i.reduce && !i.loop.empty() && i.extent > longest) {
        longest = i.extent;
        p.longest = i.loop;
      }
    p.dense = dense_loops(b);
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
