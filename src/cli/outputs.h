// Output files of the verbs.
#pragma once

#include <initializer_list>
#include <string>

namespace nestor::cli {

// What is written is of one kind, which the file's ending says: a name for another kind of file is a mistake,
// often the name of an input. UserError, unless the path is a device or empty.
void require_ending(const std::string& flag, const std::string& path,
                    std::initializer_list<const char*> endings);

}  // namespace nestor::cli
