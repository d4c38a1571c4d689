// The space that is searched: a trace with decisions (its sample_* steps). The analytic default is one point
// in it.
#pragma once

#include <random>

#include "nestor/schedule.h"

namespace nestor {

// How many decisions the trace has open.
size_t decisions_in(const PrimFunc& f, const Trace& trace);

// The trace with its open decisions drawn, so that it applies. Throws ScheduleError where no draw does that.
Trace legal_decisions(const PrimFunc& f, const Trace& trace, std::mt19937_64& rng);

// A value of a sample_choice that no search will try: with it, and the other decisions as they stand, a step
// is refused.
struct IllegalChoice {
  SourceLoc loc;  // of the sample_choice
  std::string name, value, why;
};
// Open decisions are drawn first; none is told where no draw makes a trace that applies.
std::vector<IllegalChoice> illegal_choices(const PrimFunc& f, const Trace& trace);

// Whether the traces are the same but for their decisions.
bool same_space(const Trace& a, const Trace& b);

// "gemm rows=4 width=32": the family and the decisions of its trace, one line.
std::string describe(const std::string& family, const Trace& trace);

// A neighbour: some decisions drawn again. nullopt where the trace has none, or the drawn values don't apply
// to f.
std::optional<Trace> mutate(const PrimFunc& f, const Trace& trace, std::mt19937_64& rng);

// Each decision from one of two parents.
std::optional<Trace> crossover(const PrimFunc& f, const Trace& a, const Trace& b, std::mt19937_64& rng);

}  // namespace nestor
