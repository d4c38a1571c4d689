// Constants whose layout is given, since another kernel reads them too.
#pragma once

#include <optional>
#include <vector>

#include "nestor/ir.h"
#include "nestor/target.h"

namespace nestor {

// Row major where a buffer has none.
IndexMap layout_of(const BufferDecl& decl);
bool same_layout(const IndexMap& a, const IndexMap& b);
bool same_layouts(const PrimFunc& a, const PrimFunc& b);  // of parameters

using GivenLayouts = std::vector<std::optional<IndexMap>>;  // by parameter

// Whether the default schedule of f, whose sizes are known, would have the same dimensions of its constants
// in vectors.
bool suit(const GivenLayouts& layouts, const PrimFunc& f, const Target& target);
PrimFunc with_layouts(PrimFunc f, const GivenLayouts& layouts);

}  // namespace nestor
