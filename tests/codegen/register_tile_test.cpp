// Register tiles of matrix products stay in registers: seen in the assembly, since their speed depends on it.
#include <regex>
#include <sstream>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/measure.h"

using namespace nestor;

namespace {

Expr at(const Buffer& b, const Expr& i, int lanes) {
  return make::load(b, {make::ramp(i, 1, lanes)});
}

// C[rows, vectors*lanes] += A[rows, 512] * B[512, vectors*lanes], the k loop around an unrolled tile.
PrimFunc tile(int rows, int vectors, int lanes) {
  const int64_t depth = 512, width = vectors * lanes;
  Buffer a = make_buffer("A", {DType::f32}), b = make_buffer("B", {DType::f32}),
         c = make_buffer("C", {DType::f32});
  Buffer acc = make_buffer("T", {DType::f32, lanes});
  Var k = make_var("k");
  std::vector<Stmt> zero, step, out;
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      const Expr slot = r * vectors + v;
      zero.push_back(make::store(acc, {slot}, make::imm(0, {DType::f32, lanes})));
      Expr x = make::broadcast(make::load(a, {Expr(r * depth) + k}), lanes);
      Expr y = at(b, Expr(k) * width + v * lanes, lanes);
      step.push_back(make::store(acc, {slot}, make::call(Intrinsic::fma, {x, y, make::load(acc, {slot})})));
      out.push_back(make::store(c, {make::ramp(r * width + v * lanes, 1, lanes)}, make::load(acc, {slot})));
    }
  Stmt body = make::seq({make::seq(zero), make::loop(k, depth, make::seq(step)), make::seq(out)});
  return {"tile",
          {},
          {{Role::in, {a, {rows * depth}, Scope::global, {}}},
           {Role::constant, {b, {depth * width}, Scope::global, {}}},
           {Role::out, {c, {rows * width}, Scope::global, {}}}},
          {},
          make::alloc({acc, {rows * vectors}, Scope::local, {}}, body)};
}

// Instructions of the k loop: from its label to the last jump back to it.
std::vector<std::string> inner_loop(const std::string& assembly) {
  std::vector<std::string> lines;
  std::istringstream in(assembly);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch m;
    if (!std::regex_search(lines[i], m, std::regex("^(\\.LBB\\S+):"))) continue;
    for (size_t j = i + 1; j < lines.size() && lines[j].find("retq") == std::string::npos; ++j)
      if (lines[j].find("\tj") == 0 && lines[j].find(m[1].str()) != std::string::npos)
        return {lines.begin() + static_cast<long>(i) + 1, lines.begin() + static_cast<long>(j)};
  }
  return {};
}

}  // namespace

TEST_CASE("a register tile does not spill in its inner loop") {
  struct Shape {
    const char* target;
    int rows, vectors, lanes;
  };
  for (const Shape& s : {Shape{"x86-64-v4", 14, 2, 16}, Shape{"x86-64-v4", 6, 4, 16},
                         Shape{"x86-64-v3", 6, 2, 8}, Shape{"x86-64-v4", 28, 1, 16}}) {
    const std::string assembly = emit_asm({tile(s.rows, s.vectors, s.lanes)}, parse_target(s.target));
    const std::vector<std::string> loop = inner_loop(assembly);
    INFO(s.target << " " << s.rows << "x" << s.vectors);
    int fmas = 0, others = 0;
    for (const std::string& line : loop) {
      INFO(line);
      CHECK(line.find("rsp") == std::string::npos);
      fmas += line.find("vfmadd") != std::string::npos;
      others += line.find("\t") == 0 && line.find("vfmadd") == std::string::npos;
    }
    CHECK(fmas == s.rows * s.vectors);
    // One broadcast a row, one load a vector, and a few for addresses and the counter.
    CHECK(others <= s.rows + s.vectors + 6);
  }
}

TEST_CASE("the measured peaks are numbers") {
  CHECK(measure_fma_peak_gflops(2) > 0.1);
  CHECK(measure_copy_gbs(1 << 20) > 0.01);
}
