// Parsing of expressions: precedence climbing over the table that the printer uses (precedence_of), with
// every type checked where it is wrong.
#include <algorithm>
#include <charconv>

#include "nestor/nearest.h"
#include "nestor/parse.h"
#include "src/ir/parser.h"
#include "src/ir/printer.h"

namespace nestor {

namespace {

// Nesting of statements and parentheses, and the height of an expression's tree. Recursive walks of what was
// parsed need stack in proportion.
constexpr int kMaxDepth = 1000;
constexpr int kMaxHeight = 3000;
constexpr int kMaxLanes = 4096;

constexpr BinaryOp kOperators[] = {
    BinaryOp::add, BinaryOp::sub,         BinaryOp::mul,       BinaryOp::div,    BinaryOp::mod,
    BinaryOp::eq,  BinaryOp::ne,          BinaryOp::lt,        BinaryOp::le,     BinaryOp::gt,
    BinaryOp::ge,  BinaryOp::logical_and, BinaryOp::bit_and,   BinaryOp::bit_or, BinaryOp::bit_xor,
    BinaryOp::shl, BinaryOp::shr,         BinaryOp::logical_or};

std::optional<BinaryOp> operator_of(const Token& token) {
  if (token.kind != Token::symbol) return std::nullopt;
  for (const BinaryOp op : kOperators)
    if (token.text == symbol(op)) return op;
  return std::nullopt;
}

// The lanes of `x16`; 0 where the word is none.
int broadcast_lanes(std::string_view word) {
  int lanes = 0;
  if (word.size() < 2 || word[0] != 'x' || word[1] == '0') return 0;
  const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), lanes);
  return error == std::errc() && end == word.data() + word.size() ? lanes : 0;
}

std::string quoted(std::string_view text) {
  return "`" + std::string(text) + "`";
}

// How an integer literal would be written at a type, for hints.
std::string suggest_literal(const Expr& literal, Type type) {
  std::string digits = std::to_string(literal.as<IntImm>()->value);
  if (is_float(type.dtype)) digits += ".0";
  std::string out = is_bool(type.dtype)
                        ? "true"
                        : digits + (type.dtype == DType::i64 ? "" : std::string(name_of(type.dtype)));
  return type.is_vector() ? "x" + std::to_string(type.lanes) + "(" + out + ")" : out;
}

}  // namespace

std::string describe(Type type) {
  return print_type(type);
}

Parser::DepthGuard::DepthGuard(Parser& p) : parser(p) {
  if (++parser.depth_ <= kMaxDepth) return;
  --parser.depth_;
  p.fail(p.peek(), "nested more than " + std::to_string(kMaxDepth) + " levels deep");
}

void Parser::grow(const Token& at, int height) {
  if (height > kMaxHeight)
    fail(at, "an expression of more than " + std::to_string(kMaxHeight) + " nested operations");
  height_ = height;
}

Expr Parser::expr() {
  const DepthGuard guard(*this);
  return binary(kOr);
}

Expr Parser::typed_expr(Type wanted, std::string_view what) {
  const Token at = peek();
  Expr e = expr();
  if (e.type() == wanted) return e;
  const bool literal = e.as<IntImm>() && e.type() == Type{};
  fail(at, std::string(what) + " must be " + describe(wanted) + ", this is " + describe(e.type()),
       literal && !is_bool(wanted.dtype) ? "write " + suggest_literal(e, wanted) : "");
}

Expr Parser::binary(int min_precedence) {
  Expr left = unary();
  for (;;) {
    const Token op = peek();
    const auto kind = operator_of(op);
    if (!kind || precedence_of(*kind) < min_precedence) return left;
    take();
    const int left_height = height_;
    Expr right = binary(precedence_of(*kind) + 1);
    left = combine(op, *kind, std::move(left), std::move(right));
    grow(op, 1 + std::max(left_height, height_));
    const auto next = operator_of(peek());
    if (precedence_of(*kind) == kCompare && next && precedence_of(*next) == kCompare)
      fail(peek(), "comparisons don't chain", "write a < b && b < c");
  }
}

Expr Parser::combine(const Token& op, BinaryOp kind, Expr a, Expr b) const {
  if (!(a.type() == b.type())) {
    std::string hint;
    if (b.as<IntImm>() && b.type() == Type{} && !is_bool(a.dtype()))
      hint = "write " + suggest_literal(b, a.type());
    else if (a.as<IntImm>() && a.type() == Type{} && !is_bool(b.dtype()))
      hint = "write " + suggest_literal(a, b.type());
    fail(op,
         "the operands of " + quoted(op.text) + " are " + describe(a.type()) + " and " + describe(b.type()),
         hint);
  }
  const DType t = a.dtype();
  const bool logical = kind == BinaryOp::logical_and || kind == BinaryOp::logical_or;
  if (logical && !is_bool(t))
    fail(op, quoted(op.text) + " needs bool operands, these are " + describe(a.type()));
  if (kind >= BinaryOp::bit_and && is_float(t))
    fail(op, quoted(op.text) + " needs integer operands, these are " + describe(a.type()));
  return make::binary(kind, std::move(a), std::move(b));
}

Expr Parser::unary() {
  const Token op = peek();
  if (accept("-")) {
    if (peek().kind == Token::number) return literal(true);
    if (Expr special = special_float(true)) return special;
    const DepthGuard guard(*this);
    Expr a = unary();
    grow(op, height_ + 1);
    return make::unary(UnaryOp::neg, std::move(a));
  }
  if (accept("!")) {
    const DepthGuard guard(*this);
    Expr a = unary();
    if (!is_bool(a.dtype())) fail(op, "`!` needs a bool, this is " + describe(a.type()));
    grow(op, height_ + 1);
    return make::unary(UnaryOp::logical_not, std::move(a));
  }
  return primary();
}

Expr Parser::primary() {
  const Token at = peek();
  height_ = 1;
  if (at.kind == Token::number) return literal(false);
  if (accept("(")) {
    Expr inside = expr();
    expect(")", "to close the parenthesis");
    return inside;
  }
  if (at.kind != Token::identifier) fail_here("an expression", "");
  if (at.text == "if" || at.text == "let") return open_form();
  if (next_is("(", 1)) return call();
  if (next_is("[", 1)) return load();
  if (accept("true")) return make::bool_imm(true);
  if (accept("false")) return make::bool_imm(false);
  if (Expr special = special_float(false)) return special;
  if (Var v = find_var(at.text)) {
    take();
    return make::var(v);
  }
  if (is_reserved_word(at.text)) fail_here("an expression", "");
  if (buffers_.contains(at.text))
    fail(at, quoted(at.text) + " is a buffer and needs indices", quoted(std::string(at.text) + "[...]"));
  fail(at, "unknown name " + quoted(at.text), did_you_mean(at.text, names_in_scope()));
}

Expr Parser::open_form() {
  const Token at = take();
  if (at.text == "if") {
    const Token cond_at = peek();
    Expr cond = expr();
    if (!is_bool(cond.dtype())) fail(cond_at, "a condition must be bool, this is " + describe(cond.type()));
    int height = height_;
    expect("then", "after the condition");
    Expr a = expr();
    height = std::max(height, height_);
    const Token other = expect("else", "after `then`");
    Expr b = expr();
    if (!(a.type() == b.type()))
      fail(other, "the two sides are " + describe(a.type()) + " and " + describe(b.type()));
    if (cond.type().lanes != 1 && cond.type().lanes != a.type().lanes)
      fail(cond_at, "a condition of " + describe(cond.type()) + " chooses among " + describe(a.type()));
    grow(at, 1 + std::max(height, height_));
    return make::select(std::move(cond), std::move(a), std::move(b));
  }
  const Token name = expect_name("a variable");
  expect("=", "after the variable");
  Expr value = expr();
  const int height = height_;
  expect("in", "after the value");
  Var v = make_var(std::string(name.text), value.type());
  bind(name, v);
  Expr body = expr();
  unbind(1);
  grow(at, 1 + std::max(height, height_));
  return make::let(v, std::move(value), std::move(body));
}

// ---- Calls --------------------------------------------------------------------------------------

std::vector<Expr> Parser::arguments(const Token& name, size_t count) {
  std::vector<Expr> args;
  int height = 0;
  comma_list("(", ")", "the arguments", [&] {
    args.push_back(expr());
    height = std::max(height, height_);
  });
  if (count != kAnyCount && args.size() != count)
    fail(name, quoted(name.text) + " takes " + std::to_string(count) +
                   (count == 1 ? " argument" : " arguments") + ", not " + std::to_string(args.size()));
  grow(name, height + 1);
  return args;
}

Expr Parser::call() {
  const Token name = take();
  const auto same_type = [&](const Expr& a, const Expr& b) {
    if (!(a.type() == b.type()))
      fail(name, "the arguments of " + quoted(name.text) + " are " + describe(a.type()) + " and " +
                     describe(b.type()));
  };
  if (name.text == "min" || name.text == "max") {
    auto args = arguments(name, 2);
    same_type(args[0], args[1]);
    return make::binary(name.text == "min" ? BinaryOp::min : BinaryOp::max, args[0], args[1]);
  }
  for (const ReduceOp op : {ReduceOp::add, ReduceOp::mul, ReduceOp::max, ReduceOp::min})
    if (name.text == std::string("reduce_") + word_of(op))
      return make::vector_reduce(op, arguments(name, 1)[0]);
  if (name.text == "ramp") return call_ramp(name);
  if (name.text == "shuffle") return call_shuffle(name);
  if (Type type; parse_type(name.text, type)) {
    Expr a = arguments(name, 1)[0];
    if (a.type().lanes != type.lanes)
      fail(name, "a cast to " + describe(type) + " of " + describe(a.type()) + " changes the number of lanes",
           "x" + std::to_string(type.lanes) + "(e) repeats a scalar");
    return make::cast(type, std::move(a));
  }
  if (const int lanes = broadcast_lanes(name.text)) {
    if (lanes < 2 || lanes > kMaxLanes)
      fail(name, "a vector has 2 to " + std::to_string(kMaxLanes) + " lanes");
    Expr a = arguments(name, 1)[0];
    if (a.type().is_vector()) fail(name, "only a scalar can be repeated, this is " + describe(a.type()));
    return make::broadcast(std::move(a), lanes);
  }
  if (name.text == info(Intrinsic::bitcast).name) return call_bitcast(name);
  if (name.text == info(Intrinsic::instruction).name) return call_instruction(name);
  if (const auto fn = parse_intrinsic(name.text)) return call_intrinsic(name, *fn);
  std::vector<std::string> known = {"min",        "max",        "ramp",       "shuffle",
                                    "reduce_add", "reduce_mul", "reduce_max", "reduce_min"};
  for (int i = 0; i <= static_cast<int>(Intrinsic::instruction); ++i)
    known.push_back(info(static_cast<Intrinsic>(i)).name);
  for (const DTypeRow& r : kDTypes) known.emplace_back(r.name);
  fail(name, "unknown function " + quoted(name.text), did_you_mean(name.text, known));
}

Expr Parser::call_intrinsic(const Token& name, Intrinsic fn) {
  auto args = arguments(name, info(fn).arity < 0 ? kAnyCount : static_cast<size_t>(info(fn).arity));
  if (args.empty() && info(fn).arity != 0) fail(name, quoted(name.text) + " of nothing");
  for (const Expr& a : args)
    if (!(a.type() == args[0].type()))
      fail(name, "the arguments of " + quoted(name.text) + " are " + describe(args[0].type()) + " and " +
                     describe(a.type()));
  return make::call(fn, std::move(args));
}

Expr Parser::call_ramp(const Token& name) {
  expect("(", "after `ramp`");
  Expr base = expr();
  const int height = height_;
  expect(",", "after the base");
  Expr stride = expr();
  expect(",", "after the stride");
  const int lanes = static_cast<int>(integer("the number of lanes", 2, kMaxLanes));
  expect(")", "after the lanes");
  if (!(base.type() == stride.type()) || base.type().is_vector() || is_bool(base.dtype()))
    fail(name, "a ramp needs two scalars of one type, these are " + describe(base.type()) + " and " +
                   describe(stride.type()));
  grow(name, 1 + std::max(height, height_));
  return make::ramp(std::move(base), std::move(stride), lanes);
}

// shuffle(a, b, [lane,...]): lanes of a, then of b
Expr Parser::call_shuffle(const Token& name) {
  expect("(", "after `shuffle`");
  Expr a = expr();
  const int height = height_;
  expect(",", "after the first vector");
  Expr b = expr();
  expect(",", "after the second vector");
  if (!(a.type() == b.type()) || !a.type().is_vector())
    fail(name, "a shuffle needs two vectors of one type, these are " + describe(a.type()) + " and " +
                   describe(b.type()));
  std::vector<int64_t> lanes;
  comma_list("[", "]", "the lanes", [&] { lanes.push_back(integer("a lane", 0, 2 * a.type().lanes - 1)); });
  expect(")", "after the lanes");
  if (lanes.empty() || lanes.size() > static_cast<size_t>(kMaxLanes))
    fail(name, "a shuffle gives 1 to " + std::to_string(kMaxLanes) + " lanes");
  grow(name, 1 + std::max(height, height_));
  return make::shuffle(std::move(a), std::move(b), std::move(lanes));
}

Expr Parser::call_bitcast(const Token& name) {
  expect("(", "after `bitcast`");
  Expr a = expr();
  expect(",", "after the value");
  const Type to = type("after the comma");
  expect(")", "after the type");
  if (bytes_of(to.dtype) != bytes_of(a.dtype()) || to.lanes != a.type().lanes)
    fail(name, "a bitcast of " + describe(a.type()) + " to " + describe(to) + " changes the size");
  grow(name, 1 + height_);
  return make::bitcast(to, std::move(a));
}

// instruction("name", type, arguments)
Expr Parser::call_instruction(const Token& name) {
  expect("(", "after `instruction`");
  const Token callee = take();
  if (callee.kind != Token::string) fail(callee, "expected the instruction's name in quotes");
  expect(",", "after the name");
  const Type result = type("after the comma");
  std::vector<Expr> args;
  int height = 0;
  while (next_is(",")) {
    take();
    args.push_back(expr());
    height = std::max(height, height_);
  }
  expect(")", "after the arguments");
  grow(name, 1 + height);
  return make::instruction(unquote(callee.text), result, std::move(args));
}

// ---- Loads --------------------------------------------------------------------------------------

Expr Parser::load() {
  const Token name = take();
  const Declared& d = find_buffer(name);
  std::vector<Expr> at = indices(name, d);
  int height = height_;
  Expr m = mask(index_lanes(name, d.buffer, at));
  height = std::max(height, height_);
  grow(name, height + 1);
  return make::load(d.buffer, std::move(at), std::move(m));
}

std::vector<Expr> Parser::indices(const Token& name, const Declared& d) {
  std::vector<Expr> out;
  int height = 0;
  comma_list("[", "]", "the indices", [&] {
    const Token at = peek();
    out.push_back(expr());
    height = std::max(height, height_);
    if (out.back().dtype() != DType::i64)
      fail(at, "an index must be i64, this is " + describe(out.back().type()),
           is_float(out.back().dtype()) ? "" : "i64(...) around it");
  });
  if (out.size() != d.rank)
    fail(name, quoted(name.text) + " has " + std::to_string(d.rank) +
                   (d.rank == 1 ? " dimension" : " dimensions") + ", not " + std::to_string(out.size()));
  height_ = height;
  return out;
}

int Parser::index_lanes(const Token& name, const Buffer& b, const std::vector<Expr>& indices) const {
  int lanes = b->type.lanes;
  bool vector_index = false;
  for (const Expr& i : indices) {
    if (!i.type().is_vector()) continue;
    if (vector_index && lanes != i.type().lanes) fail(name, "the vector indices differ in lanes");
    vector_index = true;
    lanes = i.type().lanes;
  }
  return lanes;
}

// `mask m` on the same line: on the next, it would be a buffer named mask.
Expr Parser::mask(int lanes) {
  if (!next_is("mask") || peek().begins_line) return {};
  take();
  const Token at = peek();
  Expr m = primary();
  if (!(m.type() == Type{DType::boolean, lanes}))
    fail(at, "the mask must be " + describe({DType::boolean, lanes}) + ", this is " + describe(m.type()));
  return m;
}

}  // namespace nestor
