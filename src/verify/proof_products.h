#pragma once

#include <optional>
#include <utility>

#include "nestor/ir.h"

namespace nestor::verify {

// A product of open sizes, as in f32[batch*seq,64], isn't linear. Both functions with each product as one
// more size, which may be any: what is proved of these holds for the products, too. Nothing where there are
// none.
std::optional<std::pair<PrimFunc, PrimFunc>> with_products_as_sizes(const PrimFunc& before,
                                                                    const PrimFunc& after);

}  // namespace nestor::verify
