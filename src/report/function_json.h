// One function of the report as JSON, which the page's data.js reads. Both use the same names.
#pragma once

#include "nestor/driver.h"
#include "src/report/shared.h"
#include "src/report/steps.h"

namespace nestor::report {

// {name, origin, flops, start: [line...], loops, steps: [{text, edits, loops}], refused?, lowered?, links?,
// code?, ...} Lines are indices into strings; edits are counts of lines kept (positive) or gone (negative),
// and
// ["+", line...] or ["~", line...].
Json function_json(const Walk& walk, const Target& target, Tables& tables);

}  // namespace nestor::report
