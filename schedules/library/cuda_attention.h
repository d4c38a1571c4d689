// Attention on a GPU: two products with rows of scores between them, in one kernel.
#pragma once

#include "nestor/schedule.h"
#include "nestor/target.h"

namespace nestor::library {

// Schedules the whole function; false, and s as it was, where it is no such chain or its scores don't fit.
bool join_products_on_gpu(Schedule& s, const Target& target);

}  // namespace nestor::library
