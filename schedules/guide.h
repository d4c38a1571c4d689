// The primitives grouped by purpose, with when to use each and what others call it: for the manual, the
// terminal and Python.
#pragma once

#include <string>
#include <vector>

namespace nestor::schedules {

struct Advice {
  const char* primitive;
  const char* when;
  const char* tvm;     // methods of tvm.tir.Schedule, as Markdown; "" where there is none
  const char* halide;  // of Halide's Func and Stage, likewise
};
struct Group {
  const char* title;
  std::vector<Advice> primitives;
};
const std::vector<Group>& guide();  // each primitive of the table once, which a test checks
const Advice& advice_on(const std::string& primitive);

}  // namespace nestor::schedules
