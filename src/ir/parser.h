// The recursive descent parser of the text form, shared by parse.cpp (functions, statements) and
// parse_expr.cpp. Everything the IR's constructors would refuse is refused here first, with its place, so
// that no input reaches an InternalError; and nothing grows deeper than the recursive code that walks it
// later can stand. Private to src/ir.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nestor/ir.h"
#include "src/ir/lexer.h"

namespace nestor {

class Parser {
 public:
  Parser(std::string_view text, std::string file);

  PrimFunc func();
  bool at_end() const { return peek().kind == Token::end; }
  Expr whole_expr(const std::vector<Var>& vars);  // and nothing after it
  [[noreturn]] void fail(const Token& at, std::string message, std::string hint = "") const;
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
  }

 private:
  struct DepthGuard {
    explicit DepthGuard(Parser& parser);
    ~DepthGuard() { --parser.depth_; }
    Parser& parser;
  };
  struct Declared {
    Buffer buffer;
    size_t rank = 0;
    bool visible = true;  // false after the end of its alloc statement
  };

  // ---- Tokens
  Token take();
  bool next_is(std::string_view symbol_or_word, size_t ahead = 0) const {
    return is(peek(ahead), symbol_or_word);
  }
  static bool is(const Token& token, std::string_view symbol_or_word);
  bool accept(std::string_view symbol_or_word);
  Token expect(std::string_view symbol_or_word, std::string_view where);
  Token expect_name(std::string_view what);
  [[noreturn]] void fail_here(std::string_view expected, std::string_view where) const;
  int64_t integer(std::string_view what, int64_t lowest, int64_t highest);
  template <class Item>
  void comma_list(std::string_view open, std::string_view close, std::string_view where, Item item);

  // ---- Scopes
  void bind(const Token& at, const Var& v);
  void unbind(size_t count) { scope_.resize(scope_.size() - count); }
  Var find_var(std::string_view name) const;
  const Declared& find_buffer(const Token& name) const;
  std::vector<std::string> names_in_scope() const;

  // ---- Declarations (parse.cpp)
  BufferDecl decl();
  IndexMap layout();
  double pad();
  Type type(std::string_view where);
  static bool parse_type(std::string_view text, Type& type);
  Annotations annotations();

  // ---- Statements (parse.cpp)
  Stmt statements();  // up to and with "}"
  Stmt braced(std::string_view where);
  Stmt statement();
  Stmt loop(ForKind kind, ThreadTag thread);
  Stmt block();
  IterVar iterator();
  Stmt if_statement();
  Stmt let_statement();
  Stmt alloc_statement(const Token& at, BufferDecl d);
  Stmt store_or_update();
  Stmt evaluate();
  [[noreturn]] void fail_statement() const;
  bool thread_tag(ThreadTag& tag) const;

  // ---- Expressions (parse_expr.cpp)
  Expr expr();
  Expr typed_expr(Type wanted, std::string_view what);
  Expr binary(int min_precedence);
  Expr combine(const Token& op, BinaryOp kind, Expr a, Expr b) const;
  Expr unary();
  Expr primary();
  Expr open_form();  // if-then-else, let-in
  Expr literal(bool negative);
  Expr int_literal(const Token& at, std::string_view digits, DType dtype, bool negative) const;
  Expr float_literal(const Token& at, std::string_view digits, DType dtype, bool negative) const;
  Expr special_float(bool negative);  // inf_f32, nan_f32; null where the next token is none
  Expr call();
  Expr call_ramp(const Token& name);
  Expr call_shuffle(const Token& name);
  Expr call_intrinsic(const Token& name, Intrinsic fn);
  Expr call_bitcast(const Token& name);
  Expr call_instruction(const Token& name);
  static constexpr size_t kAnyCount = static_cast<size_t>(-1);
  std::vector<Expr> arguments(const Token& name, size_t count);
  Expr load();
  std::vector<Expr> indices(const Token& name, const Declared& d);
  int index_lanes(const Token& name, const Buffer& b, const std::vector<Expr>& indices) const;
  Expr mask(int lanes);
  void grow(const Token& at, int height);  // the height of the expression just made

  Lexer lexer_;
  std::vector<Token> tokens_;
  size_t position_ = 0;
  int depth_ = 0;   // of the recursion
  int height_ = 0;  // of the expression parsed last
  std::vector<Var> scope_;
  std::vector<Var> dims_;
  std::map<std::string, Declared, std::less<>> buffers_;
  std::set<std::string, std::less<>> blocks_;
};

// open item, item close
template <class Item>
void Parser::comma_list(std::string_view open, std::string_view close, std::string_view where, Item item) {
  const std::string around = "around " + std::string(where);
  expect(open, around);
  if (accept(close)) return;
  do item();
  while (accept(","));
  if (!next_is(close)) fail_here("`,` or `" + std::string(close) + "`", "in " + std::string(where));
  take();
}

std::string describe(Type type);

}  // namespace nestor
