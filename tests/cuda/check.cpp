#include "check.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/layout.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "src/passes/thread_tree.h"

namespace nestor::testing {

namespace {

// The first element in which they differ; -1: none. Any NaN equals any NaN.
int64_t difference(const Tensor& a, const Tensor& b, double tolerance) {
  for (int64_t i = 0; i < a.size(); ++i) {
    if (!is_float(a.dtype())) {
      if (a.get_int(i) != b.get_int(i)) return i;
      continue;
    }
    const double x = a.get(i), y = b.get(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    const bool same = tolerance > 0 ? x == y || std::abs(x - y) <= tolerance * std::max(1.0, std::abs(x))
                                    : x == y && std::signbit(x) == std::signbit(y);
    if (!same) return i;
  }
  return -1;
}

std::vector<Tensor> copies(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(t.clone());
  return out;
}

std::string describe(const PrimFunc& f, const std::vector<Tensor>& wanted, const std::vector<Tensor>& got,
                     double tolerance) {
  for (size_t p = 0; p < wanted.size(); ++p) {
    const int64_t i = difference(wanted[p], got[p], tolerance);
    if (i >= 0)
      return f.name + ": " + f.params[p].decl.buffer->name + "[" + std::to_string(i) + "] is " +
             std::to_string(got[p].get(i)) + " instead of " + std::to_string(wanted[p].get(i));
  }
  return "";
}

}  // namespace

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  NESTOR_CHECK(in.good()) << "no file " << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::pair<PrimFunc, PrimFunc> example(const std::string& name) {
  const std::string path = NESTOR_SOURCE_DIR "/tests/cuda/" + name;
  const PrimFunc f = parse_func(read_text(path + ".nest"), name + ".nest");
  return {f, apply(f, parse_trace(read_text(path + ".sched"), name + ".sched"))};
}

bool has_nvrtc() {
  if (!cuda_status().nvrtc.empty()) return true;
  WARN("SKIPPED: no NVRTC on this machine");
  return false;
}

CudaCase make_case(const PrimFunc& func, const PrimFunc& scheduled, const Target& target) {
  LowerOptions options;
  options.check = true;
  CudaCase c{func, lower(scheduled, target, options), {}, {}, random_args(func, 1), {}};
  const PrimFunc plain = passes::without_thread_trees(scheduled);
  c.meant = plain.body.same_as(scheduled.body) ? c.lowered : lower(plain, target, options);
  c.program = make_cuda(c.lowered, target);
  for (size_t p = 0; p < c.inputs.size(); ++p) {
    const Tensor t = pack(c.inputs[p].clone(), scheduled.params[p].decl);
    c.lowered_inputs.push_back(t.reshaped({t.size()}));
  }
  return c;
}

std::string emulate(const Emulator& emulator, const CudaCase& c, const CudaProgram& program) {
  std::vector<Tensor> wanted = copies(c.lowered_inputs);
  interpret(c.meant, wanted);
  for (int run = 0; run < 5; ++run) {
    const LoopOrder order = run == 0 ? LoopOrder::forward : run == 1 ? LoopOrder::reverse : LoopOrder::random;
    std::vector<Tensor> got = copies(c.lowered_inputs);
    try {
      emulator.run(program, got, order, static_cast<uint64_t>(run));
    } catch (const UserError& e) {
      return e.what();
    }
    const std::string problem = describe(c.lowered, wanted, got, 0);
    if (!problem.empty()) return problem;
  }
  return "";
}

void check_cases(const std::vector<CudaCase>& cases, double tolerance) {
  std::vector<CudaProgram> programs;
  for (const CudaCase& c : cases) programs.push_back(c.program);
  const Emulator emulator(programs, Tracing::on);
  for (const CudaCase& c : cases) {
    INFO(print(c.lowered) << c.program.source);
    std::vector<Tensor> wanted = copies(c.inputs), got = copies(c.lowered_inputs);
    interpret(c.func, wanted);
    InterpretOptions options;
    options.check_races = true;
    interpret(c.meant, got, options);
    for (size_t p = 0; p < got.size(); ++p)
      if (c.func.params[p].role == Role::constant)
        got[p] = wanted[p];  // it may be packed; who writes it is seen below
    CHECK(describe(c.func, wanted, got, tolerance) == "");
    CHECK(emulate(emulator, c, c.program) == "");
  }
}

}  // namespace nestor::testing
