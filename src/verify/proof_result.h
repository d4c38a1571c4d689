// What the parts of the proof share: how a part fails, and how a point is printed.
#pragma once

#include "nestor/proof.h"
#include "src/verify/proof_model.h"

namespace nestor::verify {

// Ends the proof.
struct Failure {
  Verdict verdict = Verdict::wrong;
  std::string reason;
  std::string witness;
  std::vector<const void*> at = {};  // nodes of the function at fault
};

// The n-th copy of a statement: its variables but those of the first `shared` loops, which all copies share.
Renaming copy_of(const Statement& s, const Set& set, int n, size_t shared);

// "i=3,k=0", the loops around the statement's n-th copy that run more than once; "" where there are none.
std::string loops_at(const Statement& s, const Point& p, int n = 0, size_t shared = 0);
// "block T at i=3,k=0"
std::string instance_at(const Statement& s, const Point& p, int n = 0, size_t shared = 0);
// "with N=5, M=1: ", the values of symbolic dimensions; "" where there are none.
std::string sizes_at(const Model& m, const Point& p);
// "T[3,0]", the element of these indices; `_` for one that depends on data.
std::string element_at(const Buffer& b, const std::vector<std::optional<Lin>>& indices, const Point& p,
                       const Renaming& names = {});
std::string written_at(const Statement& s, const Point& p, int n = 0);
// The values of the block's iterators: "vi=3,vk=1".
std::string iterators_at(const Statement& s, const Point& p, int n = 0);

}  // namespace nestor::verify
