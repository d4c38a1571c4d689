// The reference for a function: its unscheduled loop nest in f64, with a bound on rounding errors.
#include "src/driver/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nestor/driver.h"
#include "nestor/instruction.h"
#include "nestor/interpret.h"
#include "nestor/verify.h"
#include "nestor/walk.h"
#include "schedules/library/analysis.h"

namespace nestor {

namespace {

// Reductions across lanes as plain loops: text of a scheduled function comes with them, and the oracle's
// loops, which also sum up error bounds, have more statements than such a reduction may have.
class WithoutLaneSums : public Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    const Stmt out = children(s);
    const auto* loop = out.as<For>();
    if (!loop || loop->kind != ForKind::vectorized || !reduces_lanes(*loop)) return out;
    return make::loop(loop->var, loop->extent, loop->body, ForKind::serial, loop->thread, loop->annotations);
  }
};

// Large sums with the results' last dimension innermost, a few lanes at a time. Their own order reads an
// operand by columns, a cache miss for each product (1024^3: 25 s, so 2). By the plainest primitives, which
// leave each result's terms in their order; where one is refused, or an operand isn't dense along the lanes,
// a sum stays as it is.
class InLanes {
 public:
  static PrimFunc of(const PrimFunc& f) {
    InLanes in(f);
    for (const std::string& name : block_names(f)) in.order(name);
    return in.s_.func();
  }

 private:
  static constexpr double kPays = 1e7;  // products
  static constexpr int64_t kLanes = 32, kDense = 8;

  explicit InLanes(const PrimFunc& f) : s_(f) {}

  static bool pays(const library::BlockInfo& b) {
    const auto all = b.spatial();
    if (all.empty() || b.reduced().empty() || !b.affine_loops) return false;
    double products = 1;
    for (const library::Iter& i : b.iters) products *= static_cast<double>(i.extent);
    return products >= kPays && std::all_of(b.accesses.begin(), b.accesses.end(), [&](const auto& a) {
             const auto stride = a.stride(*all.back());
             return stride && std::abs(*stride) <= kDense;
           });
  }

  void order(const std::string& name) {
    const library::BlockInfo b = library::analyze(s_.func(), name);
    if (!pays(b)) return;
    const QuietRefusals quiet;
    Schedule next = s_;
    const library::Iter& last = *b.spatial().back();
    std::vector<std::string> inner;
    for (const LoopInfo& l : loops_of(s_.func(), name))
      if (const library::Iter* i = b.iter(l.name); i && i->reduce) inner.push_back(l.name);
    try {
      if (last.extent > kLanes) {
        next(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", last.loop, name, kLanes));
        inner.insert(inner.end(), {last.loop + "0", last.loop + "1"});
      } else {
        inner.push_back(last.loop);
      }
      next(fmt::format("reorder {} ({})", name, fmt::join(inner, " ")));
      next(fmt::format("vectorize {}.{}", name, inner.back()));
    } catch (const ScheduleError&) {
      return;
    }
    s_ = next;
  }

  Schedule s_;
};

// What is made of bits, polynomials or instructions of its own type has no f64 form: the interpreter says
// what it gives, in its own types.
Oracle interpreted_oracle(const PrimFunc& f, const std::vector<Tensor>& inputs, const std::string& why) {
  Oracle oracle;
  oracle.unbounded = why;
  std::vector<Tensor> args = random_args(f, 1);
  for (size_t i = 0, next = 0; i < args.size(); ++i)
    if (f.params[i].role != Role::out) args[i] = inputs.at(next++);
  interpret(f, args);
  for (size_t i = 0; i < args.size(); ++i)
    if (f.params[i].role == Role::out) oracle.wanted.push_back(args[i]);
  oracle.bounds.resize(oracle.wanted.size());
  return oracle;
}

}  // namespace

PrimFunc in_oracle_order(const PrimFunc& func) {
  PrimFunc f = without_instructions(func);  // a machine instruction is what its block says
  f.body = WithoutLaneSums().stmt(f.body);
  return InLanes::of(f);
}

Oracle make_oracle(const PrimFunc& func, const std::vector<Tensor>& inputs, const Target& target) {
  const PrimFunc f = in_oracle_order(func);
  Oracle oracle;
  std::vector<Tensor> exact;
  for (const Tensor& t : inputs) exact.push_back(is_float(t.dtype()) ? t.cast(DType::f64) : t);
  const std::optional<PrimFunc> bounded = with_error_bound(f, &oracle.unbounded);
  PrimFunc reference;
  try {
    reference = bounded ? *bounded : to_f64(f);
  } catch (const UserError& e) {
    return interpreted_oracle(func, inputs, e.diagnostic().message);
  }
  oracle.wanted = run_function(compile_function(reference, ScheduleChoice{}, target), exact, target);
  size_t outputs = 0;
  for (const Param& p : f.params) outputs += p.role == Role::out;
  oracle.bounds.resize(outputs);
  for (size_t i = 0, next = outputs; bounded && i < outputs; ++i)
    if (!is_bool(oracle.wanted[i].dtype())) oracle.bounds[i] = oracle.wanted[next++];
  oracle.wanted.resize(outputs);
  return oracle;
}

Comparison compare(const Tensor& got, const Oracle& oracle, size_t output, double factor) {
  const Tensor& bound = oracle.bounds.at(output);
  return bound.defined() ? compare(got, oracle.wanted[output], bound, factor)
                         : compare(got, oracle.wanted[output]);
}

}  // namespace nestor
