// Parses statements. The first word decides the kind: a name and `[` begin a store or an update, a function's
// name and `(` an effect, and a keyword the rest. So a buffer may be called `init` or `mask`.
#include "nestor/nearest.h"
#include "src/ir/parser.h"
#include "src/ir/printer.h"

namespace nestor {

namespace {

std::string quoted(std::string_view text) {
  return "`" + std::string(text) + "`";
}

constexpr ThreadTag kTags[] = {ThreadTag::block_x,  ThreadTag::block_y,  ThreadTag::block_z,
                               ThreadTag::thread_x, ThreadTag::thread_y, ThreadTag::thread_z,
                               ThreadTag::vthread};

}  // namespace

Stmt Parser::statements() {
  std::vector<Stmt> out;
  while (!next_is("}")) {
    if (at_end()) fail_here("`}`", "at the end of the body");
    out.push_back(statement());
  }
  take();
  return make::seq(std::move(out));
}

Stmt Parser::braced(std::string_view where) {
  expect("{", where);
  return statements();
}

Stmt Parser::statement() {
  const DepthGuard guard(*this);
  const Token at = peek();
  if (at.kind != Token::identifier) fail_here("a statement", "");
  if (next_is("[", 1)) return store_or_update();
  if (accept("for")) return loop(ForKind::serial, ThreadTag::none);
  if (accept("parallel")) return loop(ForKind::parallel, ThreadTag::none);
  if (accept("vectorized")) return loop(ForKind::vectorized, ThreadTag::none);
  if (accept("unrolled")) return loop(ForKind::unrolled, ThreadTag::none);
  if (accept("block")) return block();
  if (accept("if")) return if_statement();
  if (accept("let")) return let_statement();
  if (accept("alloc")) return alloc_statement(at, decl());
  if (next_is("(", 1)) return evaluate();
  if (ThreadTag tag; thread_tag(tag)) {
    position_ += tag == ThreadTag::vthread ? 1 : 3;
    return loop(ForKind::thread, tag);
  }
  fail_statement();
}

// blockIdx.x ... threadIdx.z, vthread
bool Parser::thread_tag(ThreadTag& tag) const {
  std::string word(peek().text);
  if (next_is(".", 1)) word += "." + std::string(peek(2).text);
  for (const ThreadTag t : kTags)
    if (word == name_of(t)) {
      tag = t;
      return true;
    }
  return false;
}

void Parser::fail_statement() const {
  const Token& at = peek();
  if (buffers_.contains(at.text))
    fail(at, quoted(at.text) + " is a buffer and needs indices",
         quoted(std::string(at.text) + "[...] = ..."));
  std::vector<std::string> words = {"for",   "parallel", "vectorized", "unrolled",
                                    "block", "if",       "let",        "alloc"};
  for (const ThreadTag t : kTags) words.emplace_back(name_of(t));
  fail(at, "expected a statement, found " + quoted(at.text), did_you_mean(at.text, words));
}

// i in 4 @tail("peel"), j in 8 {
Stmt Parser::loop(ForKind kind, ThreadTag thread) {
  const DepthGuard guard(*this);
  const Token name = expect_name("a loop variable");
  expect("in", "after the loop variable");
  Expr extent = typed_expr({}, "a loop's extent");
  Annotations notes = annotations();
  Var v = make_var(std::string(name.text));
  bind(name, v);
  Stmt body = accept(",") ? loop(kind, thread) : braced("after the loop's extent");
  unbind(1);
  return make::loop(v, std::move(extent), std::move(body), kind, thread, std::move(notes));
}

Stmt Parser::block() {
  const Token name = expect_name("a block's name");
  if (is_reserved_word(name.text)) fail(name, quoted(name.text) + " is a reserved word");
  if (!blocks_.emplace(name.text).second)
    fail(name, "block " + quoted(name.text) + " occurs twice in this function");
  Block b;
  b.id = make_block_id(std::string(name.text));
  std::vector<Token> names;
  comma_list("(", ")", "the block's iterators", [&] {
    names.push_back(peek());
    b.iters.push_back(iterator());
  });
  for (size_t i = 0; i < names.size(); ++i) bind(names[i], b.iters[i].var);
  if (accept("where")) b.where = typed_expr({DType::boolean, 1}, "`where`");
  b.annotations = annotations();
  expect("{", "after the block's header");
  if (next_is("init") && next_is("{", 1)) {
    take();
    b.init = braced("after `init`");
  }
  b.body = statements();
  unbind(names.size());
  return make::block(std::move(b));
}

// vk: R 64 = k0*16+k1
IterVar Parser::iterator() {
  IterVar out;
  const Token name = expect_name("an iterator");
  expect(":", "after the iterator's name");
  const Token kind = expect_name("S or R");
  if (kind.text != "S" && kind.text != "R")
    fail(kind, "an iterator is S (spatial) or R (reduction), not " + quoted(kind.text));
  out.kind = kind.text == "S" ? IterKind::spatial : IterKind::reduce;
  out.extent = typed_expr({}, "an iterator's extent");
  expect("=", "after the iterator's extent");
  out.binding = typed_expr({}, "a binding");
  out.var = make_var(std::string(name.text));
  return out;
}

Stmt Parser::if_statement() {
  Expr cond = typed_expr({DType::boolean, 1}, "a condition");
  Stmt then_case = braced("after the condition");
  Stmt else_case;
  if (accept("else")) {
    const DepthGuard guard(*this);
    else_case = accept("if") ? if_statement() : braced("after `else`");
  }
  return make::if_then(std::move(cond), std::move(then_case), std::move(else_case));
}

Stmt Parser::let_statement() {
  const Token name = expect_name("a variable");
  expect("=", "after the variable");
  Expr value = expr();
  Var v = make_var(std::string(name.text), value.type());
  bind(name, v);
  Stmt body = braced("after the value");
  unbind(1);
  return make::let_stmt(v, std::move(value), std::move(body));
}

// The declaration is read; its buffer is visible in the braces that follow.
Stmt Parser::alloc_statement(const Token& at, BufferDecl d) {
  if (!next_is("{"))
    fail(at, "an `alloc` without a body must be at the top of the function, before all statements",
         "write alloc ... { the statements that use it }");
  const std::string name = d.buffer->name;
  Stmt body = braced("after the declaration");
  buffers_.at(name).visible = false;
  return make::alloc(std::move(d), std::move(body));
}

Stmt Parser::store_or_update() {
  const Token name = take();
  const Declared& d = find_buffer(name);
  std::vector<Expr> at = indices(name, d);
  Expr m = mask(index_lanes(name, d.buffer, at));
  const bool streaming = accept("streaming");
  const Token op = take();
  std::optional<ReduceOp> reduce;
  if (is(op, "+=")) reduce = ReduceOp::add;
  if (is(op, "*=")) reduce = ReduceOp::mul;
  if ((is(op, "max") || is(op, "min")) && accept("=")) reduce = is(op, "max") ? ReduceOp::max : ReduceOp::min;
  if (!reduce && !is(op, "=")) {
    const bool other = next_is("=") && op.kind == Token::symbol;
    fail(op, "expected `=` after " + quoted(std::string(name.text) + "[...]") + ", found " + quoted(op.text),
         other ? "reductions are += *= max= min=" : "");
  }
  if (reduce && (m || streaming)) fail(op, m ? "an update has no mask" : "an update can't be streaming");
  const Token value_at = peek();
  Expr value = expr();
  const DType dtype = d.buffer->type.dtype;
  if (value.dtype() != dtype)
    fail(value_at,
         quoted(name.text) + " holds " + std::string(name_of(dtype)) + ", the value is " +
             describe(value.type()),
         "write " + std::string(name_of(dtype)) + "(...) to convert");
  if (reduce) return make::update(*reduce, d.buffer, std::move(at), std::move(value));
  return make::store(d.buffer, std::move(at), std::move(value), std::move(m), streaming);
}

Stmt Parser::evaluate() {
  const Token at = peek();
  Expr e = expr();
  if (!e.as<Call>())
    fail(at, "a value alone isn't a statement", "statements with an effect are sync() and prefetch(X[i])");
  return make::evaluate(std::move(e));
}

}  // namespace nestor
