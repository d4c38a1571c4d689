// Type rules of single nodes, apart from where names are visible (check.cpp). Private to src/ir.
#pragma once

#include <string>

#include "nestor/ir.h"

namespace nestor {

// What is wrong with the node's own types, its children being fine; "" where nothing is.
std::string type_problem(const Expr& e);
std::string type_problem(const Stmt& s);

}  // namespace nestor
