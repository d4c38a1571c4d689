// Functions as FuncBuilder makes them, one nest after another, for passes that change their dimensions: every
// block is alone in its loops, its iterators bound to them one to one.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor {

// One block with its loops, which are its iterators.
struct Nest {
  Block block;
  std::vector<const For*> loops;
};

// The nests of f in order; nullopt where some statement of its body isn't one. They refer to f's loops.
std::optional<std::vector<Nest>> read_nests(const PrimFunc& f);
// Reduction iterators of one value are that value (a 1x1 convolution's r and s), as long as another one is
// left.
void drop_unit_reductions(Nest& nest);
// The block in loops over its iterators, each of which is bound to a variable.
Stmt loops_around(Block block);
// Lets `facts` know the iterator's values where their number is known and more than one: those of one value
// stay in indices, as what a schedule finds its way by.
void set_range(Facts& facts, const IterVar& i);

struct NestAccess {
  Buffer buffer;
  const std::vector<Expr>* indices;
  bool write = false;
};

// Every access of a block, and how often each variable occurs in it at all.
struct NestUses : Walker {
  std::vector<NestAccess> accesses;
  std::unordered_map<Var, int> occurrences;

  void block(const Block& b);
  void expr(const Expr& e) override;
  void stmt(const Stmt& s) override;

 private:
  std::vector<Expr> kept_;  // accesses point into these
  std::vector<Stmt> kept_stmts_;
};

// A function whose dimensions change: its nests, without reductions of one value, and what each uses.
class NestChanger {
 protected:
  explicit NestChanger(const PrimFunc& f) : func_(f), decls_(declarations(f)) {}
  bool read();  // false where f isn't made of nests

  // The iterator of nest n that e is, if it covers a dimension of that extent.
  std::optional<size_t> iterator_at(size_t n, const Expr& e, const Expr& extent) const;

  const PrimFunc& func_;
  std::unordered_map<Buffer, BufferDecl> decls_;
  std::vector<Nest> nests_;
  std::vector<NestUses> uses_;  // of each nest
};

// The accesses of a nest in other dimensions: buffers and variables are replaced as said, indices by a rule.
class AccessRewriter : public Rewriter {
 public:
  explicit AccessRewriter(const BufferMap& buffers) : buffers_(buffers) {}
  VarMap vars;

  Expr expr(const Expr& e) override;
  Stmt stmt(const Stmt& s) override;

 protected:
  virtual std::vector<Expr> indices(const Buffer& b, const std::vector<Expr>& from) = 0;

 private:
  Buffer buffer(const Buffer& b) const;
  const BufferMap& buffers_;
};

}  // namespace nestor
