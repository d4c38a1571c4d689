// The worker protocol: a Job as one JSON line, a Record as one JSON line.
#pragma once

#include <string>

#include "nestor/tune.h"

namespace nestor {

std::string to_json_line(const Job& job);
Job job_from_json(const std::string& line);

}  // namespace nestor
