#include "tests/fuzz/equivalence.h"

#include <cmath>
#include <random>

#include "nestor/error.h"
#include "nestor/nest_file.h"

namespace nestor {

PrimFunc at_sizes(const PrimFunc& f, const std::vector<int64_t>& dims) {
  NESTOR_CHECK(f.dims.size() == dims.size()) << f.name << " has " << f.dims.size() << " dimensions";
  VarMap values;
  for (size_t i = 0; i < dims.size(); ++i) values[f.dims[i]] = Expr(dims[i]);
  return with_dims(f, values);
}

std::vector<Tensor> exact_args(const PrimFunc& f, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<Tensor> args = random_args(f, seed);
  for (size_t i = 0; i < args.size(); ++i) {
    if (f.params[i].role == Role::out) continue;
    const bool real = is_float(args[i].dtype());
    for (int64_t k = 0; k < args[i].size(); ++k)
      if (real)
        args[i].set(k, static_cast<double>(rng() % 9) - 4);
      else
        args[i].set_int(k, static_cast<int64_t>(rng() % (is_bool(args[i].dtype()) ? 2 : 4)));
  }
  return args;
}

std::vector<Tensor> real_args(const PrimFunc& f, uint64_t seed) {
  std::vector<Tensor> args = exact_args(f, seed);
  for (Tensor& t : args)
    if (is_float(t.dtype())) {
      const Tensor noise = Tensor::random(t.dtype(), t.shape(), ++seed);
      for (int64_t k = 0; k < t.size(); ++k) t.set(k, t.get(k) + noise.get(k));
    }
  return args;
}

std::vector<Tensor> run_original(const PrimFunc& f, uint64_t seed) {
  std::vector<Tensor> args = exact_args(f, seed);
  interpret(f, args);
  return args;
}

Agreement compare_outs(const PrimFunc& f, const std::vector<Tensor>& expected, const std::vector<Tensor>& got,
                       double tolerance) {
  for (size_t i = 0; i < f.params.size(); ++i) {
    if (f.params[i].role != Role::out) continue;
    for (int64_t k = 0; k < expected[i].size(); ++k) {
      const double a = expected[i].get(k), b = got[i].get(k);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * (1 + std::abs(a)))
        continue;
      return {false, f.params[i].decl.buffer->name + "[" + std::to_string(k) + "] is " + std::to_string(b) +
                         ", was " + std::to_string(a)};
    }
  }
  return {};
}

Agreement compare_runs(const PrimFunc& after, const std::vector<Tensor>& expected, uint64_t seed,
                       double tolerance) {
  std::vector<Tensor> args = exact_args(after, seed);
  InterpretOptions options;
  options.check_races = true;
  options.order = LoopOrder::random;
  options.seed = seed;
  try {
    interpret(after, args, options);
  } catch (const Error& e) {
    return {false, e.what()};
  }
  return compare_outs(after, expected, args, tolerance);
}

}  // namespace nestor
