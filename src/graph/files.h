// Reading files named by a model, with errors that name the file.
#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "nestor/error.h"

namespace nestor {

[[noreturn]] void file_error(const std::string& file, const std::string& message,
                             const std::string& hint = "");

std::ifstream open_file(const std::string& path);
std::string read_file(const std::string& path);

// `location` beside the model file. Refuses what leads out of the model's folder: a model must not be able to
// read other files of whoever opens it.
std::string resolve_beside(const std::string& model_path, const std::string& location);

// `length` bytes at `offset`; without a length all the rest of the file. Throws where the file is shorter.
std::string read_range(const std::string& path, int64_t offset, std::optional<int64_t> length);

}  // namespace nestor
