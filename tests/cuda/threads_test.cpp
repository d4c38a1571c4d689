// Reductions over the threads of a block: parts of a warp, warps and several warps a row, of all operations
// and types. Each is right as emitted, and wrong as soon as any one of its shuffles or barriers is taken
// away.
#include <fmt/format.h>

#include "catch.h"
#include "check.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

// Rows of X reduced by `op`.
std::string rows(int64_t m, int64_t n, const std::string& type, const std::string& op,
                 const std::string& init) {
  return fmt::format(
      "func f(in X: {2}[{0},{1}], out Y: {2}[{0}]) {{\n"
      "  for i in {0}, k in {1} {{\n"
      "    block Y(vi: S {0} = i, vk: R {1} = k) {{\n"
      "      init {{ Y[vi] = {4} }}\n"
      "      Y[vi] {3} X[vi,vk]\n"
      "    }}\n  }}\n}}\n",
      m, n, type, op, init);
}

// So many threads a row, `side` rows a block.
std::string by_threads(int64_t threads, int64_t side) {
  return fmt::format(
      "i0 i1 = split Y.i [_, {1}]\n"
      "k0 k1 = split Y.k [_, {0}]\n"
      "reorder Y (i0 i1 k1 k0)\n"
      "Y_part = reduce_threads Y.k1\n"
      "bind Y_part.i0 blockIdx.x\n"
      "bind Y_part.i1 threadIdx.y\n",
      threads, side);
}

CudaCase case_of(const std::string& name, const std::string& func, const std::string& steps) {
  PrimFunc f = parse_func(func);
  f.name = name;
  return make_case(f, apply(f, parse_trace(steps)));
}

std::vector<size_t> places_of(const std::string& text, const std::string& what) {
  std::vector<size_t> out;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) out.push_back(at);
  return out;
}

}  // namespace

TEST_CASE("rows are reduced by parts of a warp, by a warp and by several") {
  std::vector<CudaCase> cases;
  for (const int64_t threads : {2, 8, 32, 64, 256, 1024})
    for (const int64_t n : {2, 10, 300, 2051})
      cases.push_back(case_of(fmt::format("sum{}_{}", threads, n), rows(5, n, "f32", "+=", "0.0f32"),
                              by_threads(threads, 1)));
  for (const auto& [threads, side] : {std::pair{4, 16}, {16, 3}, {32, 4}, {64, 4}, {128, 2}})
    cases.push_back(case_of(fmt::format("sums{}_{}", threads, side), rows(7, 150, "f32", "+=", "0.0f32"),
                            by_threads(threads, side)));
  check_cases(cases, 2e-5);
}

TEST_CASE("every operation and type can be reduced over threads") {
  std::vector<CudaCase> cases;
  int number = 0;
  for (const int64_t threads : {16, 64}) {
    const auto add = [&](const char* type, const char* op, const char* init) {
      cases.push_back(
          case_of(fmt::format("kind{}", number++), rows(3, 77, type, op, init), by_threads(threads, 2)));
    };
    add("f32", "max=", "-inf_f32");
    add("f32", "min=", "0.25f32");
    add("f64", "+=", "1.0f64");
    add("f64", "*=", "1.0f64");
    add("i64", "max=", "-5i64");
    add("i32", "+=", "0i32");
    add("i32", "*=", "1i32");
    add("i16", "min=", "7i16");
    add("i8", "+=", "0i8");
    add("u8", "max=", "0u8");
  }
  check_cases(cases);
}

TEST_CASE("each thread has the result, and an init that was decomposed stays") {
  const std::string softmax = R"(func f(in X: f32[6,200], out Y: f32[6,200]) {
  alloc Sum: f32[6] local
  for i in 6 {
    for j in 200 {
      block Sum(vi: S 6 = i, vj: R 200 = j) {
        init { Sum[vi] = 1.0f32 }
        Sum[vi] += X[vi,vj]
      }
    }
    for j in 200 {
      block Y(vi: S 6 = i, vj: S 200 = j) {
        Y[vi,vj] = X[vi,vj] / Sum[vi]
      }
    }
  }
})";
  std::vector<CudaCase> cases;
  for (const int threads : {8, 32, 128}) {
    const std::string steps = fmt::format(
        "k0 k1 = split Sum.j [_, {0}]\nreorder Sum (k1 k0)\nSum_part = reduce_threads Sum.k1\n"
        "j0 j1 = split Y.j [_, {0}]\nbind Y.j1 threadIdx.x\nbind Y.i blockIdx.x\n",
        threads);
    cases.push_back(case_of(fmt::format("row{}", threads), softmax, steps));
    cases.push_back(
        case_of(fmt::format("apart{}", threads), softmax, "Sum_init = decompose_reduction Sum.j\n" + steps));
  }
  check_cases(cases, 1e-4);
}

TEST_CASE("no shuffle and no barrier of a reduction over threads is redundant") {
  for (const int threads : {8, 256}) {
    const CudaCase c = case_of("sum", rows(5, 700, "f32", "+=", "0.0f32"), by_threads(threads, 1));
    for (const std::string what : {"__shfl_xor_sync(", "__syncthreads();"})
      for (const size_t at : places_of(c.program.source, what)) {
        CudaProgram without = c.program;
        std::string& text = without.source;
        if (what[2] == 's' && what[3] == 'y')
          text.erase(at, what.size());
        else
          text.replace(at, text.find(';', at) - at, "0.0f");
        INFO(text);
        CHECK(emulate(Emulator({without}), c, without) != "");
      }
  }
}

TEST_CASE("what can't be a tree of threads is refused when it is lowered") {
  const auto refusal = [](const std::string& func, const std::string& steps) -> std::string {
    try {
      case_of("f", func, steps);
    } catch (const ScheduleError& e) {
      return e.diagnostic().message;
    }
    return "";
  };
  const std::string sum = rows(5, 96, "f32", "+=", "0.0f32");
  const std::string tree = "k0 k1 = split Y.k [_, 32]\nreorder Y (k1 k0)\nY_part = reduce_threads Y.k1\n";
  CHECK(refusal(sum, tree + "a b = split Y.k1 [_, 4]\n") ==
        "loop `a` reduces over threads, and its block Y isn't over it alone");
  CHECK(refusal(sum, tree + "bind Y_part.i threadIdx.x\n") != "");
}
