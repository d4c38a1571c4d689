#include "src/report/roofline.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "nestor/walk.h"
#include "src/report/padding.h"

namespace nestor::report {

namespace {

// Counts what is different: a term that doesn't move with a loop is computed, or loaded, once for all of it.
class Count : public Walker {
 public:
  explicit Count(const PrimFunc& f) : padding_(f) { stmt(f.body); }
  double operations = 0;
  std::unordered_map<Buffer, double> loads;

  void stmt(const Stmt& s) override {
    if (const auto* loop = s.as<For>()) return within(loop->var, loop->extent, loop->body);
    if (const auto* block = s.as<Block>()) {  // its beginning runs once in a reduction: left out
      const auto outside = vars_;
      vars_.clear();
      for (const IterVar& i : block->iters) vars_.emplace_back(i.var, size_of(i.extent));
      stmt(block->body);
      vars_ = outside;
      return;
    }
    known_.clear();
    if (const auto* update = s.as<Update>()) {
      double all = 1;
      for (const auto& [var, size] : vars_) all *= size;
      const auto* product = update->value.as<Binary>();
      const bool of_floats = is_float(update->value.dtype());
      if (update->op == ReduceOp::add) share_ = padding_.share(update->value, vars_);
      if (of_floats) operations += share_ * all;
      if (!of_floats && product && product->op == BinaryOp::mul) operations += 2 * all;  // as much work
    }
    children(s);
    if (s.as<Update>()) share_ = 1;
  }
  void expr(const Expr& e) override {
    if (const auto* load = e.as<Load>()) loads[load->buffer] += times(e, moves_directly);
    if (const auto* select = e.as<Select>()) return branches(*select);
    const auto* call = e.as<Call>();
    const bool operates = is_float(e.dtype()) && (e.as<Binary>() || e.as<Unary>() || call);
    if (operates && !known_.insert(e).second) return;  // the same again
    if (operates) operations += share_ * times(e, uses) * (call && call->fn == Intrinsic::fma ? 2 : 1);
    children(e);
  }

 private:
  static double size_of(const Expr& extent) { return static_cast<double>(as_int(extent).value_or(1)); }
  void within(const Var& var, const Expr& extent, const Stmt& body) {
    vars_.emplace_back(var, size_of(extent));
    stmt(body);
    vars_.pop_back();
  }
  void branches(const Select& s) {
    const double outside = share_, taken = share_where(s.cond, vars_);
    expr(s.cond);
    share_ = outside * taken;
    expr(s.a);
    share_ = outside * (has_load(s.cond) ? 1 : 1 - taken);
    expr(s.b);
    share_ = outside;
  }
  static bool uses(const Expr& e, const Var& v) { return uses_var(e, v); }
  // Outside of indices that are computed from data, which may be the same ones again.
  static bool moves_directly(const Expr& load, const Var& v) {
    const std::vector<Expr>& indices = load.as<Load>()->indices;
    return std::any_of(indices.begin(), indices.end(),
                       [&](const Expr& i) { return !has_load(i) && uses_var(i, v); });
  }
  template <class Moves>
  double times(const Expr& e, const Moves& moves) const {
    double out = 1;
    for (const auto& [var, size] : vars_)
      if (moves(e, var)) out *= size;
    return out;
  }
  std::unordered_set<Expr, HashExpr, SameExpr> known_;  // of a statement
  Padding padding_;
  Iterations vars_;   // of the block, or of loops around no block
  double share_ = 1;  // of the iterations, that do something
};

}  // namespace

FunctionWork least_work(const PrimFunc& f) {
  Count count(f);
  FunctionWork w;
  w.operations = count.operations;
  int narrowest = 8;
  for (const Param& p : f.params) {
    const DType type = p.decl.buffer->type.dtype;
    double elements = 1;
    for (const Expr& e : p.decl.shape) elements *= static_cast<double>(as_int(e).value_or(1));
    if (p.role != Role::out) {
      elements = std::min(elements, count.loads[p.decl.buffer]);
      if (type != DType::boolean) narrowest = std::min(narrowest, bytes_of(type));
    }
    w.bytes += elements * bytes_of(type);
  }
  w.operations_at_once = 4.0 / narrowest;
  return w;
}

Roofline::Roofline(const Target& target, int threads)
    : threads_(std::max(1, std::min(threads, host_target().cores))), loop_(target) {
  measure_peak(20);
}

void Roofline::measure_peak(double ms) {
  using Clock = std::chrono::steady_clock;
  using Ns = std::chrono::duration<double, std::nano>;
  for (const auto start = Clock::now(); Ns(Clock::now() - start).count() < ms * 1e6;) {
    const auto begin = Clock::now();
    loop_.run();
    peak_gflops_ = std::max(peak_gflops_, threads_ * loop_.flops() / Ns(Clock::now() - begin).count());
  }
}

void Roofline::measure_copies() {
  for (auto& [bytes, gbs] : copy_gbs_) gbs = std::max(gbs, measure_copy_gbs(bytes));
}

double Roofline::copy_gbs(int64_t bytes) {
  const auto [place, fresh] = copy_gbs_.try_emplace(bytes, 0);
  if (fresh) place->second = measure_copy_gbs(bytes);
  return place->second * threads_;
}

std::vector<std::pair<int64_t, double>> Roofline::copies() const {
  std::vector<std::pair<int64_t, double>> out;
  for (const auto& [bytes, gbs] : copy_gbs_) out.emplace_back(bytes, gbs * threads_);
  return out;
}

Bound Roofline::bound_of(const FunctionWork& w) {
  constexpr double kLeast = 1 << 14, kMost = 1 << 27;  // bytes copied
  // Half of the bytes are read, half are written; each thread has its part.
  const double copied = std::clamp(w.bytes / 2 / threads_, kLeast, kMost);
  const auto size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(copied)));
  return {w.operations / (peak_gflops_ * w.operations_at_once), w.bytes / copy_gbs(size)};
}

}  // namespace nestor::report
