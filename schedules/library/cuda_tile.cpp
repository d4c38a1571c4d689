// A block of threads computes a tile of T[i,j] += A[i,k] * B[k,j]. For each few steps of k all threads
// together copy what the tile needs of A and B to shared memory, so that each element is fetched from device
// memory once per tile, not once per output; then each thread adds up 8 x 8 outputs of its own in registers,
// which saves reads of shared memory in turn (Volkov and Demmel, "Benchmarking GPUs to tune dense linear
// algebra", SC 2008).
//
// Both tiles lie in shared memory with the steps outermost, so that a thread reads its outputs' elements as
// vectors; a copy that turns an operand around writes to rows of a padded stride, in different banks. Sizes
// that the tile doesn't divide are padded: the copies fill in zeros, and only the results are guarded.
#include "schedules/library/cuda_tile.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/cuda_product.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;
using Operand = Product::Operand;
using Iter = Product::Iter;

constexpr int64_t kFewest = 16, kFewestSteps = 8;  // of each side; of the reduction

std::vector<std::string> loop_names(const PrimFunc& f, const std::string& block) {
  std::vector<std::string> out;
  for (const LoopInfo& l : loops_of(f, block)) out.push_back(l.name);
  return out;
}

// The block that writes a buffer; "" for a parameter that is read.
std::string writer_of(const PrimFunc& f, const Buffer& b) {
  for (const std::string& name : block_names(f))
    for (const BlockAccess& a : accesses_of(*find_block(f, name)))
      if (a.write && a.buffer == b) return name;
  return "";
}

class Tiler {
 public:
  Tiler(Schedule& s, std::string block, const ProductTile& tile)
      : s_(s), block_(std::move(block)), tile_(tile) {}

  void run(std::string epilogue) {
    epilogue = pad(std::move(epilogue));
    if (tile_.parts == 1) return bind(std::move(epilogue));
    const std::string whole = block_;
    block_ = split_sum(s_, block_, product().k.loop, tile_.parts, epilogue);
    bind("");
    add_parts(s_, whole, epilogue);
  }

 private:
  template <class... Args>
  void step(const char* format, const Args&... args) {
    s_(fmt::format(fmt::runtime(format), args...));
  }
  Product product() const {
    if (auto p = product_of(*find_block(s_.func(), block_))) return std::move(*p);
    throw ScheduleError(
        Diagnostic{"block " + block_ + " is no product of plain indices any more", {}, {}, ""});
  }

  void bind(std::string epilogue) {
    Buffer sums = product().out.buffer;
    if (epilogue.empty()) {
      epilogue = block_ + "_out";
      step("{} = cache_write {} local", epilogue, block_);
      sums = product().out.buffer;
    } else {
      step("set_scope {} local", sums->name);
    }
    const Product p = product();
    const std::string i = p.i.loop, j = p.j.loop, k = p.k.loop;
    const std::string out_i = loop_along(s_.func(), block_, p.i.var, epilogue, sums);
    const std::string out_j = loop_along(s_.func(), block_, p.j.var, epilogue, sums);
    std::vector<std::string> batch;
    for (const Iter& v : p.batch) batch.push_back(v.loop);

    cut(block_, i, tile_.rows, "_, ");
    cut(block_, j, tile_.columns, "_, ");
    step("{1}0 {1}1 = split {0}.{1} [_, {2}]", block_, k, tile_.steps);
    std::vector<std::string> order = batch;
    for (const std::string& l : {i + "0", j + "0", k + "0", i + "w", j + "w", i + "l", j + "l", k + "1",
                                 i + "t", j + "t", i + "r", j + "r"})
      order.push_back(l);
    step("reorder {} ({})", block_, join(order));

    // The epilogue's loops get a "w" in front, so as not to clash with the product's.
    std::vector<std::string> names;
    for (const IterVar& v : find_block(s_.func(), epilogue)->iters) names.push_back("w" + loop_of(v));
    step("{} = reverse_compute_at {} {}.{}0", join(names), epilogue, block_, j);
    cut(epilogue, "w" + out_i, tile_.rows, "");
    cut(epilogue, "w" + out_j, tile_.columns, "");
    step("reorder {0} (w{1}w w{2}w w{1}l w{2}l w{1}t w{1}r w{2}t w{2}r)", epilogue, out_i, out_j);

    copy(p.a, p.i, p.k, i + "t", tile_.rows.size() * tile_.steps);
    copy(p.b, p.j, p.k, j + "t", tile_.columns.size() * tile_.steps);
    const std::string zero = block_ + "_init";
    step("{} = decompose_reduction {}.{}0", zero, block_, k);
    if (!batch.empty()) {
      std::string z = batch[0];
      if (batch.size() > 1) step("{} = fuse {} ({})", z = "gz", block_, join(batch));
      step("bind {}.{} blockIdx.z", block_, z);
    }
    step("bind {}.{}0 blockIdx.y", block_, i);
    step("bind {}.{}0 blockIdx.x", block_, j);
    for (const std::string& b : {block_, zero}) bind_tile(b, i, j);
    bind_tile(epilogue, "w" + out_i, "w" + out_j);
    if (vector_of(p.out, p.j) > 1) step("vectorize {}.w{}r", epilogue, out_j);
    // The proof takes a pipeline of parts of padded sums for wrong.
    const bool provable = tile_.parts == 1 || !padded_;
    if (p.k.extent > tile_.steps && provable) step("software_pipeline {}.{}0 stages=2 through=registers", block_, k);
    step("unroll {}.{}1", block_, k);
    step("unroll {0} ({1}t {2}t {1}r {2}r)", block_, i, j);
  }

  // Brings the sizes to multiples of the tile. The reader of the sums from then on: what they are trimmed by
  // joins it.
  std::string pad(std::string epilogue) {
    const Product p = product();
    std::vector<std::string> multiples;
    bool needed = false;
    for (const IterVar& v : find_block(s_.func(), block_)->iters) {
      const int64_t m = v.var == p.i.var   ? tile_.rows.size()
                        : v.var == p.j.var ? tile_.columns.size()
                        : v.var == p.k.var ? tile_.steps * tile_.parts
                                           : 1;
      needed |= *as_int(v.extent) % m != 0;
      multiples.push_back(std::to_string(m));
    }
    if (!needed) return epilogue;
    step("pad_einsum {} [{}]", block_, join_with(multiples));
    padded_ = true;
    const Buffer padded = product().out.buffer;
    if (padded == p.out.buffer) return epilogue;  // its operands alone
    std::string trim;
    for (const std::string& name : block_names(s_.func()))
      for (const BlockAccess& a : accesses_of(*find_block(s_.func(), name)))
        if (a.buffer == padded && a.read && !a.write) trim = name;
    if (epilogue.empty()) return trim;
    step("compute_inline {}", trim);
    return epilogue;
  }
  static std::string join_with(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
    return out;
  }

  // Blocks, warps, times, lanes, run.
  void cut(const std::string& block, const std::string& loop, const ProductTile::Side& side,
           const char* outermost) {
    const std::string first = *outermost ? loop + "0 " : "";
    step("{2}{1}w {1}t {1}l {1}r = split {0}.{1} [{3}{4}, {5}, {6}, {7}]", block, loop, first, outermost,
         side.warps, side.times, side.lanes, side.run);
  }

  // Elements of a thread's access along the neighbours that lie along v: 1 where it can't be a vector.
  static int64_t vector_of(const Operand& o, const Iter& v) {
    if (!o.contiguous() || o.contiguous() != v.var) return 1;
    return v.extent % 4 == 0 ? 4 : v.extent % 2 == 0 ? 2 : 1;
  }

  // To shared memory, by all threads for each few steps, and from there to a thread's registers.
  void copy(const Operand& o, const Iter& side, const Iter& k, const std::string& at, int64_t elements) {
    std::string tile = writer_of(s_.func(), o.buffer), width = o.buffer->name;
    const Buffer source = tile.empty() || !is_padding(tile) ? o.buffer : padded_of(tile);
    const int64_t run = std::min(run_of(o, source), elements / tile_.threads());
    if (source == o.buffer) {
      tile = o.buffer->name + "_tile";
      step("{} = cache_read {} {} shared", tile, block_, o.buffer->name);
    } else {
      step("set_scope {} shared", o.buffer->name);
    }
    const std::string shared = output_name(tile), registers = source->name + "_own";
    step("{} = cache_read {} {} local", registers, block_, shared);
    step("compute_at {} {}.{}", registers, block_, at);
    const std::string side_own = own_loop(registers, o, side.var);
    step("compute_at {} {}.{}0", tile, block_, k.loop);
    std::vector<std::string> own = own_loops(tile);
    const bool turned = o.contiguous() == k.var;
    if (!in_order(o, side.var, k.var)) {
      std::vector<std::string> from, to;
      for (size_t d = 0; d < o.dims.size(); ++d) from.push_back("d" + std::to_string(d));
      const auto place = [&](const Var& v) {
        return static_cast<size_t>(std::find(o.dims.begin(), o.dims.end(), v) - o.dims.begin());
      };
      to.push_back(from[place(k.var)]);
      for (size_t d = 0; d < o.dims.size(); ++d)
        if (d != place(k.var) && d != place(side.var)) to.push_back(from[d]);
      to.push_back(from[place(side.var)]);
      step("transform_layout {} ({}) -> ({})", shared, join_with(from), join_with(to));
      step("storage_align {} 0 32 4", shared);
    }
    // Lanes take a sector of steps of neighbouring outputs, so that what they write lies in different banks.
    const int64_t sector = 32 / bytes_of(o.buffer->type.dtype);
    if (turned && tile_.steps > sector) {
      const std::string inner = own.back();
      step("ch cl = split {}.{} [_, {}]", tile, inner, sector);
      own.pop_back();
      std::vector<std::string> order = own;
      order.insert(order.begin(), "ch");
      order.push_back("cl");
      step("reorder {} ({})", tile, join(order));
      own = order;
    }
    std::string loop = own[0];
    if (own.size() > 1) step("{} = fuse {} ({})", loop = "cc", tile, join(own));
    step("cs cy cx cv = split {}.{} [_, {}, 32, {}]", tile, loop, tile_.warps(), run);
    step("bind {}.cy threadIdx.y", tile);
    step("bind {}.cx threadIdx.x", tile);
    if (run > 1) step("vectorize {}.cv", tile);
    if (!side_own.empty()) step("vectorize {}.{}", registers, side_own);
  }

  bool is_padding(const std::string& block) const {
    for (const BlockAccess& a : accesses_of(*find_block(s_.func(), block)))
      if (a.write) return !find_param(s_.func(), a.buffer);
    return false;
  }
  Buffer padded_of(const std::string& block) const {
    for (const BlockAccess& a : accesses_of(*find_block(s_.func(), block)))
      if (!a.write) return a.buffer;
    return nullptr;
  }
  std::string output_name(const std::string& block) const {
    for (const BlockAccess& a : accesses_of(*find_block(s_.func(), block)))
      if (a.write) return a.buffer->name;
    return "";
  }
  // Elements of one load, by the size of the dimension in which neighbours lie.
  int64_t run_of(const Operand& o, const Buffer& source) const {
    for (size_t d = o.dims.size(); d-- > 0;)
      if (o.dims[d]) {
        const auto decls = declarations(s_.func());
        const int64_t n = as_int(decls.at(source).shape[d]).value_or(1);
        return n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : 1;
      }
    return 1;
  }
  static bool in_order(const Operand& o, const Var& side, const Var& k) {
    const auto at = [&](const Var& v) { return std::find(o.dims.begin(), o.dims.end(), v); };
    return o.contiguous() == side && at(k) < at(side);
  }
  std::vector<std::string> own_loops(const std::string& copy) const {
    std::vector<std::string> own;
    const std::vector<std::string> around = loop_names(s_.func(), block_);
    std::vector<std::string> units;
    for (const LoopInfo& l : loops_of(s_.func(), copy))
      if (std::find(around.begin(), around.end(), l.name) == around.end())
        (l.extent == 1 ? units : own).push_back(l.name);
    return own.empty() ? units : own;
  }
  // The loop of a copy along one dimension of what it copies.
  std::string own_loop(const std::string& copy, const Operand& o, const Var& v) const {
    const Block& b = *find_block(s_.func(), copy);
    for (const BlockAccess& a : accesses_of(b)) {
      if (!a.write) continue;
      for (size_t d = 0; d < a.indices.size(); ++d)
        if (o.dims[d] == v)
          for (const IterVar& i : b.iters)
            if (is_plain(a.indices[d], i.var))
              for (const std::string& l : own_loops(copy)) {
                bool used = false;
                for_each_expr(i.binding, [&](const Expr& e) {
                  used |= e.as<VarRef>() && e.as<VarRef>()->var->name == l;
                });
                if (used) return l;
              }
    }
    return "";
  }

  void bind_tile(const std::string& block, const std::string& i, const std::string& j) {
    // A block may have lost its loops of one iteration.
    std::string warps = tile_.rows.warps > 1 ? i + "w" : j + "w";
    if (tile_.rows.warps > 1 && tile_.columns.warps > 1)
      step("{} = fuse {} ({}w {}w)", warps = "wt", block, i, j);
    step("lt = fuse {} ({}l {}l)", block, i, j);
    step("bind {}.{} threadIdx.y", block, warps);
    step("bind {}.lt threadIdx.x", block);
  }

  Schedule& s_;
  std::string block_;
  const ProductTile tile_;
  bool padded_ = false;
};

}  // namespace

bool has_tiles(const Block& block) {
  const std::optional<Product> p = product_of(block);
  return p && p->i.extent >= kFewest && p->j.extent >= kFewest && p->k.extent >= kFewestSteps;
}

bool tile_product(Schedule& s, const std::string& block, const std::string& epilogue, int multiprocessors) {
  if (!has_tiles(*find_block(s.func(), block))) return false;
  const std::optional<Product> p = product_of(*find_block(s.func(), block));
  int64_t batch = 1;
  for (const Iter& v : p->batch) batch *= v.extent;
  const ProductTile tile = choose_product_tile(batch, p->i.extent, p->j.extent, p->k.extent, multiprocessors);
  const std::string plan =
      fmt::format("tiles of {} x {} in shared memory, each sum in {} part{}, for {}", tile.rows.size(),
                  tile.columns.size(), tile.parts, tile.parts > 1 ? "s" : "", block);
  return s.attempt(plan, [&](Schedule& t) { Tiler(t, block, tile).run(epilogue); });
}

}  // namespace nestor::library
