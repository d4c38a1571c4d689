// Records for `nestor db`: those that filters choose, and those that come from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "nestor/tune.h"
#include "src/cli/options.h"

namespace nestor::cli {

// Records may be somebody else's: they must not move the terminal's cursor.
std::string shown(std::string text);
std::string func_name(const Record& r);  // "func conv2d_relu(...)" gives conv2d_relu

std::vector<Record> chosen(const Database& db, const DbVerb& v);

// Of a file of JSON lines, all read and checked before the first is stored: a line that isn't a record
// refuses the file. A right record whose schedule can't be used here, perhaps another version's, is left out
// with a line.
std::vector<Record> read_records(const std::string& file);
// The records of another database that this one doesn't have, checked alike.
std::vector<Record> records_to_merge(const Database& db, const Database& other);

}  // namespace nestor::cli
