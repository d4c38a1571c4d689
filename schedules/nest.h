// Finds and replaces parts of a function, as every primitive does. Nothing here depends on schedules;
// statements are identified by their handles.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nestor/ir.h"
#include "nestor/walk.h"

namespace nestor::schedules {

// A block and what stands around it. Where that is another block (blockize), what is asked about the inner
// one is asked over all loops: `block()` is then the block with its bindings over loop variables and the
// outer block's guards, `own()` as it stands there.
struct Place {
  Stmt stmt;                          // the Block
  std::vector<Stmt> path;             // For, Seq, If, LetStmt, Alloc, Block around it, outermost first
  std::shared_ptr<const Block> seen;  // null where no block is around it
  const Block& block() const { return seen ? *seen : own(); }
  const Block& own() const { return *stmt.as<Block>(); }
  const std::string& name() const { return own().id->name; }
  bool enclosed() const { return seen != nullptr; }
  size_t inside() const;                 // the index in the path behind the innermost block around it
  std::vector<Stmt> loops() const;       // the Fors of the path
  std::vector<Stmt> own_loops() const;   // those inside of the innermost block around it
  bool under(const Stmt& s) const;       // s is on the path, or the block itself
  size_t depth_of(const Stmt& s) const;  // its index in the path; path.size() where absent
};

std::vector<Place> places(
    const Stmt& root);  // in program order, a block before those inside; paths begin at root
// And perhaps others. A block doesn't touch what only the `where` of a block around it reads.
std::vector<Place> places_touching(const Stmt& root, const Buffer& b);
std::vector<Place> places_under(const Stmt& root, const Stmt& s);  // in s or s itself, paths from root
std::vector<Stmt> path_to(const Stmt& root,
                          const Stmt& s);  // what stands around s; empty where it isn't inside
bool holds_blocks(const Block& b);
std::optional<Place> find_place(const PrimFunc& f, const std::string& block);

inline const For& as_for(const Stmt& s) {
  return *s.as<For>();
}
const std::string& loop_name(const Stmt& s);
int64_t extent_of(const Stmt& loop);  // -1 where not constant

// root with `target` replaced; a null `with` removes it, and whatever around it becomes empty.
Stmt replace(const Stmt& root, const Stmt& target, const Stmt& with);
PrimFunc replace(const PrimFunc& f, const Stmt& target, const Stmt& with);
bool contains(const Stmt& root, const Stmt& s);
Stmt with_body(const Stmt& s, Stmt body);  // a For, LetStmt or Alloc around another body
Stmt with_extent(const Stmt& loop, Var var, Expr extent, Stmt body);  // keeps kind and annotations

// Names that a new loop at `where` can't have: those of loops and iterators on paths through it.
std::set<std::string> names_around(const PrimFunc& f, const Stmt& where);
std::string unique_name(const std::string& base, const std::set<std::string>& taken);
std::set<std::string> block_and_buffer_names(const PrimFunc& f);
// "vc" -> "c": the loop name that goes with an iterator.
std::string loop_stem(const std::string& iterator);

// Wraps body into the loops, outermost first.
struct NewLoop {
  Var var;
  Expr extent;
};
Stmt nest(const std::vector<NewLoop>& loops, Stmt body);

// fresh_copy with names of its own for the blocks and buffers declared inside: `block` names the blocks, in
// program order.
Stmt renamed_copy(const Stmt& s, const std::function<std::string(const std::string&)>& block,
                  std::set<std::string>& taken);

// Loops are substituted in bindings; where a loop's extent is 1 its variable is 0.
std::vector<Var> vars_of(const Expr& e);  // each once, in order of appearance

}  // namespace nestor::schedules
