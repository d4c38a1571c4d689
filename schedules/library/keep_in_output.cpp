// What a row's passes hand on, softmax's exponentials, waits in the output. In memory of its own it would
// pass through the caches beside the output, whose lines would then come while there is nothing to do but to
// copy; src/passes/keep_in_output.cpp has what that costs.
#include <fmt/format.h>

#include "schedules/library/planner.h"

namespace nestor::library {

bool keep_in_output(Schedule& s, const std::string& root) {
  const BlockInfo b = analyze(s.func(), root);
  if (b.reduction || !b.output_is_param || !readers_of(s.func(), b.output).empty() ||
      writers_of(s.func(), b.output).size() != 1)
    return false;
  const Access* out = nullptr;
  for (const Access& a : b.accesses)
    if (a.write) out = &a;
  for (const Access& a : b.accesses) {
    const std::vector<std::string> writers = writers_of(s.func(), a.buffer);
    if (a.write || writers.size() != 1 || analyze(s.func(), writers[0]).reduction) continue;
    bool alike = a.buffer->type == b.output->type && a.indices.size() == out->indices.size() &&
                 a.elements == out->elements;
    for (size_t d = 0; alike && d < a.indices.size(); ++d) {
      const auto *x = a.indices[d].as<VarRef>(), *y = out->indices[d].as<VarRef>();
      alike = x && y ? x->var == y->var : as_int(a.indices[d]) == 0 && as_int(out->indices[d]) == 0;
    }
    if (!alike) continue;
    s.because(
        fmt::format("{0} is stored in {1}: the lines of {1} are fetched while {0} is computed, and the "
                    "caches hold nothing else",
                    a.buffer->name, b.output->name));
    s(fmt::format("annotate {} in_place={}", root, a.buffer->name));
    return true;
  }
  return false;
}

}  // namespace nestor::library
