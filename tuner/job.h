// The worker protocol: a Job as one JSON line, a Record as one JSON line.
#pragma once

#include <string>

#include "nestor/tune.h"

namespace nestor {

std::string to_json_line(const Job& job);
Job job_from_json(const std::string& line);

// The record of a job about which nothing is known yet but what was asked.
Record record_of(const Job& job);

}  // namespace nestor
