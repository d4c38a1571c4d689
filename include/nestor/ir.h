// The loop IR: expressions, statements, blocks, buffers, functions.
//
// Value semantics over immutable nodes: Expr and Stmt are handles to shared nodes that hold a std::variant of
// plain structs. Every struct lists its fields once (`fields()`); walking, rewriting, structural equality and
// hashing (walk.h) all read that list, so a new node kind costs one struct and the places where `match` no
// longer compiles.
//
// Identity: Var, Buffer and BlockId are identity objects, compared by pointer. What hangs on them is content:
// a buffer's shape, scope and layout live in its BufferDecl (a parameter, an allocation), a block's body in
// the Block. Their pointers order nothing: never iterate a map keyed by them where the order can reach an
// output.
//
// Semantics, which the interpreter (interpret.h) defines in full:
//  - Loops run 0 .. extent-1. Index arithmetic is i64. Integer `/` is floor division and `%` the floor
//    modulus; `tdiv` truncates. `max(a,b)` is `is_nan(a) || a > b ? a : b`, `min(a,b)` the same with `a < b`.
//  - `Select` is lazy: only the chosen side is evaluated. `&&` and `||` are lazy too.
//  - A block instance runs if and only if every binding lies in its domain [0, extent) and `where` holds.
//    Ragged tails follow from that alone. A reduction block's `init` runs before the instance whose R
//    iterators are all 0.
//  - `Update` is the reduction `X[i] op= v`; its identity is the operation's, or what `init` stores.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "nestor/expr.h"

namespace nestor {

// ---- Buffers

enum class Scope : uint8_t {
  global,  // memory; on CUDA device memory
  shared,  // CUDA: shared by a thread block
  local,   // CPU: registers after `promote_local`; CUDA: a thread's own
};

// (vars) -> (exprs). As a buffer's layout it maps logical indices to physical ones; it is injective on the
// buffer's box, and physical elements that no logical index reaches hold `pad`.
struct IndexMap {
  std::vector<Var> vars;
  std::vector<Expr> exprs;
  double pad = 0;
};

// The distance in memory between neighbours in a physical dimension is padded until stride % factor ==
// offset. It holds for the buffer as it is when `flatten_buffers` comes, which may have shrunk it.
struct StrideAlign {
  int64_t dim = 0, factor = 1, offset = 0;
};

struct BufferDecl {
  Buffer buffer;
  std::vector<Expr> shape;  // logical; loads and stores use logical indices until `flatten_buffers`
  Scope scope = Scope::global;
  std::optional<IndexMap> layout;       // absent: row major
  std::vector<StrideAlign> align = {};  // of a temporary; in order of dimension, each at most once
};

// ---- Statements

struct StmtNode;

class Stmt {
 public:
  Stmt() = default;
  explicit Stmt(std::shared_ptr<const StmtNode> node) : node_(std::move(node)) {}

  explicit operator bool() const { return node_ != nullptr; }
  const StmtNode* get() const { return node_.get(); }
  const StmtNode* operator->() const { return node_.get(); }
  const StmtNode& operator*() const { return *node_; }
  bool same_as(const Stmt& other) const { return node_ == other.node_; }
  template <class T>
  const T* as() const;

 private:
  std::shared_ptr<const StmtNode> node_;
};

enum class ForKind : uint8_t { serial, parallel, vectorized, unrolled, thread };
enum class ThreadTag : uint8_t { none, block_x, block_y, block_z, thread_x, thread_y, thread_z, vthread };
enum class IterKind : uint8_t { spatial, reduce };

using Annotation = std::variant<int64_t, std::string>;
using Annotations = std::map<std::string, Annotation>;

struct Seq {
  std::vector<Stmt> stmts;  // flattened: no Seq inside a Seq
  static constexpr auto fields() { return std::make_tuple(&Seq::stmts); }
};
struct For {
  Var var;
  Expr extent;
  ForKind kind = ForKind::serial;
  ThreadTag thread = ThreadTag::none;  // only with ForKind::thread
  Annotations annotations;
  Stmt body;
  static constexpr auto fields() {
    return std::make_tuple(&For::var, &For::extent, &For::kind, &For::thread, &For::annotations, &For::body);
  }
};
struct IterVar {
  Var var;
  IterKind kind = IterKind::spatial;
  Expr extent;   // domain is [0, extent)
  Expr binding;  // over loop variables
  static constexpr auto fields() {
    return std::make_tuple(&IterVar::var, &IterVar::kind, &IterVar::extent, &IterVar::binding);
  }
};
struct Block {
  BlockId id;
  std::vector<IterVar> iters;
  Expr where;  // null: always. For meaning only (a causal mask), never for tails
  Stmt init;   // null: none
  Stmt body;
  Annotations annotations;
  static constexpr auto fields() {
    return std::make_tuple(&Block::id, &Block::iters, &Block::where, &Block::init, &Block::body,
                           &Block::annotations);
  }
};
struct Store {
  Buffer buffer;
  std::vector<Expr> indices;
  Expr value;
  Expr mask;               // null: all lanes (lowered, vector)
  bool streaming = false;  // lowered: past the caches where the machine can; changes nothing but the time
  static constexpr auto fields() {
    return std::make_tuple(&Store::buffer, &Store::indices, &Store::value, &Store::mask, &Store::streaming);
  }
};
struct Update {  // buffer[indices] op= value
  ReduceOp op;
  Buffer buffer;
  std::vector<Expr> indices;
  Expr value;
  static constexpr auto fields() {
    return std::make_tuple(&Update::op, &Update::buffer, &Update::indices, &Update::value);
  }
};
struct If {
  Expr cond;
  Stmt then_case, else_case;  // else_case may be null
  static constexpr auto fields() { return std::make_tuple(&If::cond, &If::then_case, &If::else_case); }
};
struct Alloc {  // a temporary that lives during body, uninitialized at its start
  BufferDecl decl;
  Stmt body;
  static constexpr auto fields() { return std::make_tuple(&Alloc::decl, &Alloc::body); }
};
struct LetStmt {
  Var var;
  Expr value;
  Stmt body;
  static constexpr auto fields() { return std::make_tuple(&LetStmt::var, &LetStmt::value, &LetStmt::body); }
};
struct Evaluate {  // an intrinsic for its effect: sync, prefetch
  Expr call;
  static constexpr auto fields() { return std::make_tuple(&Evaluate::call); }
};

// What stands inside of a statement, a bit for each block's name and each buffer that is touched: where the
// bit of one isn't set, it isn't there, and a search in many nests needn't look. Several share a bit. (Bloom,
// Space/Time Trade-offs in Hash Coding, CACM 13(7), 1970, with one hash and 64 bits.)
struct Inside {
  uint64_t blocks = 0, buffers = 0;
  static uint64_t bit_of(const Buffer& b);
  static uint64_t bit_of(std::string_view block);
};

struct StmtNode {
  using Kind = std::variant<Seq, For, Block, Store, Update, If, Alloc, LetStmt, Evaluate>;
  explicit StmtNode(Kind kind);
  Kind v;
  Inside inside;
};

// ---- Functions

enum class Role : uint8_t {
  in,
  constant,
  out
};  // constant: weights, known at compile time, may be given a layout

struct Param {
  Role role;
  BufferDecl decl;
};

struct PrimFunc {
  std::string name;
  std::vector<Var> dims;  // symbolic dimensions, `func f[N](...)`
  std::vector<Param> params;
  std::vector<BufferDecl> allocs;  // temporaries of the whole function; `compact` moves them inward
  Stmt body;
};

template <class... Fs>
decltype(auto) match(const Stmt& s, Fs&&... fs) {
  return std::visit(Overloaded{std::forward<Fs>(fs)...}, s->v);
}
template <class T>
const T* Stmt::as() const {
  return node_ ? std::get_if<T>(&node_->v) : nullptr;
}

// ---- Constructors
// They check types (InternalError) and fold nothing: parse(print(f)) is f.

namespace make {
Expr int_imm(int64_t value, Type type);
Expr float_imm(double value, Type type);  // rounds value to the type
Expr imm(double value, Type type);  // int, bool or float, whatever the type asks; broadcast if it has lanes
Expr bool_imm(bool value);
Expr var(const Var& v);
Expr load(const Buffer& b, std::vector<Expr> indices, Expr mask = {});
Expr binary(BinaryOp op, Expr a, Expr b);
Expr unary(UnaryOp op, Expr a);
Expr select(Expr cond, Expr a, Expr b);
Expr cast(Type type, Expr a);  // a itself where the type is already right
Expr call(Intrinsic fn, std::vector<Expr> args);
Expr bitcast(Type type, Expr a);
Expr instruction(std::string name, Type type, std::vector<Expr> args);
Expr let(Var var, Expr value, Expr body);
Expr ramp(Expr base, Expr stride, int lanes);
Expr broadcast(Expr a, int lanes);  // a itself where lanes is 1
Expr vector_reduce(ReduceOp op, Expr a);
Expr shuffle(Expr a, Expr b, std::vector<int64_t> lanes);

Stmt seq(std::vector<Stmt> stmts);  // flattens; the statement itself where there is only one
Stmt loop(Var var, Expr extent, Stmt body, ForKind kind = ForKind::serial, ThreadTag thread = ThreadTag::none,
          Annotations annotations = {});
Stmt block(Block block);
Stmt store(Buffer b, std::vector<Expr> indices, Expr value, Expr mask = {}, bool streaming = false);
Stmt update(ReduceOp op, Buffer b, std::vector<Expr> indices, Expr value);
Stmt if_then(Expr cond, Stmt then_case, Stmt else_case = {});
Stmt alloc(BufferDecl decl, Stmt body);
Stmt let_stmt(Var var, Expr value, Stmt body);
Stmt evaluate(Expr call);
}  // namespace make

// Arithmetic for writing IR in C++. These fold integer immediates and neutral elements (x+0, x*1, x*0, x/1,
// x%1), and give an i64 immediate the type of the other side.
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator%(Expr a, Expr b);
Expr operator-(Expr a);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
Expr gt(Expr a, Expr b);
Expr ge(Expr a, Expr b);
Expr logical_and(Expr a, Expr b);  // folds true and false
Expr logical_or(Expr a, Expr b);
Expr logical_not(Expr a);

inline int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}  // of numbers that aren't negative; no sum that could overflow

// The identity element of a reduction at a type: 0, 1, lowest (or -inf), highest (or +inf).
Expr identity_of(ReduceOp op, Type type);
BinaryOp binary_of(ReduceOp op);
bool is_comparison(BinaryOp op);
BinaryOp opposite(BinaryOp comparison);  // < gives >=: of integers, for NaN is neither

// Names as they are printed and parsed.
const char* symbol(BinaryOp op);     // "+", "min", "&&", ...
const char* symbol(ReduceOp op);     // "+=", "*=", "max=", "min="
const char* name_of(ForKind kind);   // "serial", ..., "thread"
const char* name_of(Scope scope);    // "global", ...
const char* name_of(ThreadTag tag);  // "blockIdx.x", ..., "vthread"
const char* name_of(Role role);      // "in", "const", "out"

}  // namespace nestor
