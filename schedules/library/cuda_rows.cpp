// A row is worked at by a part of a warp, a warp, or several warps, its elements spread over their threads:
// of pieces of 16 bytes thread t has t, t + T, t + 2T and so on, in registers, so that neighbours fetch
// neighbours and each element is read once (Milakov and Gimelshein, Online normalizer calculation for
// softmax, 2018, has the traffic of the others). Rows that are too long for registers are read again by each
// block that needs them. Where rows lie side by side in memory each row has one thread.
#include "schedules/library/cuda_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/cuda_work.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kMostThreads = 1024;
constexpr int64_t kInRegisters = 32;  // elements of one row that a thread holds of one buffer at most
constexpr size_t kGridDimensions = 3;
constexpr int64_t kSerial = 16;  // steps that one thread may as well take by itself
constexpr int64_t kVectorBytes = 16;

std::vector<std::string> loops_of_iters(const std::vector<const Iter*>& iters) {
  std::vector<std::string> out;
  for (const Iter* i : iters) out.push_back(i->loop);
  return out;
}

// Where the buffer's elements of a row lie: its dimensions are rows, or in their order the inner iterators of
// every block of the group that touches it.
constexpr int kInner = -1, kUnit = -2;
// How the loops of a group become those of threads; each may be seen to be right where another isn't.
struct Loops {
  bool rows_as_one = true;   // else a loop for each of their dimensions, three at most
  bool inner_as_one = true;  // else threads along the last dimension of a row alone
  bool pieces = true;        // of 16 bytes; else of one element
};

struct RowBuffer {
  Buffer buffer;
  std::vector<std::string> readers;
  std::vector<int64_t> inner;  // extents of the inner dimensions
  std::vector<int> dims;       // of each dimension: the label of its rows, kInner or kUnit
  int64_t length() const {
    int64_t n = 1;
    for (const int64_t e : inner) n *= e;
    return n;
  }
};

class Rows {
 public:
  Rows(Schedule& s, RowGroup group, const Loops& loops)
      : s_(s), group_(std::move(group)), inner_as_one_(loops.inner_as_one) {
    if (loops.pieces) piece_ = piece_of_row();
    const size_t dims = group_.blocks[0].rows.size();
    for (size_t k = 0; k < (loops.rows_as_one ? 1 : dims); ++k)
      loops_.push_back(k ? fmt::format("row{}", k) : "row");
  }

  void run() {
    const RowBlock& longest = group_.longest();
    const RowShape shape = row_shape(group_, elements_of_row(), piece_);
    const bool by_thread = !group_.along_row;
    const int64_t threads = by_thread ? 1 : shape.threads;
    if (!by_thread) choose(shape, longest.length);
    keep_rows(threads);
    for (const RowBlock& b : group_.blocks) bring_into_order(b);
    std::vector<std::string> names;
    for (const auto& [copy, buffer] : copies_) {
      bring_into_order(buffer, copy);
      names.push_back(copy);
    }
    for (const RowBlock& b : group_.blocks) names.push_back(b.info.name);
    for (size_t i = 1; i < names.size(); ++i)
      for (const std::string& l : loops_) step("merge {1}.{0} {2}.{0}", l, names[0], names[i]);
    bind(names[0], by_thread);  // before the ragged ends of `spread` make it hard to see that it is right
    for (const std::string& name : names)
      if (by_thread)
        reduce_alone(name);
      else
        spread(name, threads);
  }

 private:
  template <class... Args>
  void step(const char* format, const Args&... args) {
    s_(fmt::format(fmt::runtime(format), args...));
  }

  // Those that threads share, which are one loop.
  int64_t elements_of_row() const {
    const RowBlock& longest = group_.longest();
    return inner_as_one_ || longest.inner.empty() ? longest.length : longest.inner.back()->extent;
  }

  // Elements in a row that one instruction may fetch or store.
  int64_t piece_of_row() const {
    int64_t bytes = 1;
    for (const RowBlock& b : group_.blocks)
      for (const Access& a : b.info.accesses)
        bytes = std::max<int64_t>(bytes, bytes_of(a.buffer->type.dtype));
    if (!group_.along_row) return 1;
    int64_t piece = std::gcd(elements_of_row(), std::max<int64_t>(1, kVectorBytes / bytes));
    while (piece > 1 && group_.rows * power_of_two_from(elements_of_row() / piece) < kEnoughThreads)
      piece /= 2;
    return piece;
  }

  // The two numbers of the schedule, which the tuner may change.
  void choose(const RowShape& shape, int64_t length) {
    const auto up_to = [](int64_t most) {
      std::string values;
      for (int64_t n = 1; n <= most; n *= 2) values += (n > 1 ? ", " : "") + std::to_string(n);
      return values;
    };
    const std::string& name = group_.blocks[0].info.name;
    threads_ = name + "_threads";
    rows_ = name + "_rows";
    s_.because(
        fmt::format("{} rows of {} elements, for {} multiprocessors", group_.rows, length, kMultiprocessors));
    step("{} = sample_choice [{}] -> {}", threads_,
         up_to(std::max(shape.threads, std::min(kMostThreads, power_of_two_from(length)))).substr(3),
         shape.threads);
    s_.because(fmt::format("blocks of {} threads, where the rows are enough for all", kRowBlock));
    step("{} = sample_choice [{}] -> {}", rows_, up_to(std::max<int64_t>(8, shape.rows)), shape.rows);
  }

  // Temporaries of the group become registers, and what several blocks read of a row is fetched once.
  void keep_rows(int64_t threads) {
    const auto fits = [&](const RowBuffer& b) {
      if (inner_as_one_ || b.inner.empty()) return b.length() <= threads * kInRegisters;
      const int64_t last = b.inner.back();
      return b.length() / last * ceil_div(last, threads) <= kInRegisters;
    };
    std::set<std::string> done;
    for (const RowBlock& block : group_.blocks)
      for (const Access& a : block.info.accesses) {
        if (!done.insert(a.buffer->name).second) continue;
        const std::optional<RowBuffer> b = row_buffer(a.buffer);
        const bool is_made_here = std::any_of(group_.blocks.begin(), group_.blocks.end(),
                                              [&](const RowBlock& w) { return w.info.output == a.buffer; });
        if (!b || !used_here_alone(a.buffer) || !fits(*b)) {
          // Read where it lies, neighbours have to fetch neighbours.
          const auto moves = [&](const Iter* i) { return a.uses(*i); };
          if (piece_ > 1 && block.info.reduction && !is_made_here &&
              std::any_of(block.inner.begin(), block.inner.end(), moves))
            throw ScheduleError(Diagnostic{"no thread holds its pieces of " + a.buffer->name, {}, {}, ""});
          continue;
        }
        if (is_made_here && !find_param(s_.func(), a.buffer)) {
          step("set_scope {} local", a.buffer->name);
          lay_out(*b, a.buffer->name, threads);
        } else if (!is_made_here && (b->readers.size() > 1 || piece_ > 1) && !b->inner.empty()) {
          const std::string copy = a.buffer->name + "_row";
          step("{} = cache_read {} {} local readers=all", copy, b->readers[0], a.buffer->name);
          lay_out(*b, copy, threads);
          copies_.emplace_back(copy, *b);
        }
      }
  }

  bool used_here_alone(const Buffer& b) const {
    const auto is_here = [&](const std::string& name) {
      return std::any_of(group_.blocks.begin(), group_.blocks.end(),
                         [&](const RowBlock& r) { return r.info.name == name; });
    };
    const std::vector<std::string> readers = readers_of(s_.func(), b);
    return std::all_of(readers.begin(), readers.end(), is_here);
  }

  std::optional<RowBuffer> row_buffer(const Buffer& buffer) const {
    RowBuffer out{buffer, {}, {}, {}};
    for (const RowBlock& block : group_.blocks) {
      bool reads = false;
      for (const Access& a : block.info.accesses) {
        if (a.buffer != buffer) continue;
        reads |= !a.write;
        RowBuffer here{buffer, {}, {}, {}};
        if (!look_at(a, block, here) ||
            (!out.dims.empty() && (here.inner != out.inner || here.dims != out.dims)))
          return std::nullopt;
        out.inner = here.inner;
        out.dims = here.dims;
      }
      if (reads) out.readers.push_back(block.info.name);
    }
    return out;
  }

  // All row labels and all or none of the inner iterators, in their order.
  static bool look_at(const Access& a, const RowBlock& block, RowBuffer& out) {
    size_t next = 0, rows = 0;
    for (const Expr& index : a.indices) {
      const auto* v = index.as<VarRef>();
      if (!v && !as_int(index)) return false;
      out.dims.push_back(kUnit);
      if (!v) continue;
      const auto is_it = [&](const Iter* i) { return i->var == v->var; };
      const auto row = std::find_if(block.rows.begin(), block.rows.end(), is_it);
      if (row != block.rows.end()) {
        out.dims.back() = static_cast<int>(row - block.rows.begin());
        ++rows;
      } else if (next < block.inner.size() && is_it(block.inner[next])) {
        out.dims.back() = kInner;
        out.inner.push_back(block.inner[next++]->extent);
      } else if (std::none_of(block.info.iters.begin(), block.info.iters.end(),
                              [&](const Iter& i) { return i.extent == 1 && is_it(&i); })) {
        return false;
      }
    }
    return rows == block.rows.size() && (next == 0 || next == block.inner.size());
  }

  // Thread t has the pieces t, t + threads, ... of a row.
  void lay_out(const RowBuffer& b, const std::string& name, int64_t threads) {
    if (b.inner.empty() || threads == 1) return;
    std::string vars, place, left;
    for (size_t d = 0, k = 0; d < b.dims.size(); ++d) {
      const std::string v = fmt::format("d{}", d);
      vars += (d ? ", " : "") + v;
      const bool is_inner = b.dims[d] == kInner;
      if (is_inner && (inner_as_one_ || k + 1 == b.inner.size())) {
        place = place.empty() ? v : fmt::format("({}*{}+{})", place, b.inner[k], v);
      } else {
        left += v + ", ";
      }
      k += is_inner;
    }
    if (piece_ == 1)
      step("transform_layout {0} ({1}) -> ({2}{3}/{4}, {3}%{4})", name, vars, left, place, threads_);
    else
      step("transform_layout {0} ({1}) -> ({2}{3}/{5}/{4}, {3}/{5}%{4}, {3}%{5})", name, vars, left, place,
           threads_, piece_);
  }

  // The rows' loops around a row's elements as one.
  void bring_into_order(const RowBlock& b) {
    bring_into_order(b.info.name, b.units, loops_of_iters(b.rows), loops_of_iters(b.inner));
  }

  // A copy's loops are those of the buffer's dimensions, in their order.
  void bring_into_order(const RowBuffer& b, const std::string& copy) {
    std::vector<std::string> rows(group_.blocks[0].rows.size()), units, inner;
    const std::vector<LoopInfo> loops = loops_of(s_.func(), copy);
    for (size_t d = 0; d < loops.size(); ++d) {
      if (b.dims[d] == kInner) inner.push_back(loops[d].name);
      if (b.dims[d] == kUnit) units.push_back(loops[d].name);
      if (b.dims[d] >= 0) rows[static_cast<size_t>(b.dims[d])] = loops[d].name;
    }
    bring_into_order(copy, units, rows, inner);
  }

  void bring_into_order(const std::string& name, std::vector<std::string> units,
                        const std::vector<std::string>& rows, const std::vector<std::string>& inner) {
    std::vector<std::string> order = units;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), inner.begin(), inner.end());
    if (order.size() > 1) step("reorder {} ({})", name, join(order));
    if (units.empty() && rows.empty())
      step("row = add_unit_loop {}", order.empty() ? name : name + "." + order[0]);
    // The first of the loops has all that is left over.
    std::vector<std::string> first = units;
    for (size_t k = 0; k < rows.size(); ++k) {
      if (k == 0 || loops_.size() == 1)
        first.push_back(rows[k]);
      else
        step("{} = fuse {} ({})", loops_[k], name, rows[k]);
    }
    if (!first.empty()) step("row = fuse {} ({})", name, join(first));
    if (!inner.empty()) step("e = fuse {} ({})", name, inner_as_one_ ? join(inner) : inner.back());
  }

  void spread(const std::string& name, int64_t threads) {
    const std::vector<LoopInfo> loops = loops_of(s_.func(), name);
    if (loops.back().name != "e" || threads == 1) return;
    std::vector<std::string> order = {"e1"};
    const BlockInfo b = analyze(s_.func(), name);
    for (const LoopInfo& l : loops)
      if (b.iter(l.name) && b.iter(l.name)->reduce && l.name != "e") order.push_back(l.name);
    order.emplace_back("e0");
    if (piece_ > 1)
      step("e0 e1 ev = split {}.e [_, {}, {}]", name, threads_, piece_);
    else
      step("e0 e1 = split {}.e [_, {}]", name, threads_);
    if (piece_ > 1) order.emplace_back("ev");
    if (!b.reduction) {
      step("bind {}.e1 threadIdx.x", name);
      if (piece_ > 1) step("vectorize {}.ev", name);
      return;
    }
    step("reorder {} ({})", name, join(order));
    step("{0}_part = reduce_threads {0}.e1", name);
    step("{0}_zero = decompose_reduction {0}_part.{1}", name, order[1]);
  }

  void reduce_alone(const std::string& name) {
    const BlockInfo b = analyze(s_.func(), name);
    const std::vector<LoopInfo> loops = loops_of(s_.func(), name);
    const auto is_inner = [&](const LoopInfo& l) { return b.iter(l.name) && b.iter(l.name)->reduce; };
    const auto first = std::find_if(loops.begin(), loops.end(), is_inner);
    if (b.reduction)
      step("{0}_zero = decompose_reduction {0}.{1}", name, first == loops.end() ? "e" : first->name);
  }

  void bind(const std::string& name, bool by_thread) {
    std::string blocks = loops_.back();
    if (by_thread || group_.rows > 1) {
      step("r0 r1 = split {}.{} [_, {}]", name, blocks,
           by_thread ? std::to_string(threads_for(group_.rows)) : rows_);
      step("bind {}.r1 threadIdx.{}", name, by_thread ? "x" : "y");
      blocks = "r0";
    }
    for (size_t k = loops_.size(); k-- > 0; blocks = k ? loops_[k - 1] : "")
      step("bind {}.{} blockIdx.{}", name, blocks, "xyz"[loops_.size() - 1 - k]);
  }

  Schedule& s_;
  RowGroup group_;
  std::vector<std::string> loops_;  // of rows, outermost first
  std::string threads_, rows_;      // of a row, of a block: decisions
  bool inner_as_one_;
  int64_t piece_ = 1;                                      // elements side by side that a thread has
  std::vector<std::pair<std::string, RowBuffer>> copies_;  // blocks that fetch rows
};

// Rows that no registers hold: what is made in them is made again by each reader.
RowGroup without_long_temporaries(Schedule& s, const std::vector<std::string>& candidates,
                                  const std::string& block, RowGroup g) {
  if (g.longest().length <= kMostThreads * kInRegisters) return g;
  std::vector<std::string> left;
  for (const std::string& name : candidates) {
    const auto own = std::find_if(g.blocks.begin(), g.blocks.end(),
                                  [&](const RowBlock& b) { return b.info.name == name; });
    const bool inlined = own != g.blocks.end() && !own->info.reduction && !own->inner.empty() &&
                         !find_param(s.func(), own->info.output) && s.try_step("compute_inline " + name);
    if (!inlined) left.push_back(name);
  }
  return row_group(s.func(), left, block);
}

// By one kernel. Else a reduction is better split over blocks.
bool has_enough_threads(const RowGroup& g) {
  const int64_t length = g.longest().length;
  if (!g.along_row) return g.rows >= kEnoughThreads || length <= kSerial;
  return g.rows >= kMultiprocessors || length <= kMostThreads * kInRegisters;
}

}  // namespace

bool bind_rows(Schedule& s, const std::vector<std::string>& candidates, const std::string& block) {
  constexpr bool kWays[][2] = {{true, true}, {false, true}, {true, false}, {false, false}};
  for (int way = 0; way < 8; ++way) {
    const Loops loops{kWays[way % 4][0], kWays[way % 4][1], way < 4};
    Schedule shorter = s;
    RowGroup g = row_group(s.func(), candidates, block);
    if (!g.blocks.empty()) g = without_long_temporaries(shorter, candidates, block, std::move(g));
    if (g.blocks.empty() || !has_enough_threads(g)) return false;
    const bool does =
        (loops.rows_as_one || (g.blocks[0].rows.size() > 1 && g.blocks[0].rows.size() <= kGridDimensions)) &&
        (loops.inner_as_one || g.longest().inner.size() > 1);
    if (!does) continue;
    const std::string plan = fmt::format("rows {}, the elements of each {}{}, for {}",
                                         loops.rows_as_one ? "as one loop" : "by dimension",
                                         loops.inner_as_one ? "as one loop" : "by the last dimension",
                                         loops.pieces ? ", 16 bytes at once" : "", block);
    if (s.attempt(plan, [&](Schedule& t) {
          t = shorter;
          Rows(t, std::move(g), loops).run();
        }))
      return true;
  }
  return false;
}

}  // namespace nestor::library
