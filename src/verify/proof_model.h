// A function as the proof sees it: statements with the set of points at which they run.
//
// A point of a statement gives values to the loops around it, to the iterators of the blocks around it, and
// to quotients: each `e / c` in an index is a variable q of its own with 0 <= e - c*q < c, which isl handles
// far better than its own divs. What a statement computes depends on its `vars` alone: iterators, one for
// each loop that its expressions speak of without one among them. So two functions are compared without their
// loops, and only the order of writes and reads within one function needs them.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "nestor/ir.h"
#include "src/verify/sets.h"

namespace nestor::verify {

class Model;
using Env = std::unordered_map<Var, Lin>;

// A loop, with the variable that stands for it in every statement under it.
struct Loop {
  const For* node;
  V var;
  bool sequential;  // its iterations run one after another
  bool single;      // at most one iteration
};

// Where a statement stands: from the root downward, loops and positions (child `index` of a Seq, of an If, or
// of a block: 0 its init, 1 its body), and at last itself.
struct PathItem {
  const void* node;
  int index = 0;
  const Loop* loop = nullptr;
  bool exclusive = false;  // of an If: its positions don't follow each other
  bool operator==(const PathItem& o) const { return node == o.node && index == o.index; }
};

struct Read {
  const ExprNode* expr = nullptr;  // the Load
  Buffer buffer;
  std::vector<std::optional<Lin>> indices;  // nullopt: depends on data
  std::vector<Lin> points;  // the same, with a variable of its own (in `free`) for each that depends on data
  std::vector<V> free;
  Set guard;  // of the conditions around it, as far as they are linear; inside of the buffer where it depends
              // on data
  bool exact = true;  // the guard says all of them
};

struct Statement {
  int number = 0;
  const StmtNode* node = nullptr;
  const Model* model = nullptr;
  const Block* block = nullptr;  // the innermost one, or null
  std::string name;              // of the block; the buffer's where there is none
  Buffer buffer;
  Expr value;
  std::optional<ReduceOp> op;  // an Update
  std::vector<PathItem> path;
  std::vector<const Loop*> loops;
  std::vector<V> vars;
  Env env;
  std::vector<Lin> element;
  Set domain;  // over loops, vars and quotients
  std::vector<Read> reads;

  size_t loops_before(size_t depth) const;  // how many of the first `depth` items of the path are loops
  std::vector<V> loop_vars(size_t count) const;
};

class Model {
 public:
  // `dims` are the symbolic dimensions' variables, by name: two models of one Sets share them.
  Model(Sets& home, const PrimFunc& f, std::map<std::string, V>& dims);
  Model(const Model&) = delete;

  Sets& home() const { return home_; }
  const PrimFunc& func() const { return func_; }
  const std::deque<Statement>& statements() const { return statements_; }
  const std::deque<Loop>& loops() const { return loops_; }
  std::vector<const Statement*> writers(const Buffer& b) const;
  const BufferDecl& decl(const Buffer& b) const { return decls_.at(b); }
  size_t alloc_depth(const Buffer& b) const;  // path items around its allocation
  int param_of(const Buffer& b) const;        // -1: a temporary
  bool is_input(const Buffer& b) const;       // nothing writes it
  Lin shape(const Buffer& b, size_t dim) const;
  const std::vector<V>& dim_vars() const { return dim_vars_; }  // of symbolic dimensions
  bool is_dim(V v) const;
  const Set& dims_domain() const { return dims_domain_; }  // each is at least 1
  // What defines the quotients in l.
  Set definitions_of(const Lin& l) const;

  // e as a sum of an environment's variables and of quotients; nullopt where it isn't one.
  std::optional<Lin> lower(const Expr& e, const Env& env) const;
  // The points where the condition holds (or doesn't); nullopt where it isn't linear. Quotients are left in
  // it, undefined: see `define`.
  std::optional<Set> condition(const Expr& e, const Env& env, bool holds) const;
  // With the definitions of all quotients in it.
  Set define(Set s) const;

 private:
  friend class ModelBuilder;
  V quotient(const Lin& of, int64_t divisor) const;
  V piece(const Set& definition, V v) const;

  Sets& home_;
  const PrimFunc func_;  // a copy: the statements' nodes live in it
  std::deque<Statement> statements_;
  std::deque<Loop> loops_;
  std::unordered_map<Buffer, BufferDecl> decls_;
  std::unordered_map<Buffer, size_t> alloc_depth_;
  Env dims_env_;
  Set dims_domain_;
  std::vector<V> dim_vars_;
  mutable std::map<std::pair<Lin, int64_t>, V> quotients_;
  mutable std::unordered_map<V, Set> definitions_;
};

}  // namespace nestor::verify
