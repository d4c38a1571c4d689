// Targets of libFuzzer: each reads one kind of input that may come from outside, as the compiler does, and
// processes it as far as the parts that are built with sanitizers go. A UserError is fine. An InternalError,
// any other exception, a report of a sanitizer, and too much time or memory are findings. `./dev fuzz-inputs`
// runs them all; `./dev test` runs the kept corpus and a few thousand mutations (run.py).
#pragma once

#include <string>
#include <string_view>

#include "nestor/graph.h"
#include "nestor/ir.h"

namespace nestor::fuzz {

void read_input(std::string_view input);  // each target's own

// A file of these bytes, in an empty folder of this process; its path.
std::string as_file(const std::string& name, std::string_view bytes);

// Passes of the graph, fusion, and what follow() says of each function.
void follow(Graph g);
// A well-formed function prints as text that reads back as the same, and is lowered or refused.
void follow(const PrimFunc& f);

}  // namespace nestor::fuzz
