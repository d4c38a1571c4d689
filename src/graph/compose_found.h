// Operators whose result's size depends on values of run time (compose_found.cpp).
#pragma once

#include "src/graph/compose.h"

namespace nestor {

void find_places(Composer& c);      // NonZero
void find_compressed(Composer& c);  // Compress
void find_unique(Composer& c);      // Unique, of a list or of all elements
void find_kept_boxes(Composer& c);  // NonMaxSuppression, whose shapes fit

}  // namespace nestor
