// What the analytic schedules look at: a block's iterators, and how each access moves in memory with each of
// them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nestor/schedule.h"
#include "nestor/simplify.h"
#include "nestor/target.h"

namespace nestor::library {

struct Iter {
  std::string loop;  // the loop it is bound to, one to one; empty where it isn't
  Var var;
  int64_t extent = 0;
  bool reduce = false;
  bool open = false;  // the extent is a usual one: runs decide it (kOpenLoop)
};

struct Access {
  Buffer buffer;
  bool write = false, read = false, constant = false;  // constant: a `const` parameter, free to be laid out
  std::vector<Expr> indices;
  std::vector<int64_t> strides;  // row major, of the buffer
  int64_t elements = 0;          // of the buffer
  // By dimension: so many of its elements lie beside each other in a layout that the buffer has already;
  // else 1.
  std::vector<int64_t> panels;
  // Of a sum's operand that is a padded copy, the indices of each dimension that are no padding; else empty.
  std::vector<Interval> filled;

  bool uses(const Iter& i) const;
  bool has_plain_indices() const;                           // each an iterator or a number
  bool slides_along(const Iter& tap, const Iter& i) const;  // one index moves with both
  int64_t panel_along(const Iter& i) const;
  // Elements between neighbours along i; nullopt where that isn't constant.
  std::optional<int64_t> stride(const Iter& i) const;
};

struct BlockInfo {
  std::string name;
  std::vector<Iter> iters;
  std::vector<Access> accesses;  // init's left out
  Buffer output;
  bool output_is_param = false;
  bool reduction = false;
  bool has_math = false;     // exp, log ...: dear to compute twice
  bool has_select = false;   // a padding
  bool has_shift = false;    // by an iterator: numbers packed in a byte
  bool copies = false;       // elements as they are
  bool affine_loops = true;  // every loop is one iterator's

  const Iter* iter(const std::string& loop) const;
  std::vector<const Iter*> spatial() const, reduced() const;
  int64_t reduction_size() const;
  int64_t instances() const;  // of all iterators together
};

constexpr int64_t kLine = 64;  // bytes, of every cache

// The iterator that `loop` walks, or tiles of it; null where none does.
const Iter* walked_by(const BlockInfo& b, const std::string& loop);

// Bytes of an operand that are read while the iterators go as far as `extents` says, others staying.
int64_t bytes_read(const Access& a, const std::map<const Iter*, int64_t>& extents, const BlockInfo& b);

// How many of a sum's terms remain if those are left out that the padding makes 0, in parts of all. A
// vector's terms are left out together: none where some dimension that is padded moves with `lanes`, unless
// these load parts of vectors.
double share_of_terms(const BlockInfo& b, const Iter& lanes, const Target& target);

// How often an element of an operand is multiplied, where windows cover it evenly.
int64_t products_of_each(const BlockInfo& b, const Access& a);

// Whether lanes that cross the border of a padded operand load what of a vector lies inside, rather than have
// it copied with its padding; see skip_padding.cpp.
bool loads_parts(const BlockInfo& b, const Access& a, const Target& target);

// Whether the reduction's iterator is one of windows' that slide along some other.
bool slides_along_any(const BlockInfo& b, const Iter& tap);
// Whether windows of several elements slide over the operand.
bool has_taps(const BlockInfo& b, const Access& a);

BlockInfo analyze(const PrimFunc& f, const std::string& block);
// The padding block that alone makes the buffer, for one reader alone; null where it isn't so.
const Block* padding_of(const PrimFunc& f, const Buffer& buffer);
// The blocks that read the buffer, in program order.
std::vector<std::string> readers_of(const PrimFunc& f, const Buffer& b);
// The one map that reads the reduction's output and is all that does; empty where it isn't so.
std::string epilogue_of(const PrimFunc& f, const BlockInfo& reduction);
std::vector<std::string> writers_of(const PrimFunc& f, const Buffer& b);
// Whether a loop is around both blocks.
bool share_a_loop(const PrimFunc& f, const std::string& block, const std::string& other);

}  // namespace nestor::library
