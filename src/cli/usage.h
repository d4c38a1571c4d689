// What is wrong with a command line that can't be parsed.
#pragma once

#include <CLI/CLI.hpp>

#include "nestor/error.h"

namespace nestor::cli {

// Names the first word that isn't an option of the verb (before a verb: of the program), with the option that
// was probably meant. Without such a word it is what the parser says.
Diagnostic usage_error(const CLI::App& app, const CLI::ParseError& e, int argc, char** argv);

}  // namespace nestor::cli
