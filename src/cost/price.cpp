// The price of a nest, as Goto and van de Geijn reason about one (Anatomy of High-Performance Matrix
// Multiplication, TOMS 34(3), 2008), and the roofline of each level of memory (Williams et al., CACM 52(4),
// 2009):
//
//  - The body of the innermost loop that stays a loop, with what is unrolled and vectorized in it, takes the
//    most that one kind of port is busy, or what sums in it wait for themselves.
//  - What a cache level doesn't hold comes from the one below: the bytes that are touched while the outermost
//    loop runs whose data the level holds, as often as the loops around it run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "nestor/cost.h"
#include "nestor/layout.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/cost/nests.h"

namespace nestor {

namespace {

using cost::Loop;
using cost::Nest;
using cost::Touch;

constexpr double kLine = 64;
constexpr double kOverlap = 0.15;    // of what isn't most, a part that shows anyway
constexpr double kForward = 8;       // cycles from a store to a load of the same
constexpr double kUpdate = 2;        // stores that one costs after which the same is loaded
constexpr double kUnforwarded = 12;  // more, where it stores a part of a vector: no load gets that from it

// Elements between neighbours along the loop; nothing where that isn't a constant.
std::optional<int64_t> stride_along(const Touch& t, const Loop& loop,
                                    const std::unordered_map<Buffer, std::vector<int64_t>>& strides) {
  int64_t sum = 0;
  const auto s = strides.find(t.buffer);
  if (s == strides.end() || s->second.size() != t.indices.size()) return std::nullopt;
  for (size_t d = 0; d < t.indices.size(); ++d) {
    if (!uses_var(t.indices[d], loop.var)) continue;
    const auto affine = as_affine(t.indices[d]);
    if (!affine) {
      const Expr here = substitute(t.indices[d], VarMap{{loop.var, Expr(0)}}),
                 next = substitute(t.indices[d], VarMap{{loop.var, Expr(1)}});
      const auto step = as_int(simplify(next - here));
      if (!step) return std::nullopt;
      sum += *step * s->second[d];
      continue;
    }
    sum += coefficient(*affine, loop.var) * s->second[d];
  }
  return sum;
}

void add(Cost& to, const Cost& c) {
  to.arithmetic += c.arithmetic;
  to.loads += c.loads;
  to.stores += c.stores;
  to.issue += c.issue;
  to.latency += c.latency;
  to.l2 += c.l2;
  to.l3 += c.l3;
  to.memory += c.memory;
  to.waiting += c.waiting;
  to.code += c.code;
  to.total += c.total;
}

class Pricer {
 public:
  Pricer(const PrimFunc& f, const Target& target, int threads)
      : machine_(machine_of(target)), threads_(threads), nests_(cost::nests_of(f, target)) {
    for (const auto& [buffer, decl] : declarations(f)) {
      const std::vector<int64_t> shape = physical_shape(decl);
      std::vector<int64_t> strides(shape.size(), 1);
      for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
      const std::vector<double> extents(shape.begin(), shape.end());
      strides_[buffer] = std::move(strides);
      shapes_[buffer] = extents;
    }
    std::unordered_set<Buffer> params;
    for (const auto& p : f.params) params.insert(p.decl.buffer);
    find_private(params);
  }

  Cost run() {
    // Nests that share outer loops are one for the caches.
    Cost all;
    for (size_t first = 0; first < nests_.size();) {
      size_t last = first + 1;
      while (last < nests_.size() && shared(nests_[first], nests_[last]) > 0) ++last;
      Cost c = moved(first, last);
      double busy = 0;
      for (size_t i = first; i < last; ++i) busy += compute(nests_[i], c);
      const double most = std::max({busy, c.l2, c.l3, c.memory});
      c.total = most + kOverlap * (busy + c.l2 + c.l3 + c.memory - most) + c.waiting;
      add(all, c);
      first = last;
    }
    return all;
  }

 private:
  // A temporary of which each iteration of a loop reads only what it writes is the iteration's own, and as
  // small: so for the innermost such loop around all that touch it (src/passes/compact.cpp).
  void find_private(const std::unordered_set<Buffer>& params) {
    struct Use {
      size_t nest, touch;
    };
    std::unordered_map<Buffer, std::vector<Use>> uses;
    for (size_t i = 0; i < nests_.size(); ++i)
      for (size_t k = 0; k < nests_[i].touches.size(); ++k)
        if (const Buffer& b = nests_[i].touches[k].buffer; !params.count(b)) uses[b].push_back({i, k});
    for (const auto& [buffer, all] : uses) {
      size_t depth = nests_[all[0].nest].loops.size();
      for (const Use& u : all) depth = std::min(depth, shared(nests_[all[0].nest], nests_[u.nest]));
      const auto most = [&](size_t from, bool write) {
        double bytes = 0;
        for (const Use& u : all) {
          const Touch& t = nests_[u.nest].touches[u.touch];
          if (write ? t.write : t.read) bytes = std::max(bytes, footprint(nests_[u.nest], t, from));
        }
        return bytes;
      };
      while (depth > 0 && most(depth, false) > most(depth, true)) --depth;
      private_[buffer] = depth;
    }
  }
  bool moves(const Nest& n, const Touch& t, size_t loop) const {
    const auto p = private_.find(t.buffer);
    return (p == private_.end() || loop >= p->second) && moves_with(t, n.loops[loop]);
  }

  static size_t shared(const Nest& a, const Nest& b) {
    size_t n = 0;
    while (n < a.loops.size() && n < b.loops.size() && a.loops[n].var == b.loops[n].var) ++n;
    return n;
  }

  double divided(const Nest& n, double* waiting) const {
    for (const Loop& l : n.loops)
      if (l.kind == ForKind::parallel && threads_ > 1) {
        const double rounds = std::ceil(l.extent / threads_);
        *waiting = machine_.wake_us * 1e3 * machine_.gigahertz / 4;
        return l.extent / rounds;
      }
    return 1;
  }

  // Cycles that ports or latency take, which are also added to what is told of them.
  double compute(const Nest& n, Cost& sum) const {
    double outer = 1, body_steps = 1, vectors = 1, chains = 1, chained = 1;
    const Loop* vector = nullptr;
    size_t inner = n.loops.size();
    while (inner > 0 && (n.loops[inner - 1].kind == ForKind::unrolled ||
                         n.loops[inner - 1].kind == ForKind::vectorized || n.loops[inner - 1].extent == 1))
      --inner;
    for (size_t i = 0; i < inner; ++i) outer *= n.loops[i].extent;
    const Touch* result = nullptr;
    for (const Touch& t : n.touches)
      if (t.write) result = &t;
    for (size_t i = inner; i < n.loops.size(); ++i) {
      const Loop& l = n.loops[i];
      const bool moves = result && moves_with(*result, l);
      if (l.kind == ForKind::vectorized) {
        vector = &l;
        vectors = std::ceil(l.extent / n.lanes);
        (moves || !n.reduces ? chains : chained) *=
            moves || !n.reduces ? vectors : std::max(1.0, vectors / 8);
      } else {
        body_steps *= l.extent;
        (moves ? chains : chained) *= l.extent;
      }
    }
    Cost c;
    const double operations = operations_of_body(n, inner);
    c.arithmetic = operations / machine_.fma_ports;
    double loads = 0, stores = 0;
    for (const Touch& t : n.touches) {
      if (t.in_registers) continue;
      double count = 1;
      for (size_t i = inner; i < n.loops.size(); ++i) {
        const Loop& l = n.loops[i];
        if (l.kind == ForKind::vectorized || !moves_with(t, l)) continue;
        count *= l.extent;
      }
      if (vector && moves_with(t, *vector)) {
        const auto stride = stride_along(t, *vector, strides_);
        const bool dense = stride && *stride == 1, turned = stride && *stride == -1,
                   near = stride && std::abs(*stride) == 2;
        count *= dense ? vectors : turned ? 1.5 * vectors : near ? 3 * vectors : 2 * vector->extent;
      }
      const bool hoisted = inner > 0 && !t.write && !moves_with(t, n.loops[inner - 1]) && count <= 4;
      if (t.read && !hoisted) loads += count;
      if (t.write) stores += t.read ? kUpdate * count : count;
      const bool partial = vector && moves_with(t, *vector) && std::fmod(vector->extent, n.lanes) > 0;
      if (t.write && t.read && partial) stores += kUnforwarded * count / vectors;
    }
    c.loads = loads / machine_.load_ports;
    c.stores = stores / machine_.store_ports;
    const double instructions = operations + loads + stores + (inner > 0 ? 3 : 0);
    c.issue = instructions / machine_.issue;
    // Long sums in lanes are loops of their own.
    c.code = vector_sums(n, vector, result) ? instructions / std::max(1.0, vectors / 8) : instructions;
    if (n.reduces) {
      const double step =
          machine_.fma_latency + (n.in_registers || vector_sums(n, vector, result) ? 0 : kForward);
      // Independent sums hide each other's latency; those beyond what one iteration has wait.
      c.latency = chained * step;
      // Where the loop outside moves the result, iterations overlap.
      if (inner > 0 && result && moves_with(*result, n.loops[inner - 1])) c.latency /= 4;
    }
    for (double* p : {&c.arithmetic, &c.loads, &c.stores, &c.issue, &c.latency}) *p *= outer;
    const double share = divided(n, &c.waiting);
    for (double* p : {&c.arithmetic, &c.loads, &c.stores, &c.issue, &c.latency}) *p /= share;
    c.waiting = 0;  // of the group
    add(sum, c);
    return std::max({c.arithmetic, c.loads, c.stores, c.issue, c.latency});
  }

  // Of the loops from `inner` on together: an operation is repeated by the loops that move its operands, and
  // moves out of the loops around these that don't.
  static double operations_of_body(const Nest& n, size_t inner) {
    double sum = 0;
    for (const auto& [moved, operations] : n.operations) {
      double count = operations;
      for (size_t i = inner; i < n.loops.size(); ++i) {
        const bool vector = n.loops[i].kind == ForKind::vectorized;
        if (moved & cost::bit_of(i))
          count *= vector ? std::ceil(n.loops[i].extent / n.lanes) : n.loops[i].extent;
      }
      bool in_body = false;
      for (size_t i = inner; i < n.loops.size(); ++i) in_body |= (moved & cost::bit_of(i)) != 0;
      for (size_t i = inner; !in_body && i-- > 0 && !(moved & cost::bit_of(i));) count /= n.loops[i].extent;
      sum += count;
    }
    return sum;
  }

  static bool vector_sums(const Nest& n, const Loop* vector, const Touch* result) {
    return n.reduces && vector && result && !moves_with(*result, *vector);
  }
  static bool moves_with(const Touch& t, const Loop& l) {
    return std::any_of(t.indices.begin(), t.indices.end(), [&](const Expr& e) { return uses_var(e, l.var); });
  }

  // Bytes of lines that the access touches while the loops from `from` on run.
  double footprint(const Nest& n, const Touch& t, size_t from) const {
    if (t.in_registers) return 0;
    if (const auto p = private_.find(t.buffer); p != private_.end()) from = std::max(from, p->second);
    Facts facts;
    for (size_t i = 0; i < n.loops.size(); ++i)
      facts.set(n.loops[i].var, {0, i < from ? 0 : static_cast<int64_t>(n.loops[i].extent) - 1});
    const auto shape = shapes_.find(t.buffer);
    double bytes = t.element;
    for (size_t d = 0; d < t.indices.size(); ++d) {
      const Interval r = range_of(t.indices[d], facts);
      const bool known = r.hi < Interval::kMax / 2 && r.lo > Interval::kMin / 2;
      double width = 1;  // at most as many as there are iterations, which matters where data say which
      for (size_t i = from; i < n.loops.size(); ++i)
        if (uses_var(t.indices[d], n.loops[i].var)) width *= n.loops[i].extent;
      if (known) width = std::min(width, static_cast<double>(r.hi - r.lo) + 1);
      if (shape != shapes_.end() && d < shape->second.size()) width = std::min(width, shape->second[d]);
      bytes *= width;
      if (d + 1 == t.indices.size() && width * t.element < kLine) bytes *= kLine / (width * t.element);
    }
    return bytes;
  }

  // What a group of nests has come to each level.
  Cost moved(size_t first, size_t last) const {
    size_t common = nests_[first].loops.size();
    for (size_t i = first + 1; i < last; ++i) common = std::min(common, shared(nests_[first], nests_[i]));
    Cost c;
    // What is written is read before. Caches take it back on lines of their own, memory on the same.
    const auto into = [&](const Machine::Level& level, double written) {
      double bytes = 0;
      if (everything() <= level.bytes) return bytes;
      // The outermost loop they share inside of which all that is touched fits.
      std::optional<size_t> fits;
      for (size_t from = 0; from <= common && !fits; ++from)
        if (together(first, last, from) <= level.bytes) fits = from;
      for (size_t i = first; i < last; ++i) {
        const Nest& n = nests_[i];
        size_t from = fits.value_or(common);
        if (!fits)
          for (from = common; from < n.loops.size(); ++from)
            if (together(i, i + 1, from) <= level.bytes) break;
        double times = 1;
        for (size_t k = 0; k < from && k < n.loops.size(); ++k) times *= n.loops[k].extent;
        std::map<const BufferNode*, double> seen;
        for (const Touch& t : n.touches) {
          if (t.write && n.streams) continue;
          // What one iteration of the loop outside shares with the next, a line or a stencil's rows, is found
          // again; and loops further out that don't move it find it while what they touch between fits.
          size_t k = from;
          double runs = times, all = times * footprint(n, t, from);
          if (k > 0 && moves(n, t, k - 1)) {
            runs /= n.loops[--k].extent;
            all = std::min(all, runs * footprint(n, t, k));
          }
          for (; k > 0 && !moves(n, t, k - 1) && footprint(n, t, k) <= level.bytes / 4; --k)
            all /= n.loops[k - 1].extent;
          double& most = seen[t.buffer.get()];
          most = std::max(most, all * (t.write ? written : 1));
        }
        for (const auto& [buffer, b] : seen) bytes += b;
      }
      return bytes;
    };
    const double share = divided(nests_[first], &c.waiting);
    const double l2 = into(machine_.l1, 1), l3 = into(machine_.l2, 1);
    double memory = into(machine_.l3, 2);
    for (size_t i = first; i < last; ++i)
      for (const Touch& t : nests_[i].touches)
        if (t.write && nests_[i].streams) memory += footprint(nests_[i], t, 0);
    c.l2 = l2 / machine_.l1.bytes_a_cycle / share;
    c.l3 = l3 / machine_.l2.bytes_a_cycle / share;
    c.memory = memory / machine_.l3.bytes_a_cycle / std::min(share, 2.0);
    return c;
  }
  // Bytes of the whole function, which is called again and again.
  double everything() const { return together(0, nests_.size(), 0); }
  double together(size_t first, size_t last, size_t from) const {
    std::map<const BufferNode*, double> seen;
    for (size_t i = first; i < last; ++i)
      for (const Touch& t : nests_[i].touches) {
        double& most = seen[t.buffer.get()];
        most = std::max(most, footprint(nests_[i], t, from));
      }
    double sum = 0;
    for (const auto& [buffer, b] : seen) sum += b;
    return sum;
  }

  Machine machine_;
  int threads_;
  std::vector<Nest> nests_;
  std::unordered_map<Buffer, std::vector<int64_t>> strides_;
  std::unordered_map<Buffer, std::vector<double>> shapes_;
  std::unordered_map<Buffer, size_t>
      private_;  // temporaries: so many loops around them don't make them larger
};

}  // namespace

std::string print(const Cost& c) {
  return fmt::format(
      "{:.0f} cycles: arithmetic {:.0f}, loads {:.0f}, stores {:.0f}, issue {:.0f}, latency {:.0f}, L2 "
      "{:.0f}, "
      "L3 {:.0f}, memory {:.0f}, waiting {:.0f}",
      c.total, c.arithmetic, c.loads, c.stores, c.issue, c.latency, c.l2, c.l3, c.memory, c.waiting);
}

Cost price(const PrimFunc& f, const Target& target, int threads) {
  return Pricer(f, target, threads).run();
}

}  // namespace nestor
