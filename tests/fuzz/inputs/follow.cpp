#include "nestor/check.h"
#include "nestor/error.h"
#include "nestor/flops.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/target.h"
#include "tests/fuzz/inputs/target.h"

namespace nestor {

// The compiler's own asks LLVM, which isn't linked here.
Target host_target() {
  Target t;
  t.name = "x86-64-v4";
  t.triple = "x86_64-unknown-linux-gnu";
  t.features = "+avx,+avx2,+fma,+avx512f,+avx512bw,+avx512vl,+avx512dq";
  return t;
}

}  // namespace nestor

namespace nestor::fuzz {

namespace {

// Values don't matter where they take long to compute.
std::vector<Tensor> evaluate(const PrimFunc& f, const std::vector<Tensor>& inputs) {
  constexpr double kInterpreted = 1e5;  // innermost statements
  if (work_of(f.body) <= kInterpreted) return evaluate_by_interpreter(f, inputs);
  std::vector<Tensor> outs;
  for (const Param& p : f.params) {
    if (p.role != Role::out) continue;
    std::vector<int64_t> shape;
    for (const Expr& e : p.decl.shape) shape.push_back(as_int(e).value());
    outs.emplace_back(p.decl.buffer->type.dtype, std::move(shape));
  }
  return outs;
}

}  // namespace

void follow(Graph g) {
  optimize(g, evaluate);
  for (const PrimFunc& f : partition(g).funcs) follow(f);
}

void follow(const PrimFunc& f) {
  const std::string text = print(f);
  try {
    check_well_formed(f);
    const std::string again = print(parse_func(text));
    NESTOR_CHECK(again == text) << "printed and read back:\n" << again << "\nand not\n" << text;
  } catch (const UserError& e) {
    NESTOR_CHECK(false) << "what we made isn't well formed or can't be read back: " << e.what() << "\n"
                        << text;
  }
  lower(f, host_target());
}

}  // namespace nestor::fuzz
