// JSON text to a document.
#pragma once

#include <string>
#include <string_view>

#include "src/graph/json_at.h"

namespace nestor {

// In time linear in the text. Refuses text that isn't JSON, by line and column, objects that give a field
// twice (nlohmann keeps the last one without a word), and deep nesting (whoever prints or walks a value
// recurses into it).
Json parse_json(const std::string& file, std::string_view text);

}  // namespace nestor
