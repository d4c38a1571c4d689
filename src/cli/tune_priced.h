// `nestor tune --target cuda:... --emulate`.
#pragma once

#include "src/cli/options.h"

namespace nestor::cli {

// Searches by the analytic price and verifies by emulation; the schedules found are printed, as a file for
// --schedule.
int tune_by_price(const TuneVerb& v);

}  // namespace nestor::cli
