// Reductions over pieces of long rows: a softmax whose rows leave the caches takes the maxima of small pieces
// and then the sums of the same pieces' exponentials. The second reduction follows the first within the loop
// over pieces, so that a piece comes from memory once; lanes go across the columns of a piece:
//
//   rows | pieces { k { lanes of the first }, k { lanes of the second } }
//
// What is left, the pieces' results for each row and the map that uses them, are blocks of their own.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

// Dense lanes, then steps, in all that the block touches as large as a piece may be.
bool reduces_pieces(const BlockInfo& b, const Target& target) {
  const std::vector<const Iter*> spatial = b.spatial(), reduced = b.reduced();
  if (!b.reduction || spatial.size() < 2 || reduced.size() != 1 || !b.affine_loops) return false;
  const Iter& l = *spatial.back();
  for (const Access& a : b.accesses)
    if (a.stride(l) != 1) return false;
  return l.extent * reduced[0]->extent * bytes_of(b.output->type.dtype) <= target.l1_bytes / 2;
}

// A reduction brings the pieces' results together: these aren't rows themselves.
bool is_reduced_again(const PrimFunc& f, const BlockInfo& first) {
  for (const std::string& name : readers_of(f, first.output)) {
    const BlockInfo b = analyze(f, name);
    for (const Access& a : b.accesses)
      for (const Iter* r : b.reduced())
        if (a.buffer == first.output && a.uses(*r)) return true;
  }
  return false;
}

// The reduction that reads `first`, of the same pieces of the same input; empty where there is none.
std::string second_of(const PrimFunc& f, const BlockInfo& first, const Target& target) {
  const auto reads = [](const BlockInfo& b, const Buffer& buffer) {
    return std::any_of(b.accesses.begin(), b.accesses.end(),
                       [&](const Access& a) { return !a.write && a.buffer == buffer; });
  };
  const auto same = [](const Iter* x, const Iter* y) { return x->extent == y->extent; };
  for (const std::string& name : readers_of(f, first.output)) {
    const BlockInfo b = analyze(f, name);
    if (!reduces_pieces(b, target)) continue;
    const auto s1 = first.spatial(), s2 = b.spatial(), r1 = first.reduced(), r2 = b.reduced();
    bool shared = false;
    for (const Access& a : first.accesses)
      shared |= !a.write && a.buffer != first.output && reads(b, a.buffer);
    if (shared && std::equal(s1.begin(), s1.end(), s2.begin(), s2.end(), same) &&
        std::equal(r1.begin(), r1.end(), r2.begin(), r2.end(), same))
      return name;
  }
  return "";
}

void vectorize_steps(Schedule& s, const std::string& block, const std::string& steps,
                     const std::string& lanes) {
  s(fmt::format("vectorize {}.{}", block, lanes));
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, steps));
}

}  // namespace

bool join_pieces(Schedule& s, const Target& target) {
  std::string first, second;
  for (const std::string& name : block_names(s.func())) {
    const BlockInfo b = analyze(s.func(), name);
    if (!reduces_pieces(b, target) || !is_reduced_again(s.func(), b)) continue;
    second = second_of(s.func(), b, target);
    first = name;
    if (!second.empty()) break;
  }
  if (second.empty()) return false;
  const BlockInfo b = analyze(s.func(), first);
  const std::vector<const Iter*> spatial = b.spatial();
  const std::string piece = spatial[spatial.size() - 2]->loop, lanes = spatial.back()->loop,
                    steps = b.reduced()[0]->loop;
  std::vector<std::string> outside;
  for (const Iter* i : spatial)
    if (i != spatial.back()) outside.push_back(i->loop);
  std::string order;
  for (const std::string& l : outside) order += l + " ";
  Work work = work_of(b, target) + work_of(analyze(s.func(), second), target);
  for (const std::string& name : {first, second})
    s(fmt::format("reorder {} ({}{} {})", name, order, steps, lanes));
  s.because("a part of a row is read from memory once and stays in L1");
  s(fmt::format("reverse_compute_at {} {}.{}", second, first, piece));
  for (const std::string& name : {first, second}) vectorize_steps(s, name, steps, lanes);
  s(fmt::format("annotate {}.{} peel=1", first, piece));
  share_loops(s, first, outside, work, target);
  for (const std::string& name : block_names(s.func())) {
    const BlockInfo other = analyze(s.func(), name);
    if (name == first || name == second || name == first + "_init" || name == second + "_init") continue;
    if (!other.reduction) {
      spread_map(s, name, target);
      continue;
    }
    s(fmt::format("{0}_init = decompose_reduction {0}.{1}", name, other.reduced()[0]->loop));
    vectorize_reduction(s, name);
  }
  return true;
}

}  // namespace nestor::library
