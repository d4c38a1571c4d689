// Products with fewer rows (or columns) than a tile has: what matters is to read the large operand once, in
// whole sectors and with enough loads under way. A thread has all rows of some columns in registers, so that
// each weight that it loads is used for all of them; the threads of a block share the terms of a sum.
//
// Where the weights' terms lie side by side, so do the threads of a column, which combine their sums by
// shuffles. Where columns lie side by side, threads with the same columns combine theirs through shared
// memory.
#include <fmt/format.h>

#include "schedules/library/cuda_product.h"
#include "schedules/library/cuda_tile.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kTileRows = 16;  // from which on tiles are better
constexpr int64_t kFewestWide = 8, kFewestTerms = 16;
constexpr int64_t kWarp = 32, kMostThreads = 1024, kVectorBytes = 16;
constexpr int64_t kSums = 32;  // of a thread, in registers
constexpr int64_t kSharedBytes = 32 << 10;
constexpr int64_t kSteps = 16;  // of a thread, fewer of which a second kernel isn't worth

struct Skinny {
  Product::Operand wide_operand, thin_operand;
  Product::Iter wide, thin, k;
  std::vector<Product::Iter> batch;
  int64_t batches = 1;
  bool terms_aside = true;  // in memory, of the wide operand
  int64_t vector = 1;       // terms, or columns, of one load
  int64_t terms = 1;        // of one step of a thread
  int64_t own = 1;          // columns of a thread beside that
  int64_t lanes = kWarp;    // threads for one column's terms; side by side in the first case
  int64_t columns = 1;      // threads for columns
  int64_t parts = 1;        // of a sum, by different blocks

  int64_t threads() const { return lanes * columns; }
  int64_t blocks() const {
    return batches * ceil_div(wide.extent, columns * own * (terms_aside ? 1 : vector));
  }
};

int64_t lanes_of(const Buffer& b, int64_t extent) {
  int64_t lanes = kVectorBytes / bytes_of(b->type.dtype);
  while (lanes > 1 && extent % lanes != 0) lanes /= 2;
  return lanes;
}

// A divisor of n in [from/2, from], or `from`.
int64_t even(int64_t n, int64_t from) {
  for (int64_t d = from; 2 * d >= from && d > 1; --d)
    if (n % d == 0) return d;
  return from;
}

// Threads beside each other along the terms, as many columns for each as leave enough threads.
void share_terms_aside(Skinny& s) {
  s.vector = lanes_of(s.wide_operand.buffer, s.k.extent);
  if (s.thin_operand.contiguous() != s.k.var) s.vector = 1;  // else neighbours would read far apart
  s.terms = s.vector;
  while (s.lanes > 2 && s.lanes * s.vector > s.k.extent) s.lanes /= 2;
  for (s.own = 4; s.own > 1; s.own /= 2)
    if (s.wide.extent % s.own == 0 && s.thin.extent * s.own <= kSums &&
        s.batches * s.wide.extent / s.own * s.lanes >= 4 * kEnoughThreads)
      break;
  while (s.batches * s.wide.extent / s.own * s.lanes < kEnoughThreads && s.lanes < kMostThreads &&
         2 * s.lanes * s.vector <= s.k.extent)
    s.lanes *= 2;
  s.columns = std::max<int64_t>(1, 4 * kWarp / s.lanes);
  while (s.columns > 1 && s.blocks() < 2 * kMultiprocessors) s.columns /= 2;
}

// Threads beside each other along the columns, and as many with the same columns as it takes.
void share_columns_aside(Skinny& s) {
  s.columns = kWarp;
  s.vector = lanes_of(s.wide_operand.buffer, s.wide.extent);
  while (s.vector > 1 && (s.thin.extent * s.vector > kSums || s.blocks() < 2 * kMultiprocessors))
    s.vector /= 2;
  s.terms = s.thin_operand.contiguous() == s.k.var ? lanes_of(s.thin_operand.buffer, s.k.extent) : 1;
  while (s.terms > 1 && s.thin.extent * s.terms > kSums) s.terms /= 2;
  const auto shared = [&](int64_t lanes) {
    return lanes * kWarp * s.vector * s.thin.extent * static_cast<int64_t>(sizeof(double));
  };
  s.lanes = 1;
  while (s.blocks() * kWarp * s.lanes < 8 * kEnoughThreads && 2 * s.lanes * kWarp <= kMostThreads &&
         shared(2 * s.lanes) <= kSharedBytes && 16 * s.lanes <= s.k.extent)
    s.lanes *= 2;
  s.lanes = even(s.k.extent / s.terms, s.lanes);
}

std::optional<Skinny> skinny_of(const Block& block) {
  const std::optional<Product> p = product_of(block);
  if (!p || p->i.extent < 1 || p->j.extent < 1) return std::nullopt;
  const bool tall = p->i.extent > p->j.extent;
  Skinny s{tall ? p->a : p->b, tall ? p->b : p->a, tall ? p->i : p->j, tall ? p->j : p->i, p->k, p->batch};
  for (const Product::Iter& b : s.batch) s.batches *= b.extent;
  s.terms_aside = s.wide_operand.contiguous() == s.k.var;
  return s;
}

// Nothing where another family is better.
std::optional<Skinny> choose(const Block& block) {
  std::optional<Skinny> s = skinny_of(block);
  if (!s || s->thin.extent >= kTileRows || s->wide.extent < kFewestWide || s->k.extent < kFewestTerms)
    return std::nullopt;
  if (!s->terms_aside && s->wide_operand.contiguous() != s->wide.var) return std::nullopt;
  if (s->terms_aside && s->thin.extent == 1) return std::nullopt;  // rows, which have a family
  s->terms_aside ? share_terms_aside(*s) : share_columns_aside(*s);
  const int64_t steps = s->k.extent / (s->lanes * s->terms);
  while (s->blocks() * s->parts < kMultiprocessors && steps / (2 * s->parts) >= kSteps) s->parts *= 2;
  if (s->parts > 1) s->parts = even(s->k.extent / s->terms, s->parts);
  return s;
}

Skinny with_sizes_of(Skinny s, const Skinny& chosen) {
  s.vector = chosen.vector;
  s.terms = chosen.terms;
  s.own = chosen.own;
  s.lanes = chosen.lanes;
  s.columns = chosen.columns;
  s.parts = chosen.parts;
  return s;
}

class Skinnies {
 public:
  Skinnies(Schedule& s, std::string block, Skinny skinny)
      : s_(s), block_(std::move(block)), p_(std::move(skinny)) {}

  void run(std::string epilogue) {
    pad();
    const std::string whole = block_;
    std::string reader = epilogue;
    if (p_.parts > 1) {
      block_ = split_sum(s_, block_, p_.k.loop, p_.parts, reader);
      epilogue = "";
    }
    if (epilogue.empty()) {
      epilogue = block_ + "_out";
      step("{} = cache_write {} local", epilogue, block_);
    } else {
      step("set_scope {} local", output().name);
    }
    const std::optional<Skinny> now = skinny_of(*find_block(s_.func(), block_));
    if (!now) throw ScheduleError(Diagnostic{"the parts are no product of plain indices", {}, {}, ""});
    p_ = with_sizes_of(*now, p_);
    p_.terms_aside ? terms_aside(epilogue) : columns_aside(epilogue);
    if (p_.parts > 1) add_parts(s_, whole, reader);
  }

 private:
  template <class... Args>
  void step(const char* format, const Args&... args) {
    s_(fmt::format(fmt::runtime(format), args...));
  }
  // Brings the sums to whole steps, where a ragged end of theirs makes too much hard to see.
  void pad() {
    const int64_t whole = p_.lanes * p_.terms * p_.parts;
    if (p_.k.extent % whole == 0 || (p_.terms_aside && p_.parts == 1)) return;
    const std::vector<std::string> before = block_names(s_.func());
    std::vector<std::string> multiples;
    for (const IterVar& v : find_block(s_.func(), block_)->iters)
      multiples.push_back(std::to_string(v.var == p_.k.var ? whole : 1) + ",");
    multiples.back().pop_back();
    step("pad_einsum {} [{}]", block_, join(multiples));
    for (const std::string& name : block_names(s_.func()))
      if (std::find(before.begin(), before.end(), name) == before.end()) padded_.push_back(name);
  }

  struct Output {
    std::string name;
    std::vector<Expr> indices;
  };
  Output output() const {
    for (const BlockAccess& a : accesses_of(*find_block(s_.func(), block_)))
      if (a.write) return {a.buffer->name, a.indices};
    throw InternalError("block " + block_ + " writes nothing");
  }
  size_t dimension(const Product::Iter& i) const {
    const std::vector<Expr> indices = output().indices;
    for (size_t d = 0; d < indices.size(); ++d)
      if (is_plain(indices[d], i.var)) return d;
    throw ScheduleError(Diagnostic{"the output has no dimension of its own for " + i.loop, {}, {}, ""});
  }
  static std::string numbered(const char* name, size_t count) {
    std::string out;
    for (size_t d = 0; d < count; ++d) out += fmt::format("{}{}{}", d ? " " : "", name, d);
    return out;
  }

  // What one step of a thread reads of an operand, in registers; loaded as vectors along v.
  void load(const std::string& block, const Product::Operand& o, const std::string& at, const char* name,
            const Product::Iter& v, int64_t lanes) {
    std::string own;  // a copy that pads, or a plain one
    for (const std::string& name : padded_)
      for (const BlockAccess& a : accesses_of(*find_block(s_.func(), name)))
        if (a.write && a.buffer == o.buffer) own = name;
    if (own.empty())
      step("{} = cache_read {} {} local", own = o.buffer->name + "_own", block, o.buffer->name);
    else
      step("set_scope {} local", o.buffer->name);
    step("{} = compute_at {} {}.{}", numbered(name, o.dims.size()), own, block, at);
    if (o.contiguous() != v.var) return;
    for (size_t d = o.dims.size(); d-- > 0;)
      if (o.dims[d] == v.var && lanes > 1) step("vectorize {}.{}{}", own, name, d);
  }

  // Those of the loops that a block has: of one iteration some lose theirs. Those over batches stand first.
  std::vector<std::string> with_batches(const std::string& block,
                                        const std::vector<std::string>& loops) const {
    std::vector<std::string> wanted, out;
    for (const Product::Iter& b : p_.batch) wanted.push_back(b.loop);
    wanted.insert(wanted.end(), loops.begin(), loops.end());
    const std::vector<LoopInfo> all = loops_of(s_.func(), block);
    std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(out), [&](const std::string& name) {
      return std::any_of(all.begin(), all.end(), [&](const LoopInfo& l) { return l.name == name; });
    });
    return out;
  }
  void reorder(const std::string& block, const std::vector<std::string>& loops) {
    step("reorder {} ({})", block, join(with_batches(block, loops)));
  }

  void bind_blocks(const std::string& columns) {
    const std::vector<std::string> batches = with_batches(block_, {});
    if (!batches.empty()) {
      std::string y = batches[0];
      if (batches.size() > 1) step("{} = fuse {} ({})", y = "gb", block_, join(batches));
      step("bind {}.{} blockIdx.y", block_, y);
    }
    step("bind {}.{} blockIdx.x", block_, columns);
  }

  void terms_aside(const std::string& epilogue) {
    const std::string &b = block_, &w = p_.wide.loop, &k = p_.k.loop, &t = p_.thin.loop;
    step("{1}b {1}w {1}r = split {0}.{1} [_, {2}, {3}]", b, w, p_.columns, p_.own);
    step("{1}0 {1}1 {1}v = split {0}.{1} [_, {2}, {3}]", b, k, p_.lanes, p_.terms);
    reorder(b, {w + "b", w + "w", k + "1", k + "0", w + "r", t, k + "v"});
    step("reverse_compute_at {} {}.{}w", epilogue, b, w);
    const std::string part = b + "_part";
    step("{} = reduce_threads {}.{}1", part, b, k);
    load(part, p_.wide_operand, k + "0", "v", p_.k, p_.terms);
    load(part, p_.thin_operand, k + "0", "u", p_.k, p_.terms);
    step("{}_zero = decompose_reduction {}.{}0", b, part, k);
    step("unroll {} ({}r {} {}v)", part, w, t, k);
    step("bind {}.{}w threadIdx.y", b, w);
    bind_blocks(w + "b");
  }

  void columns_aside(const std::string& epilogue) {
    const std::string &b = block_, &w = p_.wide.loop, &k = p_.k.loop, &t = p_.thin.loop;
    if (p_.lanes == 1) throw ScheduleError(Diagnostic{"the sums are too short to be shared", {}, {}, ""});
    const size_t dims = output().indices.size();
    const std::string wide = fmt::format("s{}", dimension(p_.wide) + 1),
                      thin = fmt::format("s{}", dimension(p_.thin) + 1);
    step("{1}0 {1}y {1}v = split {0}.{1} [_, {2}, {3}]", b, k, p_.lanes, p_.terms);
    std::vector<std::string> first = with_batches(b, {t, w, k + "0", k + "v"});
    first.insert(first.begin(), k + "y");
    step("reorder {} ({})", b, join(first));
    const std::string part = b + "_part", sums = b + "_sums";
    step("{} = rfactor {}.{}y axis=0", part, b, k);
    step("{} = cache_read {} {} shared", sums, b, part);
    step("set_scope {} local", part);
    step("{1}b {1}j = split {0}.{1} [_, {2}]", b, w, kWarp * p_.vector);
    reorder(b, {w + "b", t, w + "j", k + "y"});
    step("{} = compute_at {} {}.{}b", numbered("s", dims + 1), sums, b, w);
    step("sl sv = split {}.{} [{}, {}]", sums, wide, kWarp, p_.vector);
    std::vector<std::string> order = {"s0", "sl"};
    for (size_t d = 1; d <= dims; ++d)
      if (fmt::format("s{}", d) != wide) order.push_back(fmt::format("s{}", d));
    order.emplace_back("sv");
    step("reorder {} ({})", sums, join(order));
    step("{} = compute_at {} {}.sl", numbered("p", dims + 1), part, sums);
    std::vector<std::string> steps = {k + "0"}, own;
    for (size_t d = 0; d <= dims; ++d) own.push_back(fmt::format("p{}", d));
    for (const LoopInfo& l : loops_of(s_.func(), part))
      if (l.name == k + "v") own.push_back(l.name);
    steps.insert(steps.end(), own.begin(), own.end());
    step("reorder {} ({})", part, join(steps));
    const std::vector<std::string> outputs = with_batches(b, {t, w + "j"});
    const bool has_rows = std::find(outputs.begin(), outputs.end(), t) != outputs.end();
    if (has_rows) step("{2}j = fuse {0} ({1} {2}j)", b, t, w);
    step("g0 gy gx = split {}.{}j [_, {}, {}]", b, w, p_.lanes, kWarp);
    step("reverse_compute_at {} {}.gx", epilogue, b);
    load(part, p_.wide_operand, k + "0", "v", p_.wide, p_.vector);
    load(part, p_.thin_operand, k + "0", "u", p_.k, p_.terms);
    step("{}_zero = decompose_reduction {}.{}0", b, part, k);
    step("{0}_start = decompose_reduction {0}.{1}y", b, k);
    step("unroll {} ({})", part, join(own));
    if (p_.vector > 1) step("vectorize {}.sv", sums);
    step("bind {}.s0 threadIdx.y", sums);
    step("bind {}.sl threadIdx.x", sums);
    step("bind {}.gy threadIdx.y", b);
    step("bind {}.gx threadIdx.x", b);
    bind_blocks(w + "b");
  }

  Schedule& s_;
  std::string block_;
  Skinny p_;
  std::vector<std::string> padded_;  // copies of operands
};

}  // namespace

bool skinny_product(Schedule& s, const std::string& block, const std::string& epilogue) {
  const std::optional<Skinny> p = choose(*find_block(s.func(), block));
  if (!p) return false;
  const std::string plan = fmt::format("{} rows in registers, sums shared by {} threads, for {}",
                                       p->thin.extent, p->lanes * p->parts, block);
  return s.attempt(plan, [&](Schedule& t) { Skinnies(t, block, *p).run(epilogue); });
}

}  // namespace nestor::library
