// The first candidates of a search besides the default: the user's own schedules and templates, and what was
// fast for functions with the same structure.
#pragma once

#include <random>

#include "tuner/proposals.h"

namespace nestor {

// The user's schedules and the templates that match, with their decisions drawn where they are open. A
// template one of whose steps is refused is told of and left out.
std::vector<Decisions> own_decisions(const PrimFunc& f, const TuneOptions& options, std::mt19937_64& rng);

// The function's text without its name and its numbers.
std::string structure_of(const std::string& func);
// The plans that were fastest for functions of the same structure and other sizes, the nearest sizes first,
// as this function has them.
std::vector<Candidate> from_nearest(const PrimFunc& f, const Database& db, const Proposals& proposals,
                                    const TuneOptions& options);

}  // namespace nestor
