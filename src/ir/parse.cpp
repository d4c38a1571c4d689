// Parsing of functions and declarations; tokens, scopes and errors of the parser.
#include "nestor/parse.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "nestor/nearest.h"
#include "src/ir/parser.h"
#include "src/ir/printer.h"

namespace nestor {

namespace {

std::string quoted(std::string_view text) {
  return "`" + std::string(text) + "`";
}

std::string describe(const Token& token) {
  if (token.kind == Token::end) return "the end of the text";
  if (token.kind == Token::bad)
    return token.text.starts_with('"') ? "a string without end or with an unknown escape"
                                       : "the character " + quote(token.text);
  return quoted(token.text);
}

}  // namespace

Parser::Parser(std::string_view text, std::string file)
    : lexer_(text, std::move(file)), tokens_(lexer_.tokens()) {}

// ---- Tokens -------------------------------------------------------------------------------------

void Parser::fail(const Token& at, std::string message, std::string hint) const {
  throw UserError(Diagnostic{std::move(message), lexer_.locate(at), {}, std::move(hint)});
}

void Parser::fail_here(std::string_view expected, std::string_view where) const {
  std::string message = "expected " + std::string(expected);
  if (!where.empty()) message += " " + std::string(where);
  fail(peek(), message + ", found " + describe(peek()));
}

Token Parser::take() {
  const Token token = peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool Parser::is(const Token& token, std::string_view text) {
  return (token.kind == Token::symbol || token.kind == Token::identifier) && token.text == text;
}

bool Parser::accept(std::string_view text) {
  if (!next_is(text)) return false;
  take();
  return true;
}

Token Parser::expect(std::string_view text, std::string_view where) {
  if (!next_is(text)) fail_here(quoted(text), where);
  return take();
}

Token Parser::expect_name(std::string_view what) {
  if (peek().kind != Token::identifier) fail_here(what, "");
  return take();
}

int64_t Parser::integer(std::string_view what, int64_t lowest, int64_t highest) {
  const bool negative = accept("-");
  const Token at = peek();
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(at.text.data(), at.text.data() + at.text.size(), magnitude);
  if (at.kind != Token::number || end != at.text.data() + at.text.size()) fail_here(what, "");
  const uint64_t limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  const auto value = static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  if (error != std::errc() || magnitude > limit || value < lowest || value > highest)
    fail(at, std::string(what) + " must lie between " + std::to_string(lowest) + " and " +
                 std::to_string(highest));
  take();
  return value;
}

// ---- Scopes -------------------------------------------------------------------------------------

void Parser::bind(const Token& at, const Var& v) {
  if (is_reserved_word(at.text)) fail(at, quoted(at.text) + " is a reserved word");
  if (find_var(at.text))
    fail(at, quoted(at.text) + " is already bound on this path", "name it " + std::string(at.text) + "_1");
  scope_.push_back(v);
}

Var Parser::find_var(std::string_view name) const {
  for (size_t i = scope_.size(); i-- > 0;)
    if (scope_[i]->name == name) return scope_[i];
  return nullptr;
}

const Parser::Declared& Parser::find_buffer(const Token& name) const {
  const auto it = buffers_.find(name.text);
  if (it != buffers_.end() && it->second.visible) return it->second;
  if (it != buffers_.end()) fail(name, quoted(name.text) + " is used after the end of its `alloc`");
  std::vector<std::string> known;
  for (const auto& [other, declared] : buffers_)
    if (declared.visible) known.push_back(other);
  const std::string near = did_you_mean(name.text, known);
  std::string hint = near.empty() ? "known here:" : near;
  for (size_t i = 0; near.empty() && i < known.size(); ++i) hint += " " + known[i];
  fail(name, "unknown buffer " + quoted(name.text), known.empty() ? "" : hint);
}

std::vector<std::string> Parser::names_in_scope() const {
  std::vector<std::string> out;
  for (size_t i = scope_.size(); i-- > 0;) out.push_back(scope_[i]->name);
  return out;
}

// ---- Declarations -------------------------------------------------------------------------------

bool Parser::parse_type(std::string_view text, Type& type) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (!text.starts_with(kDTypes[i].name)) continue;
    const std::string_view rest = text.substr(kDTypes[i].name.size());
    int lanes = 1;
    if (!rest.empty()) {
      const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), lanes);
      const bool fine = rest.size() > 1 && rest[0] == 'x' && rest[1] != '0' && error == std::errc() &&
                        end == rest.data() + rest.size() && lanes >= 2 && lanes <= 4096;
      if (!fine) continue;
    }
    type = {static_cast<DType>(i), lanes};
    return true;
  }
  return false;
}

Type Parser::type(std::string_view where) {
  const Token at = peek();
  Type out;
  if (at.kind != Token::identifier) fail_here("a type", where);
  if (!parse_type(at.text, out)) {
    std::vector<std::string> names;
    for (const DTypeRow& r : kDTypes) names.emplace_back(r.name);
    const std::string near = did_you_mean(at.text, names);
    fail(at, "unknown type " + quoted(at.text), near.empty() ? "types are f32, i64, bool, f32x16 ..." : near);
  }
  take();
  return out;
}

// T: f32[4,N] local layout (a,b) -> (b,a) pad 1.0 align (0, 32, 8)
BufferDecl Parser::decl() {
  const Token name = expect_name("a buffer's name");
  if (is_reserved_word(name.text)) fail(name, quoted(name.text) + " is a reserved word");
  if (buffers_.contains(name.text)) fail(name, "buffer " + quoted(name.text) + " is declared twice");
  expect(":", "after the buffer's name");
  BufferDecl d;
  d.buffer = make_buffer(std::string(name.text), type("after the colon"));
  comma_list("[", "]", "the shape", [&] {
    const Token at = peek();
    if (at.kind == Token::identifier && !find_var(at.text) && (next_is(",", 1) || next_is("]", 1)))
      fail(at, "unknown size " + quoted(at.text),
           "a number, or a dimension of the function, `func NAME[" + std::string(at.text) +
               "](...)`, which --dim gives a value");
    d.shape.push_back(typed_expr({}, "a dimension"));
  });
  for (const Scope scope : {Scope::global, Scope::shared, Scope::local})
    if (accept(name_of(scope))) d.scope = scope;
  if (accept("layout")) {
    const Token at = peek();
    d.layout = layout();
    if (d.layout->vars.size() != d.shape.size())
      fail(at, "the layout has " + std::to_string(d.layout->vars.size()) + " indices, the buffer " +
                   std::to_string(d.shape.size()) + " dimensions");
  }
  while (accept("align")) {
    const Token at = peek();
    std::vector<int64_t> numbers;
    comma_list("(", ")", "a dimension, a factor and an offset", [&] {
      const auto value = as_int(typed_expr({}, "an integer"));
      if (!value) fail(at, "an alignment is of constants", "align (0, 32, 8)");
      numbers.push_back(*value);
    });
    if (numbers.size() != 3)
      fail(at, "an alignment has a dimension, a factor and an offset", "align (0, 32, 8)");
    d.align.push_back({numbers[0], numbers[1], numbers[2]});
  }
  buffers_[d.buffer->name] = {d.buffer, d.shape.size(), true};
  return d;
}

IndexMap Parser::layout() {
  IndexMap map;
  std::vector<Var> outer = std::move(scope_);
  scope_ = dims_;
  comma_list("(", ")", "the layout's indices", [&] {
    const Token name = expect_name("an index");
    map.vars.push_back(make_var(std::string(name.text)));
    bind(name, map.vars.back());
  });
  expect("->", "after the layout's indices");
  comma_list("(", ")", "the layout's expressions",
             [&] { map.exprs.push_back(typed_expr({}, "a physical index")); });
  scope_ = std::move(outer);
  if (accept("pad")) map.pad = pad();
  return map;
}

double Parser::pad() {
  const bool negative = accept("-");
  const Token at = take();
  double value = 0;
  const auto [end, error] = std::from_chars(at.text.data(), at.text.data() + at.text.size(), value);
  const bool word = at.text == "inf" || at.text == "nan";
  const bool number =
      at.kind == Token::number && error == std::errc() && end == at.text.data() + at.text.size();
  if (!number && !word) fail(at, "expected the pad value, found " + describe(at), "pad 0.0, pad -inf");
  return negative ? -value : value;
}

// @tail("peel") @stage(2)
Annotations Parser::annotations() {
  Annotations out;
  while (accept("@")) {
    const Token key = take();
    if (key.kind != Token::identifier && key.kind != Token::string)
      fail(key, "expected an annotation's name, found " + describe(key));
    const std::string name = key.kind == Token::string ? unquote(key.text) : std::string(key.text);
    if (out.contains(name)) fail(key, "annotation " + quoted(key.text) + " occurs twice");
    expect("(", "after the annotation's name");
    if (peek().kind == Token::string)
      out[name] = unquote(take().text);
    else
      out[name] = integer("an integer or a string", std::numeric_limits<int64_t>::min(),
                          std::numeric_limits<int64_t>::max());
    expect(")", "after the annotation's value");
  }
  return out;
}

PrimFunc Parser::func() {
  buffers_.clear();
  blocks_.clear();
  scope_.clear();
  dims_.clear();
  expect("func", "");
  PrimFunc f;
  const Token name = expect_name("a function's name");
  if (is_reserved_word(name.text)) fail(name, quoted(name.text) + " is a reserved word");
  f.name = std::string(name.text);
  if (next_is("["))
    comma_list("[", "]", "the dimensions", [&] {
      const Token dim = expect_name("a dimension");
      f.dims.push_back(make_var(std::string(dim.text)));
      bind(dim, f.dims.back());
    });
  dims_ = f.dims;
  comma_list("(", ")", "the parameters", [&] {
    const Token role = expect_name("`in`, `const` or `out`");
    Param p;
    if (role.text == name_of(Role::in))
      p.role = Role::in;
    else if (role.text == name_of(Role::constant))
      p.role = Role::constant;
    else if (role.text == name_of(Role::out))
      p.role = Role::out;
    else
      fail(role, "a parameter is `in`, `const` or `out`, not " + quoted(role.text),
           "in " + std::string(next_is(":") ? role.text : "X") + ": f32[...]");
    p.decl = decl();
    f.params.push_back(std::move(p));
  });
  expect("{", "after the parameters");
  std::vector<Stmt> body;
  while (next_is("alloc") && !next_is("[", 1)) {
    const Token at = take();
    BufferDecl d = decl();
    if (next_is("{")) {
      body.push_back(alloc_statement(at, std::move(d)));
      break;
    }
    f.allocs.push_back(std::move(d));
  }
  body.push_back(statements());
  f.body = make::seq(std::move(body));
  return f;
}

Expr Parser::whole_expr(const std::vector<Var>& vars) {
  scope_ = vars;
  Expr e = expr();
  if (!at_end()) fail_here("the end of the expression", "");
  return e;
}

// ---- Entry points -------------------------------------------------------------------------------

PrimFunc parse_func(std::string_view text, std::string file) {
  Parser parser(text, std::move(file));
  PrimFunc f = parser.func();
  if (!parser.at_end()) parser.fail(parser.peek(), "expected one function only, more text follows");
  return f;
}

std::vector<PrimFunc> parse_funcs(std::string_view text, std::string file) {
  Parser parser(text, std::move(file));
  std::vector<PrimFunc> out;
  while (!parser.at_end()) out.push_back(parser.func());
  return out;
}

Expr parse_expr(std::string_view text, const std::vector<Var>& vars, std::string file) {
  return Parser(text, std::move(file)).whole_expr(vars);
}

}  // namespace nestor
