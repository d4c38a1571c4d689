// What `nestor help VERB` ends with: commands that work as they stand, in any folder.
#pragma once

#include <string>

namespace nestor::cli {

// "Examples:" and a few commands, each with what it does; a verb without any is a bug (InternalError).
std::string help_examples(const std::string& verb);

}  // namespace nestor::cli
