#include "schedules/library/turned_parts.h"

#include <algorithm>

#include "nestor/walk.h"

namespace nestor::library {

namespace {

bool reads(const BlockInfo& b, const Buffer& buffer) {
  return std::any_of(b.accesses.begin(), b.accesses.end(),
                     [&](const Access& a) { return !a.write && a.buffer == buffer; });
}

// Whether the last dimension of the buffer goes with `last` and the one before with `before`.
bool lies_along(const BlockInfo& b, const Access& a, const Iter* before, const Iter* last) {
  const size_t dims = a.indices.size();
  return dims >= 2 && before && last && a.has_plain_indices() && iter_at(b, a, dims - 2) == before &&
         iter_at(b, a, dims - 1) == last;
}

// Whether the map works on scores where they lie, and on nothing else that goes with both a query and a key:
// a mask of both would be read across.
bool is_map_of_scores(const PrimFunc& f, const std::string& name, const Buffer& scores) {
  const BlockInfo b = analyze(f, name);
  const Access& out = access_to(b, b.output, true);
  const size_t dims = out.indices.size();
  if (b.reduction || dims < 2) return false;
  const Iter *query = iter_at(b, out, dims - 2), *key = iter_at(b, out, dims - 1);
  if (!query || !key) return false;
  return std::all_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    if (a.write || a.buffer == scores) return lies_along(b, a, query, key);
    return !a.uses(*query) || !a.uses(*key);
  });
}

// Whether the reduction folds each row of `scores`.
bool folds_rows(const PrimFunc& f, const std::string& name, const Buffer& scores) {
  const BlockInfo b = analyze(f, name);
  if (!b.reduction || b.reduced().size() != 1) return false;
  for (const Access& a : b.accesses)
    if (!a.write && a.buffer != b.output &&
        (a.buffer != scores || !lies_along(b, a, iter_at(b, a, a.indices.size() - 2), b.reduced().front())))
      return false;
  return reads(b, scores);
}

// Whether the map reads one element of each query's, in order.
bool spreads_over_keys(const PrimFunc& f, const std::string& name, const Buffer& folded) {
  const BlockInfo b = analyze(f, name);
  const Access& out = access_to(b, b.output, true);
  return std::all_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    return a.buffer != folded ||
           (a.has_plain_indices() && !a.indices.empty() &&
            iter_at(b, a, a.indices.size() - 1) == iter_at(b, out, out.indices.size() - 2));
  });
}

// Whether softmax of rows is all that is between the products; the scores may be scaled and masked before.
bool find_softmax(const PrimFunc& f, const ProductChain& c, TurnedParts& p) {
  const BlockInfo first = analyze(f, c.first);
  std::vector<std::string> between = c.between;
  if (!between.empty() && is_map_of_scores(f, between[0], first.output) &&
      readers_of(f, first.output) == std::vector{between[0]}) {
    p.maker = between[0];
    between.erase(between.begin());
  }
  if (between.size() != 3 || c.epilogue.empty()) return false;
  p.largest = between[0];
  p.exponentials = between[1];
  p.sum = between[2];
  const auto output_of = [&](const std::string& b) { return analyze(f, b).output; };
  const Buffer scores = p.maker.empty() ? first.output : output_of(p.maker);
  const Buffer exponentials = output_of(p.exponentials);
  return c.scores == exponentials && folds_rows(f, p.largest, scores) &&
         is_map_of_scores(f, p.exponentials, scores) && folds_rows(f, p.sum, exponentials) &&
         spreads_over_keys(f, p.exponentials, output_of(p.largest)) &&
         readers_of(f, scores) == std::vector{p.largest, p.exponentials} &&
         readers_of(f, exponentials) == std::vector{p.sum, c.second} &&
         readers_of(f, output_of(p.largest)) == std::vector{p.exponentials} &&
         readers_of(f, output_of(p.sum)) == std::vector{c.epilogue};
}

// The map that copies an operand; empty where that is read where it lies. Nothing where it is made otherwise,
// or what is copied doesn't lie dense along the copy's dimension `from_end`.
std::optional<std::string> copy_of(const PrimFunc& f, const Buffer& operand, size_t from_end) {
  if (find_param(f, operand)) return "";
  const std::vector<std::string> writers = writers_of(f, operand);
  if (writers.size() != 1) return std::nullopt;
  const BlockInfo b = analyze(f, writers[0]);
  const Access& out = access_to(b, operand, true);
  const Iter* dense = out.indices.size() < 2 ? nullptr : iter_at(b, out, out.indices.size() - from_end);
  for (const Access& a : b.accesses)
    if (!a.write && (!dense || a.stride(*dense) != 1)) return std::nullopt;
  return b.copies ? std::optional(b.name) : std::nullopt;
}

bool find_operands(const PrimFunc& f, const ProductChain& c, TurnedParts& p) {
  const BlockInfo first = analyze(f, c.first), second = analyze(f, c.second);
  const Access& made = access_to(first, first.output, true);
  const size_t dims = made.indices.size();
  if (dims < 2) return false;
  const Iter *query = iter_at(first, made, dims - 2), *key = iter_at(first, made, dims - 1);
  const Iter* along = first.reduced().front();
  std::optional<std::string> keys, queries, values;
  for (const Access& a : first.accesses) {
    if (a.write || a.buffer == first.output || a.buffer->type != first.output->type) continue;
    if (lies_along(first, a, along, key)) keys = copy_of(f, a.buffer, 2);
    if (!lies_along(first, a, query, along)) continue;
    p.queries = a.buffer;
    queries = copy_of(f, a.buffer, 1);
  }
  for (const Access& a : second.accesses)
    if (!a.write && a.buffer != c.scores && a.buffer != second.output &&
        a.buffer->type == second.output->type)
      values = copy_of(f, a.buffer, 1);
  if (!keys || keys->empty() || !queries || !values) return false;
  p.turned_keys = *keys;
  p.moved_queries = *queries;
  p.moved_values = *values;
  return true;
}

}  // namespace

std::optional<TurnedParts> turned_parts(const PrimFunc& f, const ProductChain& c) {
  TurnedParts p;
  return find_softmax(f, c, p) && find_operands(f, c, p) ? std::optional(p) : std::nullopt;
}

}  // namespace nestor::library
