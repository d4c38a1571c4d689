// Compares a compiled function with a reference on seeded random inputs.
#include "nestor/device.h"
#include "nestor/halide.h"
#include "nestor/instruction.h"
#include "nestor/interpret.h"
#include "nestor/layout.h"
#include "nestor/passes.h"
#include "src/driver/oracle.h"
#include "src/passes/thread_tree.h"

namespace nestor {

namespace {

bool is_out(const PrimFunc& f, size_t i) {
  return f.params[i].role == Role::out;
}

std::vector<Tensor> inputs_of(const PrimFunc& f, const std::vector<Tensor>& args) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < args.size(); ++i)
    if (!is_out(f, i)) out.push_back(args[i]);
  return out;
}

std::vector<Tensor> interpreted(const PrimFunc& f, std::vector<Tensor> args) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < args.size(); ++i)
    if (is_out(f, i)) out.push_back(args[i] = args[i].clone());
  interpret(f, args);
  return out;
}

// What a machine instruction works on is in memory where its block's loops work on it one by one.
PrimFunc without_registers(PrimFunc f) {
  for (BufferDecl& d : f.allocs)
    if (d.scope == Scope::local) d.scope = Scope::global;
  return f;
}

// Lowered functions take flat, packed parameters. A machine instruction is what its block says.
std::vector<Tensor> interpreted_lowered(const CompiledFunction& f, const std::vector<Tensor>& args,
                                        const Target& target) {
  std::vector<Tensor> flat, out;
  for (size_t i = 0; i < args.size(); ++i) {
    const BufferDecl& decl = f.scheduled.params[i].decl;
    const Tensor t = is_out(f.func, i) ? args[i].clone() : decl.layout ? pack(args[i], decl) : args[i];
    flat.push_back(t.reshaped({t.size()}));
  }
  PrimFunc plain = without_instructions(f.scheduled);
  if (target.kind == TargetKind::cuda) plain = passes::without_thread_trees(plain);
  interpret(plain.body.same_as(f.scheduled.body) ? f.lowered : lower(without_registers(plain), target), flat);
  for (size_t i = 0; i < flat.size(); ++i)
    if (is_out(f.func, i)) out.push_back(flat[i].reshaped(args[i].shape()));
  return out;
}

std::vector<Tensor> by_halide(const PrimFunc& f, const std::vector<Tensor>& args) {
  std::vector<Tensor> out;
  std::vector<void*> pointers;
  for (size_t i = 0; i < args.size(); ++i) {
    Tensor t = args[i];
    if (is_out(f, i)) out.push_back(t = args[i].clone());
    pointers.push_back(t.data());
  }
  HalideFunction(f, "none").run(pointers.data());
  return out;
}

// In bounds on rounding: the oracle isn't rounded, the interpreter is as the function is, in an order of its
// own; Halide's exp is another besides.
double allowance(Against against) {
  return against == Against::halide ? 4 : against == Against::interpreter ? 2 : 1;
}

Comparison compare(const Tensor& got, const Tensor& want, const Oracle& oracle, size_t output,
                   double factor) {
  const Tensor& bound = oracle.bounds.at(output);
  return bound.defined() ? compare(got, want, bound, factor) : compare(got, want);
}

}  // namespace

namespace {

std::vector<OutputCheck> check_by(const FunctionRun& run, const CompiledFunction& f, Against against,
                                  const Target& target, uint64_t seed) {
  const std::vector<Tensor> args = random_args(f.func, seed), inputs = inputs_of(f.func, args);
  const std::vector<Tensor> got = run(f, inputs);
  std::optional<Oracle> oracle;
  std::vector<Tensor> want;
  if (against != Against::lowered)
    want = (oracle = make_oracle(f.func, inputs, oracle_target(target)))->wanted;
  if (against == Against::halide)
    want = by_halide(f.func, args);
  else if (against == Against::interpreter)
    want = interpreted(f.func, args);
  else if (against == Against::lowered)
    want = interpreted_lowered(f, args, target);
  std::vector<OutputCheck> out;
  for (size_t i = 0; i < got.size(); ++i) {
    OutputCheck c;
    c.name = got.size() > 1 ? f.func.name + "#" + std::to_string(i) : f.func.name;
    c.want = want[i];
    c.comparison = oracle ? compare(got[i], want[i], *oracle, i, allowance(against))
                          : compare(got[i], want[i], Tolerance{0, 0});
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace

std::vector<OutputCheck> check_function(const CompiledFunction& f, Against against, const Target& target,
                                        uint64_t seed) {
  const auto run = [&](const CompiledFunction& g, const std::vector<Tensor>& inputs) {
    return run_function(g, inputs, target);
  };
  return check_by(run, f, against, target, seed);
}

std::vector<OutputCheck> check_function(const CompiledFunction& f, Against against, const Target& target,
                                        const Device& device, uint64_t seed) {
  const auto run = [&](const CompiledFunction& g, const std::vector<Tensor>& inputs) {
    return device.run(g, inputs);
  };
  return check_by(run, f, against, target, seed);
}

}  // namespace nestor
