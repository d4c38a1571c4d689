// Constructors of the IR: they check types and fold nothing (folding is in operators.cpp).
#include "nestor/ir.h"

#include <cmath>
#include <limits>

#include "nestor/error.h"
#include "nestor/half.h"

namespace nestor {

Var make_var(std::string name, Type type) {
  return std::make_shared<VarNode>(VarNode{std::move(name), type});
}
Buffer make_buffer(std::string name, Type type) {
  return std::make_shared<BufferNode>(BufferNode{std::move(name), type});
}
BlockId make_block_id(std::string name, BlockId origin) {
  return std::make_shared<BlockIdNode>(BlockIdNode{std::move(name), std::move(origin)});
}

Expr::Expr(int64_t value) : Expr(make::int_imm(value, {DType::i64, 1})) {}
Expr::Expr(const Var& var) : Expr(make::var(var)) {}

const IntrinsicInfo& info(Intrinsic i) {
  static constexpr IntrinsicInfo table[] = {{"exp", 1},         {"exp_nonpositive", 1},
                                            {"expm1", 1},       {"log", 1},
                                            {"log1p", 1},       {"sqrt", 1},
                                            {"tanh", 1},        {"erf", 1},
                                            {"sigmoid", 1},     {"sin", 1},
                                            {"cos", 1},         {"pow", 2},
                                            {"abs", 1},         {"floor", 1},
                                            {"ceil", 1},        {"round", 1},
                                            {"fma", 3},         {"scalef", 2},
                                            {"lookup", -1},     {"tdiv", 2},
                                            {"bitcast", 1},     {"is_nan", 1},
                                            {"sync", 0},        {"prefetch", 1},
                                            {"instruction", -1}};
  static_assert(std::size(table) == static_cast<size_t>(Intrinsic::instruction) + 1);
  return table[static_cast<size_t>(i)];
}

std::optional<Intrinsic> parse_intrinsic(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Intrinsic::prefetch); ++i)
    if (name == info(static_cast<Intrinsic>(i)).name) return static_cast<Intrinsic>(i);
  return std::nullopt;
}

std::optional<int64_t> as_int(const Expr& e) {
  if (const auto* b = e.as<Broadcast>()) return as_int(b->a);
  if (const auto* i = e.as<IntImm>()) return i->value;
  return std::nullopt;
}
bool is_const_int(const Expr& e, int64_t value) {
  return as_int(e) == value;
}

namespace make {

namespace {

template <class T>
Expr node(Type type, T value) {
  return Expr(std::make_shared<const ExprNode>(type, std::move(value)));
}
template <class T>
Stmt node(T value) {
  return Stmt(std::make_shared<const StmtNode>(std::move(value)));
}

bool is_logical(BinaryOp op) {
  return op == BinaryOp::logical_and || op == BinaryOp::logical_or;
}
bool is_bitwise(BinaryOp op) {
  return op >= BinaryOp::bit_and;
}

}  // namespace

Expr int_imm(int64_t value, Type type) {
  NESTOR_CHECK(!is_float(type.dtype) && type.lanes == 1)
      << "an integer immediate of type " << name_of(type.dtype);
  return node(type, IntImm{value});
}

Expr float_imm(double value, Type type) {
  NESTOR_CHECK(is_float(type.dtype) && type.lanes == 1)
      << "a float immediate of type " << name_of(type.dtype);
  return node(type, FloatImm{round_to(type.dtype, value)});
}

Expr imm(double value, Type type) {
  const Type scalar = type.with_lanes(1);
  const auto word = [&] {
    return type.dtype == DType::u64 ? static_cast<int64_t>(static_cast<uint64_t>(value))
                                    : static_cast<int64_t>(value);
  };
  Expr e = is_float(type.dtype) ? float_imm(value, scalar) : int_imm(word(), scalar);
  return broadcast(e, type.lanes);
}

Expr bool_imm(bool value) {
  return int_imm(value, {DType::boolean, 1});
}

Expr var(const Var& v) {
  NESTOR_CHECK(v) << "null variable";
  return node(v->type, VarRef{v});
}

Expr load(const Buffer& b, std::vector<Expr> indices, Expr mask) {
  int lanes = b->type.lanes;
  for (const Expr& i : indices) {
    NESTOR_CHECK(i && i.dtype() == DType::i64) << "an index of " << b->name << " is not i64";
    if (i.type().is_vector()) lanes = i.type().lanes;
  }
  NESTOR_CHECK(!mask || mask.type() == (Type{DType::boolean, lanes})) << "mask of a load of " << b->name;
  return node({b->type.dtype, lanes}, Load{b, std::move(indices), std::move(mask)});
}

Expr binary(BinaryOp op, Expr a, Expr b) {
  NESTOR_CHECK(a && b && a.type() == b.type())
      << "operands of `" << symbol(op) << "` are " << name_of(a.dtype()) << "x" << a.type().lanes << " and "
      << name_of(b.dtype()) << "x" << b.type().lanes;
  const Type t = a.type();
  if (is_logical(op)) NESTOR_CHECK(is_bool(t.dtype)) << "`" << symbol(op) << "` of " << name_of(t.dtype);
  if (is_bitwise(op)) NESTOR_CHECK(!is_float(t.dtype)) << "`" << symbol(op) << "` of " << name_of(t.dtype);
  const Type result = is_comparison(op) ? Type{DType::boolean, t.lanes} : t;
  return node(result, Binary{op, std::move(a), std::move(b)});
}

Expr unary(UnaryOp op, Expr a) {
  if (op == UnaryOp::logical_not) NESTOR_CHECK(is_bool(a.dtype())) << "`!` of " << name_of(a.dtype());
  const Type t = a.type();
  return node(t, Unary{op, std::move(a)});
}

Expr select(Expr cond, Expr a, Expr b) {
  NESTOR_CHECK(cond && a && b && is_bool(cond.dtype())) << "the condition of a select is not bool";
  NESTOR_CHECK(a.type() == b.type()) << "the sides of a select are " << name_of(a.dtype()) << "x"
                                     << a.type().lanes << " and " << name_of(b.dtype()) << "x"
                                     << b.type().lanes;
  NESTOR_CHECK(cond.type().lanes == 1 || cond.type().lanes == a.type().lanes)
      << "lanes of a select's condition";
  const Type t = a.type();
  return node(t, Select{std::move(cond), std::move(a), std::move(b)});
}

Expr cast(Type type, Expr a) {
  if (a.type() == type) return a;
  NESTOR_CHECK(a.type().lanes == type.lanes) << "a cast changes lanes";
  return node(type, Cast{std::move(a)});
}

Expr call(Intrinsic fn, std::vector<Expr> args) {
  NESTOR_CHECK(info(fn).arity < 0 || static_cast<int>(args.size()) == info(fn).arity)
      << info(fn).name << " takes " << info(fn).arity;
  NESTOR_CHECK(fn != Intrinsic::bitcast) << "use make::bitcast";
  NESTOR_CHECK(fn != Intrinsic::instruction) << "use make::instruction";
  for (const Expr& a : args)
    NESTOR_CHECK(a.type() == args[0].type()) << "the arguments of " << info(fn).name << " differ in type";
  Type t = args.empty() ? Type{} : args[0].type();
  if (fn == Intrinsic::is_nan) t.dtype = DType::boolean;
  return node(t, Call{fn, std::move(args)});
}

Expr bitcast(Type type, Expr a) {
  NESTOR_CHECK(bytes_of(type.dtype) == bytes_of(a.dtype()) && type.lanes == a.type().lanes)
      << "bitcast changes size";
  return node(type, Call{Intrinsic::bitcast, {std::move(a)}});
}

Expr instruction(std::string name, Type type, std::vector<Expr> args) {
  return node(type, Call{Intrinsic::instruction, std::move(args), std::move(name)});
}

Expr let(Var var, Expr value, Expr body) {
  NESTOR_CHECK(var->type == value.type()) << "let " << var->name << " has another type than its value";
  const Type t = body.type();
  return node(t, Let{std::move(var), std::move(value), std::move(body)});
}

Expr ramp(Expr base, Expr stride, int lanes) {
  NESTOR_CHECK(lanes > 1 && base.type().lanes == 1 && base.type() == stride.type()) << "a ramp of vectors";
  const Type t = base.type().with_lanes(lanes);
  return node(t, Ramp{std::move(base), std::move(stride)});
}

Expr broadcast(Expr a, int lanes) {
  if (lanes == 1) return a;
  NESTOR_CHECK(a.type().lanes == 1) << "a broadcast of a vector";
  const Type t = a.type().with_lanes(lanes);
  return node(t, Broadcast{std::move(a)});
}

Expr vector_reduce(ReduceOp op, Expr a) {
  const Type t = a.type().with_lanes(1);
  return node(t, VectorReduce{op, std::move(a)});
}

Expr shuffle(Expr a, Expr b, std::vector<int64_t> lanes) {
  NESTOR_CHECK(a.type() == b.type() && a.type().is_vector() && !lanes.empty())
      << "a shuffle of two kinds of vectors";
  for (const int64_t l : lanes) NESTOR_CHECK(0 <= l && l < 2 * a.type().lanes) << "a shuffle of lane " << l;
  const Type t = a.type().with_lanes(static_cast<int>(lanes.size()));
  return node(t, Shuffle{std::move(a), std::move(b), std::move(lanes)});
}

Stmt seq(std::vector<Stmt> stmts) {
  std::vector<Stmt> flat;
  for (Stmt& s : stmts) {
    if (!s) continue;
    if (const auto* inner = s.as<Seq>())
      flat.insert(flat.end(), inner->stmts.begin(), inner->stmts.end());
    else
      flat.push_back(std::move(s));
  }
  if (flat.size() == 1) return flat[0];
  return node(Seq{std::move(flat)});
}

Stmt loop(Var var, Expr extent, Stmt body, ForKind kind, ThreadTag thread, Annotations annotations) {
  NESTOR_CHECK(body && var->type == Type{} && extent.type() == Type{}) << "loop " << var->name;
  NESTOR_CHECK((kind == ForKind::thread) == (thread != ThreadTag::none))
      << "thread tag of loop " << var->name;
  return node(For{std::move(var), std::move(extent), kind, thread, std::move(annotations), std::move(body)});
}

Stmt block(Block b) {
  NESTOR_CHECK(b.id && b.body) << "a block without a body";
  for (const IterVar& i : b.iters)
    NESTOR_CHECK(i.extent.type() == Type{} && i.binding.type() == Type{}) << "iterator " << i.var->name;
  return node(std::move(b));
}

Stmt store(Buffer b, std::vector<Expr> indices, Expr value, Expr mask, bool streaming) {
  const Type t = value.type();
  NESTOR_CHECK(t.dtype == b->type.dtype) << "a " << name_of(t.dtype) << " stored to " << b->name;
  for (const Expr& i : indices)
    NESTOR_CHECK(i.dtype() == DType::i64) << "an index of " << b->name << " is not i64";
  return node(Store{std::move(b), std::move(indices), std::move(value), std::move(mask), streaming});
}

Stmt update(ReduceOp op, Buffer b, std::vector<Expr> indices, Expr value) {
  NESTOR_CHECK(value.dtype() == b->type.dtype)
      << "a " << name_of(value.dtype()) << " reduced into " << b->name;
  return node(Update{op, std::move(b), std::move(indices), std::move(value)});
}

Stmt if_then(Expr cond, Stmt then_case, Stmt else_case) {
  NESTOR_CHECK(cond.type() == (Type{DType::boolean, 1}) && then_case) << "if";
  return node(If{std::move(cond), std::move(then_case), std::move(else_case)});
}

Stmt alloc(BufferDecl decl, Stmt body) {
  return node(Alloc{std::move(decl), std::move(body)});
}

Stmt let_stmt(Var var, Expr value, Stmt body) {
  NESTOR_CHECK(var->type == value.type()) << "let " << var->name;
  return node(LetStmt{std::move(var), std::move(value), std::move(body)});
}

Stmt evaluate(Expr call) {
  return node(Evaluate{std::move(call)});
}

}  // namespace make

Expr identity_of(ReduceOp op, Type type) {
  const bool f = is_float(type.dtype);
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto broadcast_int = [&](int64_t v) {
    return make::broadcast(make::int_imm(v, type.with_lanes(1)), type.lanes);
  };
  switch (op) {
    case ReduceOp::add:
      return make::imm(0, type);
    case ReduceOp::mul:
      return make::imm(1, type);
    case ReduceOp::max:
      return f ? make::imm(-inf, type) : broadcast_int(least_word(type.dtype));
    case ReduceOp::min:
      return f ? make::imm(inf, type) : broadcast_int(greatest_word(type.dtype));
  }
  throw InternalError("unknown reduce op");
}

BinaryOp binary_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::add:
      return BinaryOp::add;
    case ReduceOp::mul:
      return BinaryOp::mul;
    case ReduceOp::max:
      return BinaryOp::max;
    case ReduceOp::min:
      return BinaryOp::min;
  }
  throw InternalError("unknown reduce op");
}

bool is_comparison(BinaryOp op) {
  return op >= BinaryOp::eq && op <= BinaryOp::ge;
}

BinaryOp opposite(BinaryOp op) {
  switch (op) {
    case BinaryOp::eq:
      return BinaryOp::ne;
    case BinaryOp::ne:
      return BinaryOp::eq;
    case BinaryOp::lt:
      return BinaryOp::ge;
    case BinaryOp::le:
      return BinaryOp::gt;
    case BinaryOp::gt:
      return BinaryOp::le;
    default:
      return BinaryOp::lt;
  }
}

const char* symbol(BinaryOp op) {
  static constexpr const char* table[] = {"+",  "-", "*",  "/",  "%",  "min", "max", "==", "!=", "<",
                                          "<=", ">", ">=", "&&", "||", "&",   "|",   "^",  "<<", ">>"};
  static_assert(std::size(table) == static_cast<size_t>(BinaryOp::shr) + 1);
  return table[static_cast<size_t>(op)];
}
const char* symbol(ReduceOp op) {
  static constexpr const char* table[] = {"+=", "*=", "max=", "min="};
  return table[static_cast<size_t>(op)];
}
const char* name_of(Scope scope) {
  static constexpr const char* table[] = {"global", "shared", "local"};
  return table[static_cast<size_t>(scope)];
}
const char* name_of(ForKind kind) {
  static constexpr const char* table[] = {"serial", "parallel", "vectorized", "unrolled", "thread"};
  return table[static_cast<size_t>(kind)];
}
const char* name_of(ThreadTag tag) {
  static constexpr const char* table[] = {
      "", "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread"};
  return table[static_cast<size_t>(tag)];
}
const char* name_of(Role role) {
  static constexpr const char* table[] = {"in", "const", "out"};
  return table[static_cast<size_t>(role)];
}

}  // namespace nestor
