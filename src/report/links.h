// Which loops of a scheduled function a line of its lowered text comes from. Lowering keeps serial and
// parallel loops, but vectorized and unrolled ones are gone: their lines are the statements that came of the
// blocks inside them. A lowered statement is traced to its blocks by the buffer it writes and the kept loops
// around it. Where that fits several blocks (two that write one buffer under the same loops) the line belongs
// to all of them.
#pragma once

#include <vector>

#include "nestor/codegen.h"
#include "nestor/ir.h"

namespace nestor::report {

// For each line of print(lowered): indices into loops_in(scheduled.body), ascending, so that outer loops come
// first.
std::vector<std::vector<int>> link_lines(const PrimFunc& scheduled, const PrimFunc& lowered);

// The loops of machine code whose instructions have lines of the lowered text, by the result of link_lines.
// What has no line (moved by LLVM, or made by it) belongs to the loops that the code before and after it
// share.
std::vector<std::vector<int>> link_code(const std::vector<CodeLine>& code,
                                        const std::vector<std::vector<int>>& lines);

}  // namespace nestor::report
