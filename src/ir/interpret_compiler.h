// The compiler's state; expressions and memory in interpret_compile_expr.cpp, statements in
// interpret_compile.cpp.
#pragma once

#include <map>
#include <unordered_map>

#include "src/ir/interpret_code.h"

namespace nestor::interpreter {

class Compiler {
 public:
  explicit Compiler(const InterpretOptions& options) : options_(options) {}
  Code run(const PrimFunc& f);

 private:
  // Code and places
  int32_t fresh(int lanes);
  int32_t here() const { return static_cast<int32_t>(out_.code.size()); }
  int32_t emit(Instruction i);
  void land(int32_t jump) { out_.code[static_cast<size_t>(jump)].target = here(); }
  void compute(Handler fn, int32_t dst, int lanes, int32_t a, int32_t b = -1, int32_t c = -1);
  int32_t constant(Word w, int lanes);
  void place_constants();

  // Expressions: the place of the value
  int32_t expr(const Expr& e);
  void wrap(Type t, int32_t place);
  int32_t broadcast(const Expr& scalar, int n);
  int32_t binary(const Binary& b, Type t);
  int32_t select(const Select& s, int n);
  int32_t call(const Call& c, Type t);
  int32_t shuffle(const Shuffle& s, int n);
  int32_t lookup(const Call& c, Type t);

  // Memory
  int32_t slot_of(const Buffer& b) const;
  int32_t flat_index(int32_t buffer, const std::vector<Expr>& indices, int32_t mask);
  Instruction access(Op op, int32_t buffer, int32_t flat, int lanes, int32_t mask);
  int32_t load(const Load& l, int n, int32_t wanted = -1);
  int32_t shuffled(const Expr& e, const Shuffle& s, int64_t from);
  void store(const Buffer& b, const std::vector<Expr>& indices, const Expr& value, const Expr& mask_expr);
  void bind(const BufferDecl& d, int param, Role role);

  // Statements
  void stmt(const Stmt& s);
  void loop(const Stmt& s, const For& f);
  void block(const Block& b);
  void update(const Update& u);

  const InterpretOptions& options_;
  Code out_;
  std::unordered_map<Var, int32_t> vars_;
  std::unordered_map<Buffer, int32_t> buffers_;
  std::map<std::pair<Word, int>, int32_t> constants_;  // by value and lanes
  int32_t constant_words_ = 0;
  int32_t top_ = 0, site_ = 0;
  int loop_ = -1;
  bool in_threads_ = false;  // inside a thread loop that has barriers
};

}  // namespace nestor::interpreter
