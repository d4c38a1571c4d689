// A step of a register tile's reduction is some twenty multiply-adds, and three micro-operations that count,
// compare and jump. A core that takes up few micro-operations a cycle has hardly any left for those, less so
// where its other thread takes half, and what stands behind a jump waits for the next cycle. So a body is two
// steps. (Cascade Lake, beside a busy other thread: 64^3 9 % less time, 256^3 4, 12 times 128x64x128 6; alone
// 0 to 2; attention of heads of 112 to 256 elements 4 to 6, alone 1. Four steps are no faster, eight 5 %
// slower.)
//
// LLVM then has loads of the second step among the first's multiply-adds, for which registers must be left:
// else it spills (128x768x3072 by 9 x 3 vectors, 31 of 32 registers, 40 % more time); not so of 16 registers,
// of tiles of 4 x 3 and 6 x 2 (AVX2, 1024^3: 10 to 14 % less time for two steps), but of those of one vector
// even where some are left (12 x 1: a fifth to two thirds more). Beside part of a vector, half as long, it
// always does: accumulators change places between the steps (500x300x40 2.3 times the time).
#include <fmt/format.h>

#include "schedules/library/planner.h"

namespace nestor::library {

void two_steps(Schedule& s, const std::string& block, const Tile& t, const std::string& loop,
               const Target& target) {
  if (!t.vector) return;
  const int64_t lanes = lanes_of(analyze(s.func(), block), target);
  if (!ends_in_part(t.vector->extent, t.width, lanes))
    two_steps(s, block, t.rows, ceil_div(t.width, lanes) * t.columns, loop, target);
}

void two_steps(Schedule& s, const std::string& block, int64_t rows, int64_t vectors, const std::string& loop,
               const Target& target) {
  constexpr int64_t kLeastSteps = 32;  // 16 steps: 4 % more time
  if (!may_have_two_steps(vectors, target) || extent_of(s, block, loop) < kLeastSteps) return;
  if (rows * vectors + vectors + 1 + spare_for_two_steps(target) > target.vector_registers) return;
  Schedule two = s;
  two.because(fmt::format("a step's {} micro-operations of its own are paid once for two", kOfTheLoop));
  if (!two.try_step(fmt::format("{0}p {0}s = split {1}.{0} [_, 2] tail=peel", loop, block))) return;
  if (two.try_step(fmt::format("unroll {}.{}s", block, loop))) s = two;
}

}  // namespace nestor::library
