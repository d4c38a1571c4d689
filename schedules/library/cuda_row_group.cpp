// Which blocks belong to one row-wise work. A reduction's results are numbered by its rows. Whoever reads or
// writes a temporary that is indexed by rows has iterators that number them too: so the labels of the
// dimensions spread from block to block. A block all of whose labels were found belongs to the group.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "nestor/walk.h"
#include "schedules/library/cuda_rows.h"
#include "schedules/library/cuda_work.h"

namespace nestor::library {

namespace {

constexpr int kNone = -1;

class Labels {
 public:
  Labels(const PrimFunc& f, const BlockInfo& reduction) : f_(f) {
    for (const Iter* i : reduction.spatial())
      if (i->extent > 1) {
        iters_[i->var] = static_cast<int>(extents_.size());
        extents_.push_back(i->extent);
      }
  }

  int count() const { return static_cast<int>(extents_.size()); }
  int64_t rows() const {
    int64_t n = 1;
    for (const int64_t e : extents_) n *= e;
    return n;
  }
  int of(const Iter& i) const {
    const auto it = iters_.find(i.var);
    return it == iters_.end() ? kNone : it->second;
  }

  // What the block's iterators are called, after the temporaries that it touches, and the other way round.
  // True where something new was found.
  bool spread(const BlockInfo& b) {
    bool found = false;
    for (const Access& a : b.accesses) {
      if (find_param(f_, a.buffer)) continue;
      std::vector<int>& dims = dims_[a.buffer];
      dims.resize(a.indices.size(), kNone);
      for (size_t d = 0; d < dims.size(); ++d) {
        const auto* v = a.indices[d].as<VarRef>();
        if (!v) continue;
        const Iter* i = nullptr;
        for (const Iter& own : b.iters)
          if (own.var == v->var) i = &own;
        if (!i || i->reduce) continue;
        const int label = of(*i);
        if (label == kNone && dims[d] != kNone && i->extent == extents_[static_cast<size_t>(dims[d])]) {
          iters_[i->var] = dims[d];
          found = true;
        } else if (label != kNone && dims[d] == kNone) {
          dims[d] = label;
          found = true;
        }
      }
    }
    return found;
  }

 private:
  const PrimFunc& f_;
  std::vector<int64_t> extents_;
  std::unordered_map<Var, int> iters_;
  std::unordered_map<Buffer, std::vector<int>> dims_;
};

// The operand of a row: it moves with all of the iterators, as no operand of a product does.
const Access* operand_of_rows(const BlockInfo& b) {
  for (const Access& a : b.accesses) {
    if (a.write) continue;
    const auto moves = [&](const Iter& i) { return i.extent == 1 || a.uses(i); };
    if (std::all_of(b.iters.begin(), b.iters.end(), moves)) return &a;
  }
  return nullptr;
}

bool has_plain_loops(const PrimFunc& f, const BlockInfo& b) {
  const std::vector<LoopInfo> loops = loops_of(f, b.name);
  const auto plain = [&](const LoopInfo& l) {
    return l.kind == ForKind::serial && l.extent > 0 && (l.extent == 1 || b.iter(l.name));
  };
  return std::all_of(loops.begin(), loops.end(), plain) &&
         std::all_of(b.iters.begin(), b.iters.end(),
                     [](const Iter& i) { return i.extent == 1 || !i.loop.empty(); });
}

// The block with its loops told apart; nothing where it isn't of these rows.
std::optional<RowBlock> row_block(const PrimFunc& f, const Labels& labels, const BlockInfo& info) {
  if (!has_plain_loops(f, info) || !info.output) return std::nullopt;
  RowBlock out{info, {}, {}, {}, 1};
  for (const LoopInfo& l : loops_of(f, info.name))
    if (!info.iter(l.name)) out.units.push_back(l.name);
  out.rows.resize(static_cast<size_t>(labels.count()), nullptr);
  return out;
}

// `rows` and `inner` point into `info`, which has its place.
bool tell_apart(const Labels& labels, RowBlock& b) {
  for (const Iter& i : b.info.iters) {
    const int label = labels.of(i);
    if (i.loop.empty()) continue;
    if (label == kNone && i.extent == 1 && !i.reduce) {
      b.units.push_back(i.loop);
    } else if (label == kNone) {
      if (b.info.reduction && !i.reduce && i.extent > 1) return false;
      b.inner.push_back(&i);
      b.length *= i.extent;
    } else {
      const Iter*& row = b.rows[static_cast<size_t>(label)];
      if (row || i.reduce) return false;
      row = &i;
    }
  }
  if (b.info.reduction && b.length == 1) return false;
  return std::none_of(b.rows.begin(), b.rows.end(), [](const Iter* i) { return i == nullptr; });
}

}  // namespace

const RowBlock& RowGroup::longest() const {
  return *std::max_element(blocks.begin(), blocks.end(),
                           [](const RowBlock& a, const RowBlock& b) { return a.length < b.length; });
}

RowGroup row_group(const PrimFunc& f, const std::vector<std::string>& candidates, const std::string& block) {
  std::vector<BlockInfo> infos;
  size_t from = candidates.size();
  for (const std::string& name : candidates) {
    if (name == block) from = infos.size();
    infos.push_back(analyze(f, name));
  }
  if (from == candidates.size() || !infos[from].reduction || !has_plain_loops(f, infos[from])) return {};
  const Access* operand = operand_of_rows(infos[from]);
  if (!operand) return {};

  Labels labels(f, infos[from]);
  for (bool found = true; found;) {
    found = false;
    for (const BlockInfo& b : infos) found |= labels.spread(b);
  }
  const auto belongs = [&](const BlockInfo& b) {
    std::optional<RowBlock> r = row_block(f, labels, b);
    return r && tell_apart(labels, *r) && (!b.reduction || operand_of_rows(b));
  };
  size_t first = from, last = from;
  while (first > 0 && belongs(infos[first - 1])) --first;
  while (last + 1 < infos.size() && belongs(infos[last + 1])) ++last;
  if (!belongs(infos[from])) return {};

  RowGroup out;
  out.rows = labels.rows();
  out.blocks.reserve(last - first + 1);
  for (size_t i = first; i <= last; ++i) {
    out.blocks.push_back(*row_block(f, labels, infos[i]));
    tell_apart(labels, out.blocks.back());
  }
  const RowBlock& center = out.blocks[from - first];
  for (const Access& a : center.info.accesses)
    if (a.buffer == operand->buffer && !a.write && !center.inner.empty()) {
      const Iter* closest = nullptr;
      for (const Iter& i : center.info.iters)
        if (i.extent > 1 &&
            (!closest || a.stride(i).value_or(1 << 30) < a.stride(*closest).value_or(1 << 30)))
          closest = &i;
      out.along_row = !closest || labels.of(*closest) == kNone;
      break;
    }
  return out;
}

RowShape row_shape(const RowGroup& g, int64_t elements, int64_t piece) {
  constexpr int64_t kWarp = 32, kMostThreads = 1024;
  constexpr int64_t kOneWarp = 1024;  // elements of a row up to which a warp has it
  constexpr int64_t kPerThread = 16;  // elements of longer rows
  const int64_t most = std::min(kMostThreads, power_of_two_from(elements / piece));
  RowShape s;
  s.threads = elements <= kOneWarp
                  ? std::min(kWarp, most)
                  : std::min(kMostThreads, power_of_two_from(ceil_div(elements, kPerThread)));
  while (g.rows * s.threads < kEnoughThreads && s.threads < most) s.threads *= 2;
  while (s.threads * s.rows < kRowBlock && g.rows >= 2 * s.rows * kMultiprocessors) s.rows *= 2;
  return s;
}

}  // namespace nestor::library
