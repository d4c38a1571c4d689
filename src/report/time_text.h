#pragma once

#include <string>

namespace nestor::report {

// With the unit that fits: "812.4 ns", "3.25 us", "17.801 ms", "2.31 s".
std::string time_text(double ms);

}  // namespace nestor::report
