#include "schedules/library/product_chain.h"

#include <algorithm>
#include <set>

#include "nestor/walk.h"
#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

bool moves_operand(const PrimFunc& f, const BlockInfo& b) {
  if (b.reduction || b.output_is_param) return false;
  for (const Access& a : b.accesses)
    if (!a.write && !writers_of(f, a.buffer).empty()) return false;
  const std::vector<std::string> readers = readers_of(f, b.output);
  return readers.size() == 1 && is_product(analyze(f, readers[0]));
}

}  // namespace

std::optional<ProductChain> find_product_chain(const PrimFunc& f) {
  ProductChain c;
  std::vector<BlockInfo> blocks;
  std::set<Buffer> moved;
  for (const std::string& name : block_names(f)) {
    blocks.push_back(analyze(f, name));
    if (!moves_operand(f, blocks.back())) continue;
    moved.insert(blocks.back().output);
    c.moved.push_back(name);
    blocks.pop_back();
  }
  if (blocks.size() < 4 || !is_product(blocks.front())) return std::nullopt;
  size_t last = blocks.size() - 1;
  if (!blocks[last].reduction) c.epilogue = blocks[last--].name;
  if (last < 3 || !is_product(blocks[last])) return std::nullopt;
  for (size_t k = 1; k < last; ++k) {
    if (is_product(blocks[k]) || blocks[k].output_is_param) return std::nullopt;
    c.between.push_back(blocks[k].name);
  }
  c.first = blocks.front().name;
  c.second = blocks[last].name;
  for (const Access& a : blocks[last].accesses) {
    if (a.write || moved.count(a.buffer) || writers_of(f, a.buffer).empty()) continue;
    if (c.scores) return std::nullopt;
    c.scores = a.buffer;
  }
  return c.scores ? std::optional(c) : std::nullopt;
}

void inline_chain_maps(Schedule& s) {
  for (const std::string& name : block_names(s.func())) {
    const BlockInfo b = analyze(s.func(), name);
    if (b.reduction || b.output_is_param) continue;
    const std::vector<std::string> readers = readers_of(s.func(), b.output);
    if (readers.size() == 1 && !analyze(s.func(), readers[0]).reduction) s.try_step("compute_inline " + name);
  }
}

const Iter* lanes_in(const BlockInfo& b) {
  const Iter* found = nullptr;
  for (const Iter* i : b.spatial()) {
    bool dense = i->extent > 1 && !i->loop.empty();
    for (const Access& a : b.accesses) dense = dense && (!a.uses(*i) || a.stride(*i) == 1);
    if (dense) found = i;
  }
  return found;
}

const Iter* iter_at(const BlockInfo& b, const Access& a, size_t dim) {
  const auto* r = dim < a.indices.size() ? a.indices[dim].as<VarRef>() : nullptr;
  for (const Iter& i : b.iters)
    if (r && r->var == i.var) return &i;
  return nullptr;
}

size_t dim_of(const BlockInfo& b, const Access& a, const Iter& i) {
  size_t d = 0;
  while (d < a.indices.size() && iter_at(b, a, d) != &i) ++d;
  return d;
}

const Access& access_to(const BlockInfo& b, const Buffer& buffer, bool write) {
  return *std::find_if(b.accesses.begin(), b.accesses.end(),
                       [&](const Access& a) { return a.buffer == buffer && a.write == write; });
}

// A sum of products of two operands, neither of which all S iterators move: each is read again and again, not
// just two or three times.
bool is_product(const BlockInfo& b) {
  int reads = 0;
  for (const Access& a : b.accesses) {
    if (a.write) continue;
    ++reads;
    bool reused = false;
    for (const Iter* i : b.spatial()) reused = reused || (i->extent >= kFewestRows && !a.uses(*i));
    if (!reused) return false;
  }
  return b.reduction && reads == 2 && b.reduced().size() == 1;
}

}  // namespace nestor::library
