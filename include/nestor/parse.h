// Parsing of the text form. Errors are UserError with file, line, column and caret.
#pragma once

#include <string_view>
#include <vector>

#include "nestor/ir.h"

namespace nestor {

PrimFunc parse_func(std::string_view text, std::string file = "<text>");  // exactly one function
std::vector<PrimFunc> parse_funcs(std::string_view text, std::string file = "<text>");
Expr parse_expr(std::string_view text, const std::vector<Var>& vars, std::string file = "<text>");

// Stores that say what an update says, Y[vi] = Y[vi] + x (or x + Y[vi]; *, max, min) in a block whose
// reduction iterators don't move the element, become updates: Y[vi] += x.
PrimFunc read_updates(const PrimFunc& f);

}  // namespace nestor
