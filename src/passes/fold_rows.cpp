// Reduces several rows at once. Reducing one vector to a number takes log2(lanes) steps; each waits for the
// one before and uses half the lanes of the last. Instead, rows are reduced together: two vectors become one
// that holds half as many partial results of each, and so on, until each lane is a row:
//
//   a0 a1 a2 a3   b0 b1 b2 b3  ->  a0 b0 a1 b1 op a2 b2 a3 b3  ->  ...   16 rows of 16: 30 shuffles, 15 op
//
// Transposing the rows would take 64 shuffles, and reducing each row alone 64 shuffles and 64 op.
#include "src/passes/fold_rows.h"

#include <algorithm>
#include <bit>

#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/passes/reduce_lanes.h"
#include "src/passes/refuse.h"

namespace nestor::passes {

namespace {

constexpr int64_t kStraight = 4;  // whole vectors of a chain; more become a loop
constexpr int64_t kChains = 8;    // sums under way, each waiting for its own last result
// Vectors of rows that follow each other, each row one vector: partial sums in registers, which have no
// index.
constexpr int64_t kStraightRows = 8;
constexpr int kBytesNearby = 16;  // lanes within so many bytes change places at the least cost

class Folder {
 public:
  Folder(const For& rows, const For& along, LaneReduction r, int lanes, Facts facts, const BufferSizes& sizes)
      : rows_(rows),
        along_(along),
        r_(std::move(r)),
        lanes_(lanes),
        facts_(std::move(facts)),
        sizes_(sizes),
        type_(r_.buffer->type.with_lanes(lanes)) {}

  // `count` rows from `start` on, at most as many as a vector has lanes.
  Stmt run(const Expr& start, int64_t count) {
    registers_ = make_buffer(r_.buffer->name + "_rows", type_);
    next_ = 0;
    std::vector<Stmt> out;
    std::vector<Expr> rows = reduce(start, count, out);
    while (!std::has_single_bit(rows.size())) rows.push_back(rows.back());
    const int nearby = std::min(lanes_, std::max(1, kBytesNearby / bytes_of(type_.dtype)));
    for (int width = 1; width < lanes_; width *= 2) {  // rows side by side
      std::vector<Expr> folded;
      for (size_t i = 0; i < rows.size(); i += 2)
        folded.push_back(keep(fold(rows[i], rows[std::min(i + 1, rows.size() - 1)], width, nearby), out));
      rows = std::move(folded);
    }
    out.push_back(write(start, count, rows[0]));
    return make::alloc({registers_, {next_}, Scope::local, std::nullopt}, make::seq(std::move(out)));
  }

 private:
  Expr keep(Expr value, std::vector<Stmt>& out) {
    out.push_back(make::store(registers_, {next_}, std::move(value)));
    return make::load(registers_, {next_++});
  }

  // Each row as one vector of partial results. As many vectors of it as there are chains to fill grow beside
  // each other.
  std::vector<Expr> reduce(const Expr& start, int64_t count, std::vector<Stmt>& out) {
    const int64_t extent = *as_int(along_.extent), whole = extent / lanes_, rest = extent % lanes_;
    const int64_t beside = static_cast<int64_t>(std::bit_floor(
        static_cast<uint64_t>(std::clamp<int64_t>(kChains / count, 1, std::max<int64_t>(1, whole)))));
    std::vector<LaneReduction> rows(static_cast<size_t>(count), r_);
    for (size_t i = 0; i < rows.size(); ++i) {
      const VarMap at{{rows_.var, start + static_cast<int64_t>(i)}};
      rows[i].value = substitute(r_.value, at);
      if (r_.guard) rows[i].guard = substitute(r_.guard, at);
    }
    std::vector<Expr> chains;  // a row's beside each other
    const auto take = [&](size_t chain, const Expr& from, int64_t n) {
      return values_in_lanes(rows[chain / static_cast<size_t>(beside)], along_.var, from, n, lanes_, facts_,
                             sizes_);
    };
    const auto add = [&](size_t chain, const Expr& from, int64_t n) {
      return make::store(registers_, chains[chain].as<Load>()->indices,
                         r_.combine(chains[chain], take(chain, from, n)));
    };
    const auto n = static_cast<size_t>(count * beside);
    const auto vector_of = [&](size_t chain) { return static_cast<int64_t>(chain) % beside; };
    for (size_t c = 0; c < n; ++c)
      chains.push_back(keep(take(c, vector_of(c) * lanes_, whole ? lanes_ : rest), out));
    const int64_t rounds = whole / beside;
    if (rounds > kStraight) {
      Var v = make_var(along_.var->name);
      facts_.set(v, {0, rounds - 2});
      std::vector<Stmt> step;
      for (size_t c = 0; c < n; ++c)
        step.push_back(add(c, (Expr(v) * beside + beside + vector_of(c)) * lanes_, lanes_));
      out.push_back(make::loop(v, rounds - 1, make::seq(std::move(step))));
    }
    for (int64_t w = rounds > kStraight ? rounds * beside : beside; w < whole; ++w)
      for (size_t c = static_cast<size_t>(w % beside); c < n; c += static_cast<size_t>(beside))
        out.push_back(add(c, w * lanes_, lanes_));
    if (whole && rest)
      for (size_t c = static_cast<size_t>(whole % beside); c < n; c += static_cast<size_t>(beside))
        out.push_back(add(c, whole * lanes_, rest));
    for (; chains.size() > rows.size();) {  // a row's as a tree
      std::vector<Expr> halves;
      for (size_t c = 0; c < chains.size(); c += 2)
        halves.push_back(keep(r_.combine(chains[c], chains[c + 1]), out));
      chains = std::move(halves);
    }
    return chains;
  }

  // Of a and b, each with partial results of `width` rows in turn, those of both, half as many of each. First
  // within `nearby` lanes, then whole groups of them; rows come out in order.
  Expr fold(const Expr& a, const Expr& b, int width, int nearby) const {
    std::vector<int64_t> first, second;
    if (width < nearby) {
      const int half = nearby / 2;
      for (int group = 0; group < lanes_; group += nearby)
        for (int at = 0; at < half; at += width)
          for (const int from : {0, lanes_})
            for (int l = group + at; l < group + at + width; ++l) {
              first.push_back(from + l);
              second.push_back(from + l + half);
            }
    } else {
      for (int group = 0; group < 2 * lanes_; group += 2 * nearby)
        for (int l = group; l < group + nearby; ++l) {
          first.push_back(l);
          second.push_back(l + nearby);
        }
    }
    return r_.combine(make::shuffle(a, b, std::move(first)), make::shuffle(a, b, std::move(second)));
  }

  Stmt write(const Expr& start, int64_t count, Expr folded) {
    const int width = static_cast<int>(lanes_of_rest(count, lanes_));
    if (width < lanes_) {
      std::vector<int64_t> leading;
      for (int l = 0; l < width; ++l) leading.push_back(l);
      folded = make::shuffle(folded, folded, std::move(leading));
    }
    Var row = make_var(rows_.var->name);
    facts_.set(row, {0, count - 1});
    Expr mask;
    if (count < width) mask = lt(make::ramp(0, 1, width), make::broadcast(count, width));
    const VarMap at{{rows_.var, start + Expr(row)}};
    const Expr index =
        Widener(row, width, facts_, sizes_).widen_to_vector(simplify(substitute(r_.index, at), facts_), mask);
    Expr old = make::load(r_.buffer, {index}, mask);
    return make::store(r_.buffer, {index}, r_.combine(std::move(old), std::move(folded)), mask);
  }

  const For &rows_, &along_;
  const LaneReduction r_;
  const int lanes_;
  Facts facts_;
  const BufferSizes& sizes_;
  const Type type_;
  Buffer registers_;
  int64_t next_ = 0;
};

// In a row.
Facts inside_of(const For& rows, Facts facts) {
  facts.set(rows.var, {0, as_int(rows.extent).value_or(Interval::kMax) - 1});
  facts.assume(lt(rows.var, rows.extent));
  return facts;
}

}  // namespace

Stmt fold_rows(const For& rows, int lanes, const Facts& facts, const BufferSizes& sizes) {
  const auto* along = rows.body.as<For>();
  const auto r = along && along->kind == ForKind::vectorized ? find_lane_reduction(*along) : std::nullopt;
  const int64_t extent = along ? as_int(along->extent).value_or(0) : 0;
  if (r && !r->init && lanes >= 2 && !(as_int(rows.extent) && as_int(along->extent)))
    return make::loop(rows.var, rows.extent, *reduce_lanes(*along, lanes, inside_of(rows, facts), sizes));
  const int64_t count = *as_int(rows.extent), whole = count / lanes, rest = count % lanes;
  if (!r || r->init || extent < 1 || lanes < 2 || (count > 1 && !uses_var(r->index, rows.var)))
    refuse(
        "loop `" + rows.var->name + "` can't be vectorized: what it holds isn't one reduction for each row",
        "vectorize one of the two loops");
  std::vector<Stmt> out;
  if (whole > (extent == lanes ? kStraightRows : 1)) {
    Var v = make_var(rows.var->name);
    Facts inside = facts;
    inside.set(v, {0, whole - 1});
    const Stmt tile = Folder(rows, *along, *r, lanes, inside, sizes).run(Expr(v) * lanes, lanes);
    out.push_back(make::loop(v, whole, tile));
  } else {
    for (int64_t w = 0; w < whole; ++w)
      out.push_back(Folder(rows, *along, *r, lanes, facts, sizes).run(w * lanes, lanes));
  }
  if (rest == 1) {
    const Stmt row = substitute(fresh_copy(rows.body), VarMap{{rows.var, whole * lanes}});
    out.push_back(*reduce_lanes(*row.as<For>(), lanes, facts, sizes));
  } else if (rest) {
    out.push_back(Folder(rows, *along, *r, lanes, facts, sizes).run(whole * lanes, rest));
  }
  return make::seq(std::move(out));
}

}  // namespace nestor::passes
