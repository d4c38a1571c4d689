// Expressions of the loop IR (ir.h), and the identity objects that they name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "nestor/dtype.h"

namespace nestor {

// ---- Identity objects

struct VarNode {
  std::string name;
  Type type;
};
using Var = std::shared_ptr<const VarNode>;
Var make_var(std::string name, Type type = {DType::i64, 1});

struct BufferNode {
  std::string name;
  Type type;  // element type; lanes > 1 only for vector registers made by `promote_local`
};
using Buffer = std::shared_ptr<const BufferNode>;
Buffer make_buffer(std::string name, Type type);

struct BlockIdNode {
  std::string name;
  std::shared_ptr<const BlockIdNode> origin;  // the block this one was copied from, or null
};
using BlockId = std::shared_ptr<const BlockIdNode>;
BlockId make_block_id(std::string name, BlockId origin = nullptr);

// ---- The handle

struct ExprNode;

class Expr {
 public:
  Expr() = default;
  Expr(int64_t value);  // an i64 immediate
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}
  Expr(const Var& var);
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}

  explicit operator bool() const { return node_ != nullptr; }
  const ExprNode* get() const { return node_.get(); }
  const ExprNode* operator->() const { return node_.get(); }
  const ExprNode& operator*() const { return *node_; }
  bool same_as(const Expr& other) const { return node_ == other.node_; }
  Type type() const;
  DType dtype() const { return type().dtype; }
  template <class T>
  const T* as() const;  // the struct, or nullptr where the node is of another kind

 private:
  std::shared_ptr<const ExprNode> node_;
};

// ---- Nodes

enum class BinaryOp : uint8_t {
  add,
  sub,
  mul,
  div,
  mod,
  min,
  max,  // both operands and the result of one type
  eq,
  ne,
  lt,
  le,
  gt,
  ge,  // result bool
  logical_and,
  logical_or,  // bool, lazy in the right operand (for scalars)
  bit_and,
  bit_or,
  bit_xor,
  shl,
  shr  // integers; shr is arithmetic
};
enum class UnaryOp : uint8_t { neg, logical_not };

// Functions of the machine or of the math library. `intrinsics()` has name, arity and typing of each.
enum class Intrinsic : uint8_t {
  exp,
  exp_nonpositive,  // exp of x that is known not to be above 0, but for rounding (by 40 at most), or NaN
  expm1,            // exp(x) - 1, which keeps its digits where x is small
  log,
  log1p,  // log(1 + x), likewise
  sqrt,
  tanh,
  erf,
  sigmoid,
  sin,
  cos,
  pow,
  abs,
  floor,
  ceil,
  round,     // round: half to even
  fma,       // fma(a,b,c) = a*b+c rounded once
  scalef,    // scalef(x,n) = x times 2 to the floor of n, rounded once (f32); nestor/scalef.h has all cases
  lookup,    // lookup(x,t0,t1,...), 2 to some power of t's: the one that the lowest bits of x number (f32)
  tdiv,      // integer division truncated toward zero
  bitcast,   // same size in bits; the result type is the node's
  is_nan,    // bool
  sync,      // statement only: all threads of a block wait (CUDA __syncthreads)
  prefetch,  // statement only: prefetch(load)
  // One machine instruction (lowered functions only, made of `tensorize`): for LLVM an expression over
  // vectors by the name of LLVM's intrinsic, for CUDA a statement over the first elements of local arrays by
  // the name of a function.
  instruction
};
struct IntrinsicInfo {
  const char* name;
  int arity;  // -1: any
};
const IntrinsicInfo& info(Intrinsic i);
std::optional<Intrinsic> parse_intrinsic(std::string_view name);

enum class ReduceOp : uint8_t { add, mul, max, min };

struct IntImm {  // integers and bool; the type is the node's
  int64_t value;
  static constexpr auto fields() { return std::make_tuple(&IntImm::value); }
};
struct FloatImm {  // the value, already rounded to the node's type
  double value;
  static constexpr auto fields() { return std::make_tuple(&FloatImm::value); }
};
struct VarRef {
  Var var;
  static constexpr auto fields() { return std::make_tuple(&VarRef::var); }
};
struct Load {  // with `mask` (lowered, vector): lanes whose mask is false read nothing and give 0
  Buffer buffer;
  std::vector<Expr> indices;
  Expr mask;  // null: all lanes
  static constexpr auto fields() { return std::make_tuple(&Load::buffer, &Load::indices, &Load::mask); }
};
struct Binary {
  BinaryOp op;
  Expr a, b;
  static constexpr auto fields() { return std::make_tuple(&Binary::op, &Binary::a, &Binary::b); }
};
struct Unary {
  UnaryOp op;
  Expr a;
  static constexpr auto fields() { return std::make_tuple(&Unary::op, &Unary::a); }
};
struct Select {  // if cond then a else b. A vector condition selects by lane; masked loads keep it safe.
  Expr cond, a, b;
  static constexpr auto fields() { return std::make_tuple(&Select::cond, &Select::a, &Select::b); }
};
struct Cast {  // to the node's type; float to int truncates, to bool is != 0
  Expr a;
  static constexpr auto fields() { return std::make_tuple(&Cast::a); }
};
struct Call {
  Intrinsic fn;
  std::vector<Expr> args;
  std::string name = {};  // of an `instruction`
  static constexpr auto fields() { return std::make_tuple(&Call::fn, &Call::args, &Call::name); }
};
struct Let {
  Var var;
  Expr value, body;
  static constexpr auto fields() { return std::make_tuple(&Let::var, &Let::value, &Let::body); }
};
struct Ramp {  // base, base+stride, ...; lanes is the node's
  Expr base, stride;
  static constexpr auto fields() { return std::make_tuple(&Ramp::base, &Ramp::stride); }
};
struct Broadcast {  // a scalar in every lane; lanes is the node's
  Expr a;
  static constexpr auto fields() { return std::make_tuple(&Broadcast::a); }
};
struct VectorReduce {  // the lanes of a folded to one scalar by op, as a balanced tree: lane i with lane i +
                       // n/2, and so on
  ReduceOp op;
  Expr a;
  static constexpr auto fields() { return std::make_tuple(&VectorReduce::op, &VectorReduce::a); }
};

struct Shuffle {  // lane i is lane `lanes[i]` of a followed by b, two vectors of one type
  Expr a, b;
  std::vector<int64_t> lanes;
  static constexpr auto fields() { return std::make_tuple(&Shuffle::a, &Shuffle::b, &Shuffle::lanes); }
};

struct ExprNode {
  using Kind = std::variant<IntImm, FloatImm, VarRef, Load, Binary, Unary, Select, Cast, Call, Let, Ramp,
                            Broadcast, VectorReduce, Shuffle>;
  ExprNode(Type t, Kind kind);
  Type type;
  Kind v;
  uint64_t buffers = 0;  // that are loaded from inside, as in Inside (ir.h)
};

// ---- Access

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

// Calls the lambda for the node's struct. There is no default case: a new kind must break the build where it
// matters.
template <class... Fs>
decltype(auto) match(const Expr& e, Fs&&... fs) {
  return std::visit(Overloaded{std::forward<Fs>(fs)...}, e->v);
}

inline Type Expr::type() const {
  return node_->type;
}
template <class T>
const T* Expr::as() const {
  return node_ ? std::get_if<T>(&node_->v) : nullptr;
}

// The value of an integer immediate (also inside a Broadcast), if it is one.
std::optional<int64_t> as_int(const Expr& e);
bool is_const_int(const Expr& e, int64_t value);

}  // namespace nestor
