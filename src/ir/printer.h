// The printer's state, shared by the files that print statements (print.cpp), expressions (print_expr.cpp)
// and keys (workload_key.cpp). Private to src/ir.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "nestor/print.h"

namespace nestor {

// How tightly an expression binds in the text form; both printer and parser read this one table.
enum Precedence : int {
  kOpen = 0,  // if-then-else, let-in, masked loads: they end where their surroundings end
  kOr,
  kAnd,
  kCompare,  // doesn't chain
  kBitOr,
  kBitXor,
  kBitAnd,
  kShift,
  kSum,
  kProduct,
  kUnary,
  kPrimary
};
int precedence_of(BinaryOp op);  // kPrimary for min and max, which print as calls

const char* word_of(ReduceOp op);  // "add" as in reduce_add

// Words that no variable, buffer or block may be called; the printer adds a suffix.
bool is_reserved_word(std::string_view word);

// The name as an identifier: other characters become `_`.
std::string identifier(std::string_view name);

std::string print_literal(const IntImm& i, Type type);
std::string print_literal(const FloatImm& f, Type type);
std::string print_type(Type type);  // f32, f32x16
std::string quote(std::string_view text);

class Printer {
 public:
  struct Options {
    bool spans = false;
    bool canonical =
        false;  // names of the function, buffers and of all variables but loops say nothing but their order
  };
  explicit Printer(Options options) : options_(options) {}

  void func(const PrimFunc& f);
  void body(const Stmt& s);  // each statement on lines of its own
  void expr(const Expr& e, int min_precedence = kOpen);

  std::string take_text() { return std::move(out_); }
  std::unordered_map<const void*, Span> take_spans() { return std::move(spans_); }

 private:
  // A variable's name on the current path; given back when the scope ends.
  class Binding {
   public:
    Binding(Printer& printer, const Var& v, std::string name);
    ~Binding();
    Binding(const Binding&) = delete;
    Binding& operator=(const Binding&) = delete;

   private:
    Printer& printer_;
    const VarNode* var_;
    std::string name_, shadowed_;
  };
  // While it lives, arithmetic prints without spaces: indices, extents, bindings.
  struct Compact {
    explicit Compact(Printer& p) : printer(p), before(p.compact_) { p.compact_ = true; }
    ~Compact() { printer.compact_ = before; }
    Printer& printer;
    bool before;
  };

  void statement(const Stmt& s);
  void loops(const Stmt& s, bool continues = false);
  void block(const Stmt& s, const Block& b);
  void if_chain(const Stmt& s, const If& i);
  void init(const Stmt& s);
  void nested(const Stmt& body);  // "{", the body indented, "}"
  void decl(const BufferDecl& d);
  void layout(const IndexMap& map);
  void annotations(const Annotations& annotations);
  void destination(const Buffer& b, const std::vector<Expr>& indices, const Expr& mask);

  void node(const Expr& e);
  void binary(const Binary& b);
  void unary(const Unary& u);
  void call(const Call& c, Type type);
  void list(const std::vector<Expr>& items, const char* separator);

  std::string variable(const Var& v);
  std::string fresh_variable(const Var& v, bool keep_name);
  std::string buffer(const Buffer& b);
  std::string block_name(const BlockId& id);
  static std::string unique(std::string_view wanted, const std::unordered_set<std::string>& taken);

  void put(std::string_view text) { out_ += text; }
  void begin_line();
  void end_line();
  size_t mark() const { return out_.size(); }
  void span(const void* node, size_t from);

  Options options_;
  std::string out_;
  size_t line_start_ = 0;
  int line_ = 1;
  int indent_ = 0;
  bool compact_ = false;
  int canonical_vars_ = 0;
  std::unordered_map<const void*, Span> spans_;
  std::unordered_map<const VarNode*, std::string> var_names_;
  std::unordered_map<const BufferNode*, std::string> buffer_names_;
  std::unordered_map<const BlockIdNode*, std::string> block_names_;
  std::unordered_set<std::string> used_vars_, used_buffers_, used_blocks_;
  std::vector<Var> dims_;
};

}  // namespace nestor
