// A block of 16x16 threads computes a tile of T[i,j] += A[i,k] * B[k,j]. For each 16 steps of k all threads
// together copy what the tile needs of A and B to shared memory, so that each element is fetched from device
// memory once per tile, not once per output; then each thread adds up a few outputs of its own in registers,
// which saves reads of shared memory in turn (Volkov and Demmel, "Benchmarking GPUs to tune dense linear
// algebra", SC 2008).
#include "schedules/library/cuda_tile.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kThreads = 16, kSteps = 16;

bool is_plain(const Expr& e, const Var& v) {
  const auto* r = e.as<VarRef>();
  return r && r->var == v;
}
bool uses(const BlockAccess& a, const Var& v) {
  return std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& e) { return uses_var(e, v); });
}
std::string loop_of(const IterVar& i) {
  const auto* r = i.binding.as<VarRef>();
  return r ? r->var->name : "";
}

struct Product {
  Buffer out, a, b;
  const IterVar *i = nullptr, *j = nullptr, *k = nullptr;
  std::vector<std::string> batch;  // loops
};

// The product that the block computes, if it is one, with indices that are plain iterators.
std::optional<Product> product_of(const Block& block) {
  Product p;
  Block body = block;
  body.init = {};
  const std::vector<BlockAccess> accesses = accesses_of(body);
  std::vector<const BlockAccess*> reads;
  const BlockAccess* write = nullptr;
  for (const BlockAccess& a : accesses) {
    if (a.write) write = &a;
    if (!a.write) reads.push_back(&a);
  }
  if (!write || reads.size() != 2 || reads[0]->buffer == reads[1]->buffer) return std::nullopt;
  p.out = write->buffer;
  p.a = reads[0]->buffer;
  p.b = reads[1]->buffer;
  for (const IterVar& v : block.iters) {
    if (loop_of(v).empty()) return std::nullopt;
    const bool in_a = uses(*reads[0], v.var), in_b = uses(*reads[1], v.var);
    if (v.kind == IterKind::reduce) {
      if (p.k || !in_a || !in_b) return std::nullopt;
      p.k = &v;
    } else if (in_a && !in_b && as_int(v.extent).value_or(0) >= kThreads && !p.i) {
      p.i = &v;
    } else if (in_b && !in_a && as_int(v.extent).value_or(0) >= kThreads && !p.j) {
      p.j = &v;
    } else {
      p.batch.push_back(loop_of(v));
    }
  }
  if (!p.i || !p.j || !p.k || as_int(p.k->extent).value_or(0) < kSteps) return std::nullopt;
  for (const BlockAccess* a : reads)
    for (const Expr& e : a->indices)
      if (!e.as<VarRef>() && !as_int(e)) return std::nullopt;
  return p;
}

// The loop of `reader` that goes along with iterator v of the product: both index the product's output in one
// dimension.
std::string loop_along(const PrimFunc& f, const std::string& product, const Var& v, const std::string& reader,
                       const Buffer& out) {
  const Block& r = *find_block(f, reader);
  for (const BlockAccess& w : accesses_of(*find_block(f, product))) {
    if (w.buffer != out || !w.write) continue;
    for (size_t d = 0; d < w.indices.size(); ++d) {
      if (!is_plain(w.indices[d], v)) continue;
      for (const BlockAccess& a : accesses_of(r))
        for (const IterVar& i : r.iters)
          if (a.buffer == out && is_plain(a.indices[d], i.var)) return loop_of(i);
    }
  }
  return "";
}

using schedules::join;

std::vector<std::string> loop_names(const PrimFunc& f, const std::string& block) {
  std::vector<std::string> out;
  for (const LoopInfo& l : loops_of(f, block)) out.push_back(l.name);
  return out;
}

class Tiler {
 public:
  Tiler(Schedule& s, std::string block) : s_(s), block_(std::move(block)) {}

  void run(const Product& p, std::string epilogue) {
    const std::string i = loop_of(*p.i), j = loop_of(*p.j), k = loop_of(*p.k);
    const int64_t rows = outputs_of(*p.i), columns = outputs_of(*p.j);
    Buffer sums = p.out;
    if (epilogue.empty()) {
      epilogue = block_ + "_out";
      step("{} = cache_write {} local", epilogue, block_);
      for (const BlockAccess& a : accesses_of(*find_block(s_.func(), block_)))
        if (a.write) sums = a.buffer;
    } else {
      step("set_scope {} local", p.out->name);
    }
    const std::string out_i = loop_along(s_.func(), block_, p.i->var, epilogue, sums);
    const std::string out_j = loop_along(s_.func(), block_, p.j->var, epilogue, sums);

    // Neighbouring threads have neighbouring outputs, so that they store, and read shared memory, side by
    // side.
    step("{1}0 {1}1 {1}2 = split {0}.{1} [_, {2}, {3}]", block_, i, kThreads, rows);
    step("{1}0 {1}1 {1}2 = split {0}.{1} [_, {2}, {3}]", block_, j, kThreads, columns);
    step("{1}0 {1}1 = split {0}.{1} [_, {2}]", block_, k, kSteps);
    std::vector<std::string> order = p.batch;
    for (const std::string& l : {i + "0", j + "0", k + "0", i + "1", j + "1", k + "1", i + "2", j + "2"})
      order.push_back(l);
    step("reorder {} ({})", block_, join(order));

    // The epilogue's loops get a "w" in front, so as not to clash with the product's.
    std::vector<std::string> names;
    for (const IterVar& v : find_block(s_.func(), epilogue)->iters) names.push_back("w" + loop_of(v));
    step("{} = reverse_compute_at {} {}.{}0", join(names), epilogue, block_, j);
    step("{1}1 {1}2 = split {0}.{1} [{2}, {3}]", epilogue, "w" + out_i, kThreads, rows);
    step("{1}1 {1}2 = split {0}.{1} [{2}, {3}]", epilogue, "w" + out_j, kThreads, columns);
    step("reorder {0} (w{1}1 w{2}1 w{1}2 w{2}2)", epilogue, out_i, out_j);

    const std::string copy_a = copy_to_shared(p.a, k), copy_b = copy_to_shared(p.b, k),
                      zero = block_ + "_init";
    step("{} = decompose_reduction {}.{}0", zero, block_, k);
    if (!p.batch.empty()) {
      std::string batch = p.batch[0];
      if (p.batch.size() > 1) step("{} = fuse {} ({})", batch = "gz", block_, join(p.batch));
      step("bind {}.{} blockIdx.z", block_, batch);
    }
    step("bind {}.{}0 blockIdx.y", block_, i);
    step("bind {}.{}0 blockIdx.x", block_, j);
    for (const std::string& b : {block_, zero}) bind_tile(b, i, j);
    bind_tile(epilogue, "w" + out_i, "w" + out_j);
    for (const std::string& b : {copy_a, copy_b}) {
      step("bind {}.cy threadIdx.y", b);
      step("bind {}.cx threadIdx.x", b);
    }
  }

 private:
  template <class... Args>
  void step(const char* format, const Args&... args) {
    s_(fmt::format(fmt::runtime(format), args...));
  }

  // Outputs of one thread along an iterator.
  static int64_t outputs_of(const IterVar& v) { return as_int(v.extent).value_or(0) >= 4 * kThreads ? 4 : 1; }

  // All threads copy together: thread t element t, then t + 256, so that neighbours fetch neighbours.
  std::string copy_to_shared(const Buffer& operand, const std::string& k) {
    const std::string copy = operand->name + "_tile";
    step("{} = cache_read {} {} shared", copy, block_, operand->name);
    const size_t outside = loop_names(s_.func(), block_).size();
    step("compute_at {} {}.{}0", copy, block_, k);
    std::vector<std::string> own;
    const std::vector<std::string> around = loop_names(s_.func(), block_);
    for (const std::string& l : loop_names(s_.func(), copy))
      if (std::find(around.begin(), around.end(), l) == around.end()) own.push_back(l);
    NESTOR_CHECK(!own.empty() && outside > 0) << "the copy has no loops";
    std::string loop = own[0];
    if (own.size() > 1) step("{} = fuse {} ({})", loop = "cc", copy, join(own));
    step("cs cy cx = split {}.{} [_, {}, {}]", copy, loop, kThreads, kThreads);
    return copy;
  }

  void bind_tile(const std::string& block, const std::string& i, const std::string& j) {
    step("bind {}.{}1 threadIdx.y", block, i);
    step("bind {}.{}1 threadIdx.x", block, j);
    for (const std::string& l : {i, j})
      for (const LoopInfo& info : loops_of(s_.func(), block))
        if (info.name == l + "2" && info.extent > 1) step("unroll {}.{}2", block, l);
  }

  Schedule& s_;
  std::string block_;
};

}  // namespace

bool tile_product(Schedule& s, const std::string& block, const std::string& epilogue) {
  const std::optional<Product> p = product_of(*find_block(s.func(), block));
  if (!p) return false;
  Schedule t = s;
  try {
    Tiler(t, block).run(*p, epilogue);
  } catch (const ScheduleError&) {
    return false;
  }
  s = std::move(t);
  return true;
}

}  // namespace nestor::library
