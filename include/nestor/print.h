// The text form of the IR, the product's face: it prints at every stage, lowered or not, and parses back
// (parse.h). parse(print(f)) is structurally f, and printing that gives the same bytes. Names that clash get
// a suffix.
#pragma once

#include <string>
#include <unordered_map>

#include "nestor/ir.h"

namespace nestor {

std::string print(const PrimFunc& f);
std::string print(const Stmt& s);
std::string print(const Expr& e);

struct Span {
  int line = 0, column = 0, length = 0;  // from 1
};
struct Printed {
  std::string text;
  std::unordered_map<const void*, Span> spans;  // by ExprNode* / StmtNode*; For and Block: their header
};
Printed print_with_spans(const PrimFunc& f);

// The function with the given nodes (ExprNode* or StmtNode*) underlined by ^~~~, for error notes; long
// functions are cut to the lines around what is marked.
std::string print_marked(const PrimFunc& f, const std::vector<const void*>& marked);

// What the tuning database keys on: 32 hex digits over the text of f without the names of the function, its
// buffers, iterators and lets (block and loop names count, traces refer to them). The same on every platform.
std::string workload_key(const PrimFunc& f);

}  // namespace nestor
