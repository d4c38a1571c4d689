// Elementwise producers move into their consumers where that costs no repeated work that matters.
#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

// How often a consumer reads each element: the product of the iterators that its access doesn't move with,
// and of taps.
bool reads_repeatedly(const BlockInfo& consumer, const Buffer& buffer) {
  int count = 0;
  for (const Access& a : consumer.accesses) {
    if (a.buffer != buffer || a.write) continue;
    ++count;
    for (const Iter& i : consumer.iters)
      if (i.extent > 1 && !a.uses(i)) return true;
    // A window: an S and an R iterator in one index.
    for (const Expr& e : a.indices) {
      bool spatial = false, reduce = false;
      for (const Iter& i : consumer.iters)
        if (i.extent > 1 && uses_var(e, i.var)) (i.reduce ? reduce : spatial) = true;
      if (spatial && reduce) return true;
    }
  }
  return count > 1;
}

// How many elements of the producer are computed for one that it has, where the consumer reads several
// different ones: rows of an image between which others are made, say.
double computed_again(const BlockInfo& producer, const BlockInfo& consumer) {
  std::vector<const Access*> different;
  for (const Access& a : consumer.accesses)
    if (a.buffer == producer.output && !a.write &&
        std::none_of(different.begin(), different.end(), [&](const Access* d) {
          return std::equal(a.indices.begin(), a.indices.end(), d->indices.begin(), d->indices.end(),
                            [](const Expr& x, const Expr& y) { return structural_equal(x, y); });
        }))
      different.push_back(&a);
  if (different.size() < 2) return 1;
  return static_cast<double>(different.size()) * static_cast<double>(consumer.instances()) /
         static_cast<double>(producer.instances());
}

// Whether what the buffer holds says where others are read. Such an access is no longer one along lines once
// loads stand in it, and the place would be computed for each element there.
bool says_where(const BlockInfo& consumer, const Buffer& buffer) {
  for (const Access& a : consumer.accesses)
    for (const Expr& index : a.indices) {
      bool found = false;
      for_each_expr(index, [&](const Expr& e) {
        const auto* load = e.as<Load>();
        found = found || (load && load->buffer == buffer);
      });
      if (found) return true;
    }
  return false;
}

// Operations of one expression: passes walk it recursively, and a chain of blocks may be of any length.
constexpr int kLargest = 4000;

int operations(const PrimFunc& f, const BlockInfo& b) {
  int n = 0;
  for_each_expr(find_block(f, b.name)->body, [&](const Expr&) { ++n; });
  return n;
}

bool worth_inlining(const PrimFunc& f, const BlockInfo& b) {
  constexpr double kTwice = 2;
  if (b.reduction || b.output_is_param || operations(f, b) > kLargest) return false;
  const std::vector<std::string> readers = readers_of(f, b.output);
  const bool dear = b.has_math || b.has_select || b.accesses.size() > 4 || is_table(f, b);
  for (const std::string& r : readers) {
    const BlockInfo reader = analyze(f, r);
    if (reads_repeatedly(reader, b.output) && (dear || says_where(reader, b.output))) return false;
    if (!b.copies && computed_again(b, reader) >= kTwice) return false;
  }
  return !readers.empty() && (readers.size() == 1 || !dear);
}

}  // namespace

bool is_table(const PrimFunc& f, const BlockInfo& b) {
  bool divides = false, reads = false;
  for_each_expr(find_block(f, b.name)->body, [&](const Expr& e) {
    const auto* binary = e.as<Binary>();
    divides = divides || (binary && (binary->op == BinaryOp::div || binary->op == BinaryOp::mod));
    reads = reads || e.as<Load>();
  });
  return divides && !reads;
}

void inline_producers(Schedule& s) {
  for (const std::string& name : block_names(s.func()))
    if (find_block(s.func(), name) && worth_inlining(s.func(), analyze(s.func(), name)))
      s.try_step("compute_inline " + name);
}

}  // namespace nestor::library
