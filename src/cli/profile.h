// Prints what `nestor bench --profile` measured.
#pragma once

#include <string>

#include "src/report/profile.h"

namespace nestor::cli {

void print_table(const report::Profile& profile);
void print_json(const report::Profile& profile, const std::string& schedule);

}  // namespace nestor::cli
