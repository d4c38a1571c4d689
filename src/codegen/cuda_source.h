// The writer of one kernel's source text, and the helper functions that the text of several kernels may call.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "nestor/print.h"
#include "nestor/simplify.h"
#include "src/codegen/cuda_kernels.h"

namespace nestor {

// Names of helper functions that were used; the text of those, in a fixed order.
using CudaHelpers = std::set<std::string>;
std::string helper_text(const CudaHelpers& used);

const char* cuda_name(DType t);  // of a type, in C++
bool is_half(DType t);           // f16 or bf16, of which code has the bits

// Precedences of C++, higher binds tighter.
enum CudaPrecedence {
  kTernary = 2,
  kOr = 3,
  kAnd = 4,
  kBitOr = 5,
  kBitXor = 6,
  kBitAnd = 7,
  kEqual = 8,
  kLess = 9,
  kShift = 10,
  kAdd = 11,
  kMul = 12,
  kUnary = 14,
  kPrimary = 16
};

// A piece of an expression, with the precedence of its outermost operator, so that only needed parentheses
// are written.
struct CudaText {
  std::string text;
  int precedence = kPrimary;
};

class CudaWriter {
 public:
  // `printed`: the lowered function's text, if one wants to know which line of it each line written comes
  // from.
  CudaWriter(const KernelPart& part, CudaHelpers& helpers, const Printed* printed);
  std::string write();
  const std::vector<int>& lines() const { return lines_; }  // of what write() gave; 0: of no line
  bool waits() const { return waits_; }                     // threads for one another, in what write() gave

 private:
  // cuda_stmt.cpp
  std::string signature();
  void stmt(const Stmt& s);
  void node(const Stmt& s);
  void loop(const For& f);
  bool is_unrolled(const For& f) const;
  void thread_loop(const For& f);
  std::string block_index(size_t axis) const;
  void instruction(const Call& c);
  void store(const Store& s);
  void require_all_threads(const Buffer& b) const;
  void declare_buffer(const BufferDecl& d);
  void line(const std::string& text);
  // A line that opens a brace, and what stands inside; names declared there are free again afterwards.
  void nested(const std::string& open, const std::function<void()>& inside);
  std::string new_name(const std::string& wanted);
  std::string bind(const Var& v);
  bool fits_int() const;

  // cuda_expr.cpp
  std::string expr(const Expr& e) { return text_of(e).text; }
  std::string operand(const Expr& e, int precedence);  // in parentheses where its operator binds weaker
  CudaText text_of(const Expr& e);
  CudaText number(double value, Type t) const;
  CudaText integer(int64_t value, Type t) const;
  CudaText binary(const Binary& b, Type t);
  CudaText divide(const Binary& b, Type t);
  CudaText wrapped(const char* op, int precedence, const Expr& a, const Expr& b, DType t);
  CudaText select(const Select& s, Type t);
  CudaText lazy(const Binary& b);
  CudaText helper(const std::string& name, const std::vector<Expr>& args, const std::string& type = "");
  std::string element(const Buffer& b, const std::vector<Expr>& indices);
  void let(const Var& v, const Expr& value);
  const char* type_name(const Expr& e) const;
  bool is_index(const Expr& e) const;
  bool may_wrap(const Expr& e) const;

  // cuda_vectors.cpp
  CudaText lane(const Shuffle& s);
  CudaText vector(const Expr& e);
  std::string vector_at(const Buffer& b, const Expr& index, bool constant);
  static std::string vector_name(Type t);

  // cuda_call.cpp
  CudaText cast(const Cast& c, Type t);
  CudaText bitcast(const Expr& a, DType to);
  CudaText lookup(const Call& c);
  CudaText call(const Call& c, Type t);

  CudaText shuffle(const Call& c, Type t);  // cuda_shuffle.cpp

  const KernelPart& part_;
  CudaHelpers& helpers_;
  const Printed* printed_;
  std::string out_;
  std::vector<int> lines_;
  int here_ = 0;  // the line of the statement that is being written
  int indent_ = 1;
  bool in_index_ = false;
  bool narrow_ = false;  // index arithmetic fits in int
  bool waits_ = false;
  int64_t shared_ = 0;  // bytes of dynamic shared memory given out so far
  Facts facts_;
  std::vector<ThreadTag> inside_;
  std::unordered_map<Buffer, std::string> buffers_;
  std::unordered_map<Buffer, Scope> scopes_;
  std::unordered_map<Var, std::string> vars_;
  std::unordered_set<Var> wide_;  // i64 variables that hold data, not an index
  std::unordered_set<std::string> taken_;
};

}  // namespace nestor
