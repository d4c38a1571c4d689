// T = Q K^T, some maps and reductions along T's rows (softmax), Y = P V (product_chain.h). A block of threads
// has some rows of queries: its scores, and what is made of them, stay in shared memory, so that device
// memory holds none (Dao et al., FlashAttention, 2022, which keeps a part of a row only; here rows are whole,
// and their length is bounded by what shared memory holds). Tiles of keys, then of values, pass through
// shared memory for all rows of the block.
//
// All tiles lie with their rows apart by four banks more than a multiple of 32: eight threads that read 16
// bytes each of eight rows meet in no bank. A thread's rows are eight apart for that reason.
#include "schedules/library/cuda_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/cuda_work.h"
#include "schedules/library/product_chain.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kLanesDown = 8, kLanesAside = 4, kWarps = 4, kWarp = 32;
constexpr int64_t kKeys = 64, kValues = 32;  // of a tile, at most
constexpr int64_t kMostRowNumbers = 8;       // maximum, sum and the like
constexpr int64_t kMostShared =
    100 << 10;  // so that a multiprocessor has a second block, where there is a choice

// Rows of a block: warps below each other, and how many rows a thread has.
struct RowTile {
  int64_t warps, own;
  int64_t rows() const { return kLanesDown * warps * own; }
  int64_t aside() const { return kWarps / warps; }  // warps
};
constexpr RowTile kRowTiles[] = {{2, 4}, {2, 2}, {1, 2}, {1, 1}};

using Names = std::vector<std::string>;

// One product's iterators: rows, columns and what is summed.
struct Product {
  std::string block;
  const Iter *row = nullptr, *column = nullptr, *sum = nullptr;
  Buffer left, right;
};

class Attention {
 public:
  Attention(Schedule& s, const Target& target) : s_(s), target_(target) {}

  void run() {
    auto chain = find_product_chain(s_.func());
    for (const std::string& m : chain->moved)
      if (analyze(s_.func(), m).copies) s_.try_step("compute_inline " + m);
    chain = find_product_chain(s_.func());
    if (!chain) refuse("operands that aren't found once they are inlined");
    make_writers(*chain);
    const BlockInfo first = analyze(s_.func(), first_), second = analyze(s_.func(), second_);
    const auto t = product(first, nullptr), p = product(second, chain->scores);
    if (!t || !p || t->row->extent != p->row->extent) refuse("products of other shapes");
    if (!choose(first, *t, second, *p)) refuse("rows of scores that are too long for shared memory");
    const Copy left = copy(*t, t->left, *t->row), right = copy(*t, t->right, *t->column);
    const Copy values = copy(*p, p->right, *p->column);
    step("P_own = cache_read {} {} local", second_, p->left->name);
    std::vector<BlockInfo> between;
    for (const std::string& b : between_) between.push_back(analyze(s_.func(), b));
    score_dims_ = access_to(second, chain->scores, false).indices.size();
    place_second(second, *p, values, "P_own");
    for (size_t k = between.size(); k-- > 0;) {
      const BlockInfo& b = between[k];
      bring(b.name, fmt::format("m{}_", k), at_);
      step("set_scope {} shared", b.output->name);
      const size_t dims = access_to(b, b.output, true).indices.size();
      if (!b.reduction && dims == score_dims_)
        step("storage_align {} {} {} 4", b.output->name, dims - 2, kWarp);
    }
    for (const BlockInfo& b : between)
      if (b.name == scored_) place_first(first, *t, b, left, right);
    step("gb = fuse {} ({})", writer_, join(grid_));
    step("bind {}.gb blockIdx.x", writer_);
    bind_product(writer_, "ei", "ej");
    for (const std::string& b : {second_, second_ + "_init"}) bind_product(b, "pi", "pj");
    bind_product(scored_, "si", "sj");
    for (const std::string& b : {first_, first_ + "_init"}) bind_product(b, "fi", "fj");
    spread_copy(left, left.sum + 1 != left.dims);
    spread_copy(right, right.sum + 1 != right.dims);
    spread_copy(values, false);
    for (const BlockInfo& b : between)
      if (b.name != scored_) spread_rows(b);
    step("vectorize {}.lo{}", left.own, left.sum);
    step("vectorize {}.ro{}", right.own, right.sum);
    step("vectorize P_own.so{}", score_dims_ - 1);
    if (run_ > 1) step("vectorize {}.vo{}", values.own, values.row);
    if (run_ > 1) step("vectorize {}.ejr", writer_);
    step("unroll {} (fit fjt fk1)", first_);
    step("unroll {} (pit pjt pk2 pjr)", second_);
  }

 private:
  template <class... Args>
  void step(const char* format, const Args&... args) {
    s_(fmt::format(fmt::runtime(format), args...));
  }
  [[noreturn]] static void refuse(const std::string& why) {
    throw ScheduleError(Diagnostic{why, {}, {}, ""});
  }

  // The maps behind both products, which take results from a thread's registers.
  void make_writers(const ProductChain& chain) {
    first_ = chain.first;
    second_ = chain.second;
    between_ = chain.between;
    const std::vector<std::string> readers = readers_of(s_.func(), analyze(s_.func(), first_).output);
    if (readers.size() == 1 && !analyze(s_.func(), readers[0]).reduction) {
      scored_ = readers[0];
      step("set_scope {} local", analyze(s_.func(), first_).output->name);
    } else {
      scored_ = first_ + "_out";
      step("{} = cache_write {} local", scored_, first_);
      between_.insert(between_.begin(), scored_);
    }
    writer_ = chain.epilogue;
    if (writer_.empty()) {
      writer_ = second_ + "_out";
      step("{} = cache_write {} local", writer_, second_);
    } else {
      step("set_scope {} local", analyze(s_.func(), second_).output->name);
    }
  }

  // Left operands move with the rows: `scores`, or what doesn't move with the result's last dimension.
  static std::optional<Product> product(const BlockInfo& b, const Buffer& scores) {
    Product p;
    p.block = b.name;
    const Access& out = access_to(b, b.output, true);
    const size_t dims = out.indices.size();
    if (dims < 2 || b.reduced().size() != 1) return std::nullopt;
    p.row = iter_at(b, out, dims - 2);
    p.column = iter_at(b, out, dims - 1);
    p.sum = b.reduced()[0];
    if (!p.row || !p.column) return std::nullopt;
    for (const Access& a : b.accesses) {
      if (a.write) continue;
      if (!a.uses(*p.sum) || a.uses(*p.row) == a.uses(*p.column)) return std::nullopt;
      (a.uses(*p.row) ? p.left : p.right) = a.buffer;
    }
    if (!p.left || !p.right || (scores && p.left != scores)) return std::nullopt;
    return p;
  }

  // The distance of rows of n elements, by storage_align.
  static int64_t padded(int64_t n) { return ceil_div(n - 4, kWarp) * kWarp + 4; }

  // The tile with enough blocks for the device, of those whose scores fit.
  bool choose(const BlockInfo& first, const Product& t, const BlockInfo& second, const Product& p) {
    keys_ = p.sum->extent;
    depth_ = t.sum->extent;
    width_ = p.column->extent;
    const int64_t bytes = bytes_of(first.output->type.dtype);
    int64_t batch = 1;
    for (const Iter* i : second.spatial())
      if (i != p.row && i != p.column) batch *= i->extent;
    int64_t kept = 0;  // rows of scores, and of what is made of them
    for (const std::string& b : between_) kept += !analyze(s_.func(), b).reduction;
    const RowTile* best = nullptr;
    for (const RowTile& r : kRowTiles) {
      const int64_t shared = bytes * (r.rows() * (kept * padded(keys_) + padded(depth_) + kMostRowNumbers) +
                                      kKeys * padded(depth_) + kValues * width_);
      if (shared > target_.l1_bytes || (best && shared > kMostShared)) continue;
      if (shared > kMostShared && &r != std::end(kRowTiles) - 1) continue;
      best = &r;
      if (batch * ceil_div(t.row->extent, r.rows()) >= kMultiprocessors) break;
    }
    if (!best) return false;
    tile_ = *best;
    run_ = 4;
    while (run_ > 1 && width_ % (kLanesAside * tile_.aside() * run_) != 0) run_ /= 2;
    return true;
  }

  // Of each operand a tile in shared memory, and what a thread reads of it at once. An operand that is made
  // here is its own tile.
  struct Copy {
    std::string block, tile, own;  // the block that makes the tile, the buffer, the block of a thread's part
    size_t row = 0, sum = 0, dims = 0;  // what tells the tile's rows, and what is summed
    bool made = false;
  };
  Copy copy(const Product& p, const Buffer& operand, const Iter& row) {
    Copy c;
    const BlockInfo b = analyze(s_.func(), p.block);
    const Access& a = access_to(b, operand, false);
    c.dims = a.indices.size();
    for (size_t d = 0; d < c.dims; ++d) {
      if (is_plain(a.indices[d], row.var)) c.row = d;
      if (is_plain(a.indices[d], p.sum->var)) c.sum = d;
    }
    if (c.row == c.sum) refuse("an operand that isn't indexed plainly");
    for (const std::string& w : writers_of(s_.func(), operand)) c.block = w;
    c.tile = operand->name;
    c.made = !c.block.empty();
    if (c.made) {
      step("set_scope {} shared", c.tile);
    } else {
      c.block = c.tile = fmt::format("{}_{}", operand->name, &row == p.row ? "rows" : "tile");
      step("{} = cache_read {} {} shared", c.tile, p.block, operand->name);
    }
    c.own = c.tile + "_own";
    step("{} = cache_read {} {} local", c.own, p.block, c.tile);
    return c;
  }
  static bool is_plain(const Expr& e, const Var& v) {
    const auto* r = e.as<VarRef>();
    return r && r->var == v;
  }

  // The loops of the block's S iterators, where it comes to, are numbered behind the prefix.
  Names bring(const std::string& block, const std::string& prefix, const std::string& location) {
    Names names;
    for (size_t k = 0; k < analyze(s_.func(), block).spatial().size(); ++k)
      names.push_back(fmt::format("{}{}", prefix, k));
    step("{} = compute_at {} {}", join(names), block, location);
    brought_[block] = names;
    return names;
  }
  // The loop of an iterator of a block that was brought, as it was analyzed before.
  std::string loop_of(const BlockInfo& b, const Iter* i) const {
    const std::vector<const Iter*> all = b.spatial();
    return brought_.at(b.name)[static_cast<size_t>(std::find(all.begin(), all.end(), i) - all.begin())];
  }

  // Rows: times, warps, lanes. Columns: times, warps, lanes, neighbours.
  void cut_rows(const std::string& block, const std::string& loop, const std::string& prefix) {
    step("{0}t {0}w {0}l = split {1}.{2} [{3}, {4}, {5}]", prefix, block, loop, tile_.own, tile_.warps,
         kLanesDown);
  }
  void cut_columns(const std::string& block, const std::string& loop, const std::string& prefix,
                   int64_t extent, int64_t run) {
    const int64_t one = tile_.aside() * kLanesAside * run;
    step("{0}t {0}w {0}l {0}r = split {1}.{2} [{3}, {4}, {5}, {6}]", prefix, block, loop,
         ceil_div(extent, one), tile_.aside(), kLanesAside, run);
  }

  void place_second(const BlockInfo& second, const Product& p, const Copy& values,
                    const std::string& scores_own) {
    const BlockInfo w = analyze(s_.func(), writer_);
    const Access& read = access_to(w, output_of(second_), false);
    const Iter *row = iter_at(w, read, read.indices.size() - 2),
               *column = iter_at(w, read, read.indices.size() - 1);
    if (!row || !column) refuse("a reader that doesn't follow the product");
    Names grid;
    for (const LoopInfo& l : loops_of(s_.func(), writer_))
      if (l.name != row->loop && l.name != column->loop) grid.push_back(l.name);
    step("i0 i1 = split {}.{} [_, {}]", writer_, row->loop, tile_.rows());
    grid.push_back("i0");
    cut_rows(writer_, "i1", "ei");
    cut_columns(writer_, column->loop, "ej", width_, run_);
    step("reorder {} ({} eiw ejw eil ejl eit ejt ejr)", writer_, join(grid));
    grid_ = grid;
    at_ = writer_ + ".i0";
    bring(second_, "p", at_);
    cut_rows(second_, loop_of(second, p.row), "pi");
    cut_columns(second_, loop_of(second, p.column), "pj", width_, run_);
    step("pk0 pk1 pk2 = split {}.{} [_, {}, 4]", second_, p.sum->loop, kValues / 4);
    step("reorder {} (pk0 piw pjw pil pjl pk1 pit pjt pk2 pjr)", second_);
    bring(scores_own, "so", second_ + ".pit");
    bring(values.own, "vo", second_ + ".pjt");
    bring(values.block, "vt", second_ + ".pk0");
    step("{0}_init = decompose_reduction {0}.pk0", second_);
  }

  void place_first(const BlockInfo& first, const Product& t, const BlockInfo& scored, const Copy& left,
                   const Copy& right) {
    const Access& read = access_to(scored, output_of(first_), false);
    const Iter* row = iter_at(scored, read, read.indices.size() - 2);
    const Iter* column = iter_at(scored, read, read.indices.size() - 1);
    if (!row || !column) refuse("scores that aren't read plainly");
    const int64_t keys =
        std::min(kKeys, ceil_div(keys_, kLanesAside * tile_.aside()) * kLanesAside * tile_.aside());
    step("j0 j1 = split {}.{} [_, {}]", scored_, loop_of(scored, column), keys);
    cut_rows(scored_, loop_of(scored, row), "si");
    cut_columns(scored_, "j1", "sj", keys, 1);
    step("reorder {} (j0 siw sjw sil sjl sit sjt)", scored_);
    bring(first_, "f", scored_ + ".j0");
    cut_rows(first_, loop_of(first, t.row), "fi");
    cut_columns(first_, loop_of(first, t.column), "fj", keys, 1);
    step("fk0 fk1 = split {}.{} [_, 4]", first_, t.sum->loop);
    step("reorder {} (fiw fjw fil fjl fk0 fit fjt fk1)", first_);
    bring(left.own, "lo", first_ + ".fit");
    bring(right.own, "ro", first_ + ".fjt");
    bring(right.block, "rt", scored_ + ".j0");
    bring(left.block, "lt", at_);
    lay_out(left);
    lay_out(right);
    step("{0}_init = decompose_reduction {0}.fk0", first_);
  }

  // What is summed lies innermost, so that a thread reads several steps at once.
  void lay_out(const Copy& c) {
    size_t row = c.row;
    if (c.sum + 1 != c.dims) {
      Names from, to;
      for (size_t d = 0; d < c.dims; ++d) from.push_back(fmt::format("d{}", d));
      for (size_t d = 0; d < c.dims; ++d)
        if (d != c.sum) to.push_back(from[d]);
      to.push_back(from[c.sum]);
      step("transform_layout {} ({}) -> ({})", c.tile, join(from, ", "), join(to, ", "));
      row -= row > c.sum;
    }
    step("storage_align {} {} {} 4", c.tile, row, kWarp);
  }

  // A block may have lost its loops of one iteration.
  void bind_product(const std::string& block, const std::string& i, const std::string& j) {
    for (const char* part : {"w", "l"}) {
      Names there;
      for (const LoopInfo& l : loops_of(s_.func(), block))
        if (l.name == i + part || l.name == j + part) there.push_back(l.name);
      if (there.empty()) continue;
      std::string loop = there[0];
      if (there.size() > 1) step("{} = fuse {} ({})", loop = fmt::format("{}t", part), block, join(there));
      step("bind {}.{} threadIdx.{}", block, loop, *part == 'w' ? "y" : "x");
    }
  }

  // A tile's elements by all threads, 16 bytes at once where they lie as they did.
  void spread_copy(const Copy& c, bool turned) {
    const int64_t bytes = bytes_of(find_buffer(c.tile)->type.dtype);
    const int64_t last = as_int(declarations(s_.func()).at(find_buffer(c.tile)).shape.back()).value_or(1);
    const int64_t run = turned ? 1 : std::gcd(last, 16 / bytes);
    const Names& loops = brought_.at(c.block);
    std::string loop = loops[0];
    if (loops.size() > 1) step("{} = fuse {} ({})", loop = "cc", c.block, join(loops));
    step("cs cy cx cv = split {}.{} [_, {}, {}, {}]", c.block, loop, kWarps, kWarp, run);
    step("bind {}.cy threadIdx.y", c.block);
    step("bind {}.cx threadIdx.x", c.block);
    if (run > 1) step("vectorize {}.cv", c.block);
  }
  Buffer find_buffer(const std::string& name) const {
    for (const auto& [buffer, decl] : declarations(s_.func()))
      if (buffer->name == name) return buffer;
    refuse("no buffer " + name);
  }
  Buffer output_of(const std::string& block) const { return analyze(s_.func(), block).output; }

  // What is made of the scores: rows by warps, elements of a row by lanes.
  void spread_rows(const BlockInfo& b) {
    const Access& out = access_to(b, b.output, true);
    const size_t dims = out.indices.size();
    const Iter* last = iter_at(b, out, dims - 1);
    const bool by_keys = !b.reduction && dims == score_dims_;
    const Iter* row = by_keys ? iter_at(b, out, dims - 2) : last;
    if (!last || !row || (b.reduction && b.reduced().size() != 1)) refuse("a map that doesn't follow rows");
    step("row0 row1 = split {}.{} [_, {}]", b.name, loop_of(b, row), by_keys || b.reduction ? kWarps : kWarp);
    if (!by_keys && !b.reduction) {
      step("bind {}.row1 threadIdx.x", b.name);
      return;
    }
    step("key0 key1 = split {}.{} [_, {}]", b.name, by_keys ? loop_of(b, last) : b.reduced()[0]->loop, kWarp);
    step("bind {}.row1 threadIdx.y", b.name);
    if (by_keys) {
      step("bind {}.key1 threadIdx.x", b.name);
      return;
    }
    step("reorder {} (key1 key0)", b.name);
    step("{0}_part = reduce_threads {0}.key1", b.name);
    step("{0}_zero = decompose_reduction {0}_part.key0", b.name);
  }

  Schedule& s_;
  const Target& target_;
  RowTile tile_{};
  int64_t keys_ = 0, depth_ = 0, width_ = 0, run_ = 1;
  size_t score_dims_ = 0;
  std::string first_, second_, scored_, writer_, at_;
  Names between_, grid_;
  std::map<std::string, Names> brought_;  // by block, the loops of its S iterators
};

}  // namespace

bool join_products_on_gpu(Schedule& s, const Target& target) {
  Schedule found = s;
  inline_chain_maps(found);
  if (!find_product_chain(found.func())) return false;
  return s.attempt("both products in one kernel, the scores between them in shared memory", [&](Schedule& t) {
    t = found;
    Attention(t, target).run();
  });
}

}  // namespace nestor::library
