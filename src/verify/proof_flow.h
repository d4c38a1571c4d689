// Where the values that a function reads come from.
#pragma once

#include <list>

#include "src/verify/proof_result.h"

namespace nestor::verify {

// What an element holds when it is read: the value of the last store, and all updates since. Relations are
// between the reader's variables and the writer's first copy.
struct Source {
  struct Piece {
    const Statement* writer;
    Set relation;
  };
  std::vector<Piece> stores, updates;
  // Readers of which no relation tells the truth, and why.
  struct Trouble {
    Set readers;
    Failure failure;
    bool unwritten = false;  // they read what nothing has written
  };
  std::vector<Trouble> troubles;
  // Updates that a later store made void: why a term may be lost.
  std::vector<Failure> voided;
};

// max and min of a term that was taken already change nothing: such updates may happen more than once, in
// tiles that overlap or loops that no iterator is bound to. Each must still happen, and behind the start.
inline bool may_repeat(ReduceOp op) {
  return op == ReduceOp::max || op == ReduceOp::min;
}

class Flow {
 public:
  explicit Flow(const Model& m) : m_(m) {}
  const Model& model() const { return m_; }

  const Source& source(const Statement& reader, const Read& read);
  // A statement behind the function that reads each element of an output; it has one read and a variable for
  // each dimension.
  const Statement& final_reader(const Buffer& out);
  // What of a statement can be seen with its first `shared` loops, its variables and `more`.
  const Set& seen_from(const Statement& s, size_t shared, const std::vector<V>& more);

 private:
  struct Slot;
  struct Found;
  class Tracer;

  std::vector<Slot> slots_of(const Statement& reader, const Buffer& b) const;

  const Model& m_;
  std::map<std::pair<int, const ExprNode*>, Source> sources_;
  std::map<std::tuple<int, size_t, std::vector<V>>, Set> projections_;
  std::list<Statement> finals_;
  std::unordered_map<Buffer, const Statement*> final_of_;
};

// Orders in which a copy x of one statement comes before a copy y of another, one set for each loop (or
// position) that decides, both below the first `depth` items of their path, which are the same. With
// `any_kind` iterations of loops that are not sequential count as ordered too.
std::vector<Set> precedes(const Statement& x, int nx, const Statement& y, int ny, size_t depth,
                          bool any_kind = false);
// The variables of indices that aren't the statement's own: quotients.
std::vector<V> quotients_in(const Statement& s, const std::vector<Lin>& indices);
// x's and y's elements are the same.
Set same_element(const Statement& x, int nx, const Statement& y, int ny);

}  // namespace nestor::verify
