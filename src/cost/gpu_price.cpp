// The price of a kernel, in the manner of a roofline of each of a multiprocessor's parts (Williams et al.,
// CACM 52(4), 2009) with waves of blocks (Hong and Kim, An Analytical Model for a GPU Architecture, ISCA
// 2009): counted are the instructions, operations, sectors and shared-memory passes of one warp in the middle
// of the grid, every loop by its extent and every condition as true for all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nestor/gpu_cost.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/cost/gpu_access.h"

namespace nestor {

namespace {

using cost::Moved;

constexpr double kWarp = 32;
constexpr double kSchedulers = 4;       // of a multiprocessor, a warp's instruction a cycle each
constexpr double kSector = 32;          // bytes
constexpr double kL1Bytes = 64;         // a cycle
constexpr double kWait = 500;           // cycles for device memory
constexpr double kUnderWay = 4;         // loads of a thread at a time
constexpr double kOtherRegisters = 24;  // addresses, indices, what is under way
constexpr double kMostRegisters = 255;
constexpr double kLaunch = 4000;   // cycles between two kernels
constexpr double kOverlap = 0.15;  // of what isn't most, a part that shows anyway
constexpr double kBarrier = 30;    // cycles

struct Counted {
  double operations = 0, instructions = 0, shared = 0, ideal_shared = 0, sectors = 0, ideal_sectors = 0,
         waits = 0;
};

// One kernel: its nest of block and thread loops, and what a warp does inside.
class Kernel {
 public:
  Kernel(const Stmt& kernel, const std::unordered_map<Buffer, BufferDecl>& decls) : decls_(decls) {
    for_each_stmt(kernel, [&](const Stmt& s) {
      if (const auto* a = s.as<Alloc>()) inside_[a->decl.buffer] = a->decl;
      const auto* f = s.as<For>();
      if (!f || f->kind != ForKind::thread || f->thread == ThreadTag::vthread) return;
      const auto extent = static_cast<double>(as_int(f->extent).value_or(1));
      (f->thread >= ThreadTag::thread_x ? out_.threads : out_.blocks) *= extent;
      if (f->thread >= ThreadTag::thread_x)
        threads_.push_back(f);
      else
        middle_[f->var] = static_cast<int64_t>(extent) / 2;
    });
    make_lanes();
    walk(kernel, 1);
  }

  GpuKernelCost run(const GpuMachine& m) {
    occupancy(m);
    const double warps = std::ceil(out_.threads / kWarp);
    const double of_one =
        std::ceil(out_.blocks / m.multiprocessors) * warps;  // warps of the busiest multiprocessor
    out_.arithmetic = of_one * counted_.operations * kWarp / m.fp32_lanes;
    out_.issue = of_one * counted_.instructions / kSchedulers;
    out_.shared = of_one * counted_.shared;
    out_.l1 = of_one * counted_.sectors * kSector / kL1Bytes;
    out_.latency = std::ceil(out_.waves) * counted_.waits;
    out_.memory = memory_bytes(m, warps) / (m.memory_gbs / m.gigahertz);
    const double all = warps * out_.blocks;
    out_.sectors = all * counted_.sectors;
    out_.ideal_sectors = all * counted_.ideal_sectors;
    out_.wavefronts = all * counted_.shared;
    out_.ideal_wavefronts = all * counted_.ideal_shared;
    const std::pair<double, const char*> parts[] = {{out_.memory, "device memory"},
                                                    {out_.arithmetic, "arithmetic"},
                                                    {out_.issue, "instructions"},
                                                    {out_.shared, "shared memory"},
                                                    {out_.l1, "L1"},
                                                    {out_.latency, "latency"}};
    double most = -1, sum = 0;
    for (const auto& [cycles, name] : parts) {
      sum += cycles;
      if (cycles > most) out_.binds = name;
      most = std::max(most, cycles);
    }
    out_.total = most + kOverlap * (sum - most);
    return out_;
  }

 private:
  const BufferDecl& decl_of(const Buffer& b) const {
    const auto it = inside_.find(b);
    return it != inside_.end() ? it->second : decls_.at(b);
  }
  static double bytes_of_decl(const BufferDecl& d) {
    double n = bytes_of(d.buffer->type.dtype);
    for (const Expr& e : d.shape) n *= static_cast<double>(as_int(e).value_or(1));
    return n;
  }

  // The threads of the first warp, x fastest.
  void make_lanes() {
    for (int64_t lane = 0; lane < static_cast<int64_t>(std::min(kWarp, out_.threads)); ++lane) {
      Values at = middle_;
      int64_t left = lane;
      std::vector<const For*> order = threads_;
      std::sort(order.begin(), order.end(), [](const For* a, const For* b) { return a->thread < b->thread; });
      for (const For* f : order) {
        const int64_t n = std::max<int64_t>(as_int(f->extent).value_or(1), 1);
        at[f->var] = left % n;
        left /= n;
      }
      lanes_.push_back(std::move(at));
    }
    lanes_.resize(std::max<size_t>(lanes_.size(), 1));
  }

  void set(const Var& v, int64_t value) {
    for (Values& at : lanes_) at[v] = value;
  }

  void walk(const Stmt& s, double times) {
    if (const auto* seq = s.as<Seq>()) {
      for (const Stmt& inner : seq->stmts) walk(inner, times);
    } else if (const auto* f = s.as<For>()) {
      if (f->kind == ForKind::thread && f->thread != ThreadTag::vthread) return walk(f->body, times);
      const auto extent = extent_of(*f);
      set(f->var, 0);
      const bool unrolled = f->kind == ForKind::unrolled;
      if (unrolled) unrolled_.emplace_back(f->var, std::max(extent, 1.0));
      walk(f->body, times * extent);
      if (unrolled) unrolled_.pop_back();
      if (f->kind != ForKind::unrolled) counted_.instructions += 2 * times * extent;
    } else if (const auto* i = s.as<If>()) {
      look(i->cond, times);
      walk(i->then_case, times * share_of(i->cond));
      if (i->else_case) walk(i->else_case, times);
    } else if (const auto* a = s.as<Alloc>()) {
      walk(a->body, times);
    } else if (const auto* l = s.as<LetStmt>()) {
      look(l->value, times);
      if (const auto value = value_of(l->value, lanes_[0])) set(l->var, *value);
      walk(l->body, times);
    } else if (const auto* st = s.as<Store>()) {
      look(st->value, times);
      touch(st->buffer, st->indices, times, true);
    } else if (s.as<Evaluate>()) {
      counted_.instructions += times;
      counted_.waits += kBarrier * times;
    }
  }

  // The part of the warps for which a condition on threads alone holds.
  double share_of(const Expr& cond) const {
    double holds = 0;
    for (const Values& at : lanes_) {
      const auto value = value_of(cond, at);
      if (!value) return 1;
      holds += *value != 0;
    }
    return holds > 0 ? 1 : 1 / kWarp;
  }

  double extent_of(const For& f) const {
    if (const auto n = value_of(f.extent, lanes_[0]))
      return static_cast<double>(std::max<int64_t>(*n, 0));
    return 1;
  }

  void look(const Expr& value, double times) {
    for_each_expr(value, [&](const Expr& e) {
      if (const auto* l = e.as<Load>()) touch(l->buffer, l->indices, times, false);
      const bool is_float = nestor::is_float(e.dtype());
      const auto* b = e.as<Binary>();
      const auto* c = e.as<Call>();
      if (!(b && (is_float || is_comparison(b->op))) && !c) return;
      if (b && is_comparison(b->op) && !nestor::is_float(b->a.dtype())) return;
      const double lanes = e.type().lanes;
      double operations = 1;
      if (b && b->op == BinaryOp::div) operations = 8;
      if (c && c->fn != Intrinsic::fma) operations = c->fn == Intrinsic::instruction ? 2 : 8;
      counted_.operations += operations * lanes * times;
      counted_.instructions += operations * lanes * times;
    });
  }

  void touch(const Buffer& b, const std::vector<Expr>& indices, double times, bool write) {
    const BufferDecl& decl = decl_of(b);
    if (decl.scope == Scope::local || indices.empty()) return;
    for (const auto& [v, extent] : unrolled_)  // what is loaded for one of its iterations is for all
      if (!write && !uses_var(indices[0], v)) times /= extent;
    counted_.instructions += times;
    const int bytes = bytes_of(b->type.dtype);
    if (decl.scope == Scope::shared) {
      const Moved m = cost::wavefronts_of(indices[0], bytes, lanes_);
      counted_.shared += m.actual * times;
      counted_.ideal_shared += m.ideal * times;
      return;
    }
    const Moved m = cost::sectors_of(indices[0], bytes, lanes_);
    counted_.sectors += m.actual * times;
    counted_.ideal_sectors += m.ideal * times;
    if (!write) counted_.waits += kWait / kUnderWay * times;
    traffic_[b] += m.actual * kSector * times;
  }

  // Of what all blocks ask of a buffer, its size comes from memory once; the rest is found in L2, where that
  // holds it.
  double memory_bytes(const GpuMachine& m, double warps) const {
    double sum = 0;
    for (const auto& [buffer, bytes] : traffic_) {
      const double all = bytes * warps * out_.blocks, size = bytes_of_decl(decl_of(buffer));
      sum += std::min(all, size + std::max(0.0, all - size) * (size > m.l2_bytes ? 0.25 : 0));
    }
    return sum;
  }

  void occupancy(const GpuMachine& m) {
    for (const auto& [buffer, decl] : inside_) {
      if (decl.scope == Scope::shared) out_.shared_bytes += bytes_of_decl(decl);
      if (decl.scope == Scope::local) out_.own_words += std::ceil(bytes_of_decl(decl) / 4);
    }
    const double warps = std::ceil(out_.threads / kWarp);
    const double registers = std::min(kMostRegisters, kOtherRegisters + out_.own_words) * warps * kWarp;
    const std::pair<double, const char*> limits[] = {
        {std::floor(m.threads / (warps * kWarp)), "threads"},
        {static_cast<double>(m.blocks), "blocks"},
        {out_.shared_bytes > 0 ? std::floor(m.shared_bytes / (out_.shared_bytes + 1024)) : 1e9,
         "shared memory"},
        {std::floor(m.registers / registers), "registers"}};
    out_.resident = 1e9;
    for (const auto& [blocks, name] : limits)
      if (blocks < out_.resident) {
        out_.resident = std::max(blocks, 1.0);
        out_.limit = name;
      }
    out_.occupancy = out_.resident * warps / (m.threads / kWarp);
    out_.waves = out_.blocks / (m.multiprocessors * out_.resident);
  }

  const std::unordered_map<Buffer, BufferDecl>& decls_;
  std::unordered_map<Buffer, BufferDecl> inside_;
  std::vector<const For*> threads_;
  Values middle_;
  std::vector<std::pair<Var, double>> unrolled_;  // loops around, and their extents
  std::vector<Values> lanes_;
  std::map<Buffer, double> traffic_;  // of a warp, bytes; summed up only
  Counted counted_;
  GpuKernelCost out_;
};

}  // namespace

GpuCost price_gpu(const PrimFunc& lowered, const Target& target) {
  const GpuMachine machine = gpu_machine_of(target);
  const auto decls = declarations(lowered);
  std::vector<Stmt> open = {lowered.body}, kernels;
  while (!open.empty()) {
    const Stmt s = open.back();
    open.pop_back();
    if (const auto* seq = s.as<Seq>())
      open.insert(open.end(), seq->stmts.rbegin(), seq->stmts.rend());
    else if (const auto* a = s.as<Alloc>(); a && a->decl.scope == Scope::global)
      open.push_back(a->body);
    else
      kernels.push_back(s);
  }
  GpuCost out;
  for (const Stmt& k : kernels) {
    out.kernels.push_back(Kernel(k, decls).run(machine));
    out.total += out.kernels.back().total + kLaunch;
  }
  return out;
}

std::string print(const GpuKernelCost& k, const GpuMachine& m) {
  const auto beside = [](double actual, double ideal) {
    return ideal > 0 ? fmt::format(", {:.2f} of the ideal", actual / ideal) : std::string();
  };
  std::string out = fmt::format(
      "{:.0f} blocks of {:.0f} threads: {:.0f} on a multiprocessor of an {} ({} end it), occupancy {:.0f} %, "
      "{:.2f} "
      "waves\n",
      k.blocks, k.threads, k.resident, m.name, k.limit, 100 * k.occupancy, k.waves);
  out += fmt::format("{} binds: {:.0f} of {:.0f} cycles\n", k.binds,
                     std::max({k.arithmetic, k.issue, k.shared, k.l1, k.latency, k.memory}), k.total);
  out += fmt::format("device memory: {:.0f} sectors{}", k.sectors, beside(k.sectors, k.ideal_sectors));
  if (k.wavefronts > 0)
    out += fmt::format("; shared memory: {:.0f} wavefronts{}", k.wavefronts,
                       beside(k.wavefronts, k.ideal_wavefronts));
  return out + "\n";
}

}  // namespace nestor
