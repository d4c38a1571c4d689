// The rows of a window are turned alike (transpose_tiles), each by as many shuffles as it has columns. What a
// maximum makes of all rows can be turned as well: lane by lane it is the same, with one row's shuffles
// instead of all rows', and with the loads as operands. A sum isn't touched: its terms would be added in
// another order. (Zen 5, plain NCHW: windows of 3 x 3 every 2 elements, 16 x 53 x 51, 2.6 to 1.7 us with the
// third tap told apart from the same vectors, 64 x 112 x 112 57 to 51; of 5 x 5 every 2 5.3 to 2.9.)
#include "src/passes/collect_terms.h"

#include <algorithm>
#include <optional>

#include "nestor/walk.h"

namespace nestor::passes {

namespace {

struct Term {
  size_t at = 0;  // the statement
  const Load* result = nullptr;
  BinaryOp op = BinaryOp::max;
  Expr value;
};

// An element of a tile, or what was merged of several.
bool of_tiles(const Expr& e, const std::vector<BufferDecl>& tiles) {
  if (const auto* b = e.as<Binary>()) return of_tiles(b->a, tiles) && of_tiles(b->b, tiles);
  const auto* l = e.as<Load>();
  return l &&
         std::any_of(tiles.begin(), tiles.end(), [&](const BufferDecl& d) { return d.buffer == l->buffer; });
}

bool same_element(const Load& a, const Load& b) {
  return a.buffer == b.buffer && same_expr(a.indices[0], b.indices[0]);
}

std::optional<Term> term_of(const Stmt& s, size_t at) {
  const auto* st = s.as<Store>();
  if (!st || st->mask || !st->buffer->type.is_vector() || st->indices.size() != 1 || !as_int(st->indices[0]))
    return std::nullopt;
  const auto* b = st->value.as<Binary>();
  if (!b || (b->op != BinaryOp::max && b->op != BinaryOp::min)) return std::nullopt;
  const auto* result = b->a.as<Load>();
  if (!result || result->buffer != st->buffer || !same_expr(result->indices[0], st->indices[0]) ||
      !b->b.as<Shuffle>())
    return std::nullopt;
  return Term{at, result, b->op, b->b};
}

// Shuffles of one pattern, all the way down to constants and elements of tiles.
bool shuffled_alike(const Expr& a, const Expr& b, const std::vector<BufferDecl>& tiles) {
  if (a.type() != b.type()) return false;
  const auto *x = a.as<Shuffle>(), *y = b.as<Shuffle>();
  if (x && y)
    return x->lanes == y->lanes && shuffled_alike(x->a, y->a, tiles) && shuffled_alike(x->b, y->b, tiles);
  if (of_tiles(a, tiles) && of_tiles(b, tiles)) return true;
  const auto* c = a.as<Broadcast>();
  return c && (c->a.as<IntImm>() || c->a.as<FloatImm>()) && same_expr(a, b);
}

Expr merged(BinaryOp op, const Expr& a, const Expr& b) {
  const auto *x = a.as<Shuffle>(), *y = b.as<Shuffle>();
  if (x) return make::shuffle(merged(op, x->a, y->a), merged(op, x->b, y->b), x->lanes);
  return same_expr(a, b) ? a : make::binary(op, a, b);
}

// The statement leaves the element alone, or makes its maximum with something else.
bool lets_wait(const Stmt& s, const Term& t) {
  const auto* st = s.as<Store>();
  if (!st) return false;
  const Buffer& buffer = t.result->buffer;
  const auto* b = st->value.as<Binary>();
  const auto* own = b ? b->a.as<Load>() : nullptr;
  if (own && (own->buffer != st->buffer || !same_expr(own->indices[0], st->indices[0]))) own = nullptr;
  if (uses_buffer(own ? b->b : st->value, buffer) || (st->mask && uses_buffer(st->mask, buffer)))
    return false;
  if (st->buffer != buffer) return true;
  const auto at = as_int(st->indices[0]);
  return at && (at != as_int(t.result->indices[0]) || (own && b->op == t.op));
}

}  // namespace

void collect_terms(std::vector<Stmt>& stmts, const std::vector<BufferDecl>& tiles) {
  std::vector<Term> waiting;
  std::vector<bool> gone(stmts.size());
  for (size_t at = 0; at < stmts.size(); ++at) {
    std::erase_if(waiting, [&](const Term& t) { return !lets_wait(stmts[at], t); });
    auto term = term_of(stmts[at], at);
    if (!term || !shuffled_alike(term->value, term->value, tiles)) continue;
    const auto before = std::find_if(waiting.begin(), waiting.end(), [&](const Term& t) {
      return t.op == term->op && same_element(*t.result, *term->result) &&
             shuffled_alike(t.value, term->value, tiles);
    });
    if (before == waiting.end()) {
      waiting.push_back(*term);
      continue;
    }
    const auto* st = stmts[at].as<Store>();
    const Expr value = merged(term->op, before->value, term->value);
    gone[before->at] = true;
    stmts[at] =
        make::store(st->buffer, st->indices, make::binary(term->op, st->value.as<Binary>()->a, value));
    *before = *term_of(stmts[at], at);
  }
  size_t kept = 0;
  for (size_t at = 0; at < stmts.size(); ++at)
    if (!gone[at]) std::swap(stmts[kept++], stmts[at]);
  stmts.resize(kept);
}

}  // namespace nestor::passes
