// Guesses which terms of two reductions are equal.
#pragma once

#include "src/verify/proof_match.h"

namespace nestor::verify {

// Terms of one form: an expression at all points of a set.
struct Family {
  Term term;
  std::vector<V> instance;  // tell the terms of one reading apart
  Set where;                // over the readers' variables, `instance`, and the term's frame
};

// Linear equations, between variables that `defined` may add.
struct Guess {
  std::vector<Lin> equal;
  Set defined;
};

// Iterators of the same name are equal; those of S only where `spatial`.
Guess guess_by_names(Sets& home, const Family& b, const Family& a, bool spatial);

// Loads of the same inputs, met in the same places of both expressions, are of the same elements; so are,
// with `temporaries`, those of what reductions make.
Guess guess_by_loads(Matcher& m, const Family& b, const Family& a, bool temporaries);

}  // namespace nestor::verify
