// Operators from .nest files that are checked where nodes use them; without the check see ops.h.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "nestor/walk.h"

namespace nestor {

// The function with numbers for its symbolic dimensions.
PrimFunc with_dims(const PrimFunc& f, const VarMap& dims);
PrimFunc with_dims(const PrimFunc& f, const std::unordered_map<Var, int64_t>& sizes);  // of f's and others

// Whether its body or a shape of it depends on one of them.
bool uses_dim(const PrimFunc& f, const Var& dim);

// As register_nest_file(path); `check` sees each function with numbers for its dimensions, once where a node
// first uses it so, and throws what it refuses.
void register_nest_file(const std::string& path, const std::function<void(const PrimFunc&)>& check);

}  // namespace nestor
