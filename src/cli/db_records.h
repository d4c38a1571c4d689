// Records for `nestor db`: selecting them by filters, and importing those of others.
#pragma once

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "nestor/tune.h"
#include "src/cli/options.h"

namespace nestor::cli {

// Records may be somebody else's: they must not move the terminal's cursor.
std::string shown(std::string text);
std::string func_name(const Record& r);  // "func conv2d_relu(...)" gives conv2d_relu

std::vector<Record> chosen(const Database& db, const DbVerb& v);

// Which records a database has, so that none is added twice.
class KnownRecords {
 public:
  explicit KnownRecords(const std::string& path);  // of no database: none
  bool is_new(const Record& r);                    // it is known from then on
  size_t met() const { return met_; }              // how many weren't new

 private:
  std::set<std::tuple<std::string, std::string, int, std::string, Outcome, double, std::string>> known_;
  size_t met_ = 0;
};

// The new ones of a file of JSON lines, all read and checked before the first is stored: a line that isn't a
// record refuses the file. A right record whose schedule can't be used here, perhaps another version's, is
// left out with a line.
std::vector<Record> read_records(const std::string& file, KnownRecords& known);
// Of another database, checked alike; what isn't a record is left out, too.
std::vector<Record> read_records(const Database& other, KnownRecords& known);

}  // namespace nestor::cli
