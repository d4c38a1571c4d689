#pragma once

#include "nestor/ir.h"

namespace nestor {

// With `value` wherever `buffer` is loaded, at whatever place.
Expr replace_load(const Expr& e, const Buffer& buffer, const Expr& value);
Stmt replace_load(const Stmt& s, const Buffer& buffer, const Expr& value);

}  // namespace nestor
