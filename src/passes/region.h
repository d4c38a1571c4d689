// Where and how a function touches a buffer: each access with the loops around it, and the box of elements
// that a group of accesses reaches while some of those loops run and the others stand still.
#pragma once

#include <set>

#include "src/passes/linear.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

enum class AccessKind { read, write, init, update };

struct Access {
  AccessKind kind;
  std::vector<Expr> indices;         // over loop variables: block iterators are replaced by their bindings
  std::vector<const For*> loops;     // outermost first
  std::vector<const If*> ifs;        // likewise, those whose body it is in
  const Block* block = nullptr;      // the block it is in, if any
  Facts facts;                       // the ranges of the loops, narrowed by the ifs around
  std::vector<IterVar> guards = {};  // of the block's iterators, those that keep it from running somewhere
};

// All accesses, in program order (of one statement: reads, then the write), by buffer.
using Accesses = std::unordered_map<Buffer, std::vector<Access>>;
Accesses find_accesses(const Stmt& s, const Facts& facts = {});

// One dimension of a box: [base + lo, base + hi], base over the loops that stand still; of these every
// `step`th from the first on.
struct Span {
  Expr base;
  int64_t lo = 0, hi = 0;
  int64_t step = 1;
  Expr first() const { return base + lo; }
  Expr last() const { return base + hi; }
  int64_t extent() const { return hi - lo + 1; }
};
// The values `index` takes while `running` loops run; nullopt where they aren't bounded.
std::optional<Span> span_of(const Expr& index, const std::vector<Var>& running, const Facts& facts);
// The same of an access's index, as far as guards let it go whose sum it holds.
std::optional<Span> span_of(const Access& a, size_t dim, const std::vector<Var>& running);
// The smallest span with both; nullopt where their distance isn't constant.
std::optional<Span> join(const Span& a, const Span& b);
// How many loops, from the outermost, stand around both.
size_t common_loops(const Access& a, const Access& b);
// True if the index takes every value of its span, by loops that no other dimension uses: those of `running`
// that it uses join `used`.
bool is_dense(const Access& a, size_t dim, const std::vector<Var>& running, std::set<const VarNode*>& used);

// Whether what an index reads of memory moves with `running` loops: bounds then say what it may be, not what
// it is.
bool jumps(const Expr& index, const std::vector<Var>& running);

// What an index reads of memory when it is computed where nothing says that the access itself runs: the same,
// with each index of its own kept inside of its buffer. Null where something may write what it reads.
Expr readable_anywhere(const Expr& index, const PrimFunc& f, const Facts& facts);

}  // namespace nestor::passes
