// A tile matches an instruction only after several steps that fit together, which chance would rarely draw,
// so they are planned. Each iterator of the instruction gets a loop of the block, split to its extent. These
// loops become the innermost ones, in the instruction's order, and the init is moved in front of them.
#include "tests/fuzz/tensorize_plan.h"

#include <algorithm>
#include <optional>

#include "nestor/error.h"
#include "nestor/instruction.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

using Lines = std::vector<std::string>;

const std::string kFile = std::string(NESTOR_SOURCE_DIR) + "/tests/fuzz/instructions.nest";

bool is_for(const Instruction& i, bool cpu, bool gpu) {
  return i.lowerings.empty() || std::any_of(i.lowerings.begin(), i.lowerings.end(), [&](const auto& l) {
           return l.kind == TargetKind::cuda ? gpu && !cpu : cpu;
         });
}

// The same kind of statement; what is in it is for `tensorize` to say.
bool is_near(const Block& b, const Instruction& i) {
  const Block& want = i.block();
  const auto same = [](const Expr& x, const Expr& y) {
    return x.type() == y.type() && x->v.index() == y->v.index();
  };
  const auto *have = b.body.as<Update>(), *update = want.body.as<Update>();
  if (have && update) return have->op == update->op && same(have->value, update->value);
  const auto *store = b.body.as<Store>(), *stored = want.body.as<Store>();
  return store && stored && same(store->value, stored->value);
}

class Plan {
 public:
  Plan(const Schedule& s, std::string block, const Instruction& i, std::mt19937_64& rng)
      : s_(s), name_(std::move(block)), block_(*find_block(s.func(), name_)), i_(i), rng_(rng) {}

  std::optional<Lines> lines(bool warp) {
    const std::string n = std::to_string(s_.trace().steps.size());
    std::vector<LoopInfo> loops = loops_of(s_.func(), name_);
    Lines order, inner;
    for (const LoopInfo& l : loops) order.push_back(l.name);
    for (const IterVar& want : i_.block().iters) {
      const auto loop = choose(want, loops, inner.size() ? taken_ : Lines{});
      if (!loop) return std::nullopt;
      taken_.push_back(loop->name);
      const int64_t size = *as_int(want.extent);
      const auto at = std::find(order.begin(), order.end(), loop->name);
      if (loop->extent == size) {
        inner.push_back(loop->name);
        order.erase(at);
        continue;
      }
      const std::string outer = loop->name + "o" + n;
      inner.push_back(loop->name + "i" + n);
      out_.push_back(outer + " " + inner.back() + " = split " + name_ + "." + loop->name + " [_, " +
                     std::to_string(size) + "]");
      *at = outer;
      if (want.kind == IterKind::reduce) reduced_.push_back(outer);
    }
    finish(order, inner, n, warp);
    return out_;
  }

 private:
  // A loop that an iterator of this kind runs with, and that the extent divides.
  std::optional<LoopInfo> choose(const IterVar& want, const std::vector<LoopInfo>& loops,
                                 const Lines& taken) {
    std::vector<LoopInfo> found;
    for (const LoopInfo& l : loops) {
      if (l.kind != ForKind::serial || l.extent < 1 || l.extent % *as_int(want.extent)) continue;
      if (std::count(taken.begin(), taken.end(), l.name)) continue;
      for (const IterVar& i : block_.iters) {
        bool uses = false;
        for_each_expr(i.binding, [&](const Expr& e) {
          uses = uses || (e.as<VarRef>() && e.as<VarRef>()->var->name == l.name);
        });
        if (uses && i.kind == want.kind) found.push_back(l);
      }
    }
    if (found.empty()) return std::nullopt;
    return found[rng_() % found.size()];
  }

  void finish(Lines order, const Lines& inner, const std::string& n, bool warp) {
    const Lines outer = order;
    order.insert(order.end(), inner.begin(), inner.end());
    std::string names;
    for (const std::string& l : order) names += (names.empty() ? "" : " ") + l;
    if (order.size() > 1) out_.push_back("reorder " + name_ + " (" + names + ")");
    if (block_.init) {
      // In front of the first loop that is summed over, or of the tile.
      std::string at = inner[0];
      for (size_t i = outer.size(); i-- > 0;)
        if (sums(outer[i])) at = outer[i];
      out_.push_back("Z" + n + " = decompose_reduction " + name_ + "." + at);
    }
    const std::string call = "Q" + n + " = tensorize " + name_ + "." + inner[0] + " " + i_.name;
    if (warp && block_.init && inner.size() == 3) {  // the init by the warp's threads, too
      out_.push_back("z" + n + " = fuse Z" + n + " (" + inner[0] + " " + inner[1] + ")");
      out_.push_back("y" + n + " w" + n + " = split Z" + n + ".z" + n + " [_, 32]");
      out_.push_back("bind Z" + n + ".w" + n + " threadIdx.x");
      out_.push_back("bind " + name_ + "." + outer[0] + " blockIdx.x");
    }
    out_.push_back(call);
  }

  bool sums(const std::string& loop) const {
    if (std::count(reduced_.begin(), reduced_.end(), loop)) return true;
    for (const IterVar& i : block_.iters) {
      bool uses = false;
      for_each_expr(i.binding, [&](const Expr& e) {
        uses = uses || (e.as<VarRef>() && e.as<VarRef>()->var->name == loop);
      });
      if (uses && i.kind == IterKind::reduce) return true;
    }
    return false;
  }

  const Schedule& s_;
  const std::string name_;
  const Block& block_;
  const Instruction& i_;
  std::mt19937_64& rng_;
  Lines out_, taken_, reduced_;
};

bool accepted(const Schedule& s, const Lines& lines) {
  Schedule copy = s;
  try {
    for (const std::string& line : lines) copy(line);
    return true;
  } catch (const ScheduleError&) {
    return false;
  }
}

}  // namespace

void read_fuzz_instructions() {
  static const bool once = (read_instructions(kFile), true);
  static_cast<void>(once);
}

std::vector<std::string> plan_tensorize(const Schedule& s, const std::string& focus, bool cpu, bool gpu,
                                        std::mt19937_64& rng) {
  read_fuzz_instructions();
  const std::vector<std::string> blocks = block_names(s.func()), instructions = instruction_names();
  if (blocks.empty()) return {};
  Lines last, fallback;
  for (int tries = 0; tries < 24; ++tries) {
    const bool there = std::find(blocks.begin(), blocks.end(), focus) != blocks.end();
    const std::string& block = there && rng() % 2 ? focus : blocks[rng() % blocks.size()];
    const Instruction& i = *find_instruction(instructions[rng() % instructions.size()]);
    if (!is_for(i, cpu, gpu) || !is_near(*find_block(s.func(), block), i)) continue;
    const bool warp = !i.lowerings.empty() && i.lowerings[0].threads > 1;
    auto lines = Plan(s, block, i, rng).lines(warp);
    if (!lines) continue;
    bool legal = accepted(s, *lines);
    if (!legal && rng() % 8) {  // perhaps the block of tiles is there already, and has its name
      lines->back() = lines->back().substr(lines->back().find("tensorize"));
      legal = accepted(s, *lines);
    }
    if (legal) {
      // Copies are everywhere, what a machine has a name for is not.
      if (!i.lowerings.empty() || tries > 8) return *lines;
      fallback = *lines;
    }
    last = *lines;
  }
  return fallback.empty() ? last : fallback;
}

}  // namespace nestor
