// The error for a schedule that a pass can't lower.
#pragma once

#include <string>

#include "nestor/error.h"

namespace nestor::passes {

// Throws ScheduleError. `hint`: what would work, as a step of a schedule where possible.
[[noreturn]] inline void refuse(std::string message, std::string hint) {
  throw ScheduleError(Diagnostic{std::move(message), {}, {}, std::move(hint)});
}

}  // namespace nestor::passes
