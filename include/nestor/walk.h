// Walking, rewriting, substitution, structural equality and hashing, all from the nodes' field lists.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "nestor/ir.h"

namespace nestor {

// Visits a tree in field order. Override a hook, call `children` to go on downward.
class Walker {
 public:
  virtual ~Walker() = default;
  virtual void expr(const Expr& e) { children(e); }
  virtual void stmt(const Stmt& s) { children(s); }

 protected:
  void children(const Expr& e);
  void children(const Stmt& s);
};

// Rebuilds a tree bottom up. `children` gives back the same handle where no child changed. Hooks get whole
// nodes; a hook usually begins `Expr e2 = children(e);` and then looks at e2. Store, Load, For ... keep their
// other fields.
class Rewriter {
 public:
  virtual ~Rewriter() = default;
  virtual Expr expr(const Expr& e) { return children(e); }
  virtual Stmt stmt(const Stmt& s) { return children(s); }
  // A statement hook may return a null Stmt: it is dropped from a Seq; an empty body takes its parent along.

 protected:
  Expr children(const Expr& e);
  Stmt children(const Stmt& s);
};

// Calls f on every node, parents before children.
void for_each_expr(const Stmt& s, const std::function<void(const Expr&)>& f);
void for_each_expr(const Expr& e, const std::function<void(const Expr&)>& f);
void for_each_stmt(const Stmt& s, const std::function<void(const Stmt&)>& f);

using VarMap = std::unordered_map<Var, Expr>;
using BufferMap = std::unordered_map<Buffer, Buffer>;
Expr substitute(const Expr& e, const VarMap& map);
Stmt substitute(const Stmt& s, const VarMap& map);
Stmt substitute(const Stmt& s, const BufferMap& map);
Expr substitute(const Expr& e, const BufferMap& map);

bool uses_var(const Expr& e, const Var& v);
bool uses_var(const Stmt& s, const Var& v);
bool uses_buffer(const Stmt& s, const Buffer& b);
bool uses_buffer(const Expr& e, const Buffer& b);
bool has_load(const Expr& e);

// A copy in which everything bound inside (loop variables, iterators, lets, allocations, block ids) is fresh,
// the block ids remembering their origin. Needed before a statement may stand twice in a function.
Stmt fresh_copy(const Stmt& s);

// The same expression over the same variables and buffers, node by node; the factors of a product may stand
// in either order.
bool same_expr(const Expr& a, const Expr& b);
// For maps keyed by expressions. Hashes differ from run to run: a map's order must reach no output.
struct HashExpr {
  size_t operator()(const Expr& e) const;
};
struct SameExpr {
  bool operator()(const Expr& a, const Expr& b) const { return same_expr(a, b); }
};

// Equality up to a consistent renaming of variables, buffers and blocks: names don't matter, except that with
// `names` the block and loop names must agree (traces refer to them). Two NaN immediates are equal, -0 and 0
// are not.
bool structural_equal(const Expr& a, const Expr& b);
bool structural_equal(const Stmt& a, const Stmt& b);
bool structural_equal(const PrimFunc& a, const PrimFunc& b, bool names = false);
// Agrees with structural_equal; the same on every platform.
uint64_t structural_hash(const PrimFunc& f, bool names = false);

// True if the loop's body is one reduction block into an element that the loop doesn't move, its start set
// elsewhere: such a loop may be vectorized, each lane keeping a partial result (the order of the operations
// is then free).
bool reduces_lanes(const For& loop);

// Declarations of a function, parameters first, including those of Alloc statements inside the body.
std::unordered_map<Buffer, BufferDecl> declarations(const PrimFunc& f);
const Param* find_param(const PrimFunc& f, const Buffer& b);

}  // namespace nestor
