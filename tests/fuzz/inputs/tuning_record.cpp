// A line of `db export`, which is imported.
#include "nestor/tune.h"
#include "tests/fuzz/inputs/target.h"

namespace nestor::fuzz {

void read_input(std::string_view input) {
  const Record r = record_from_json(std::string(input));
  const std::string line = to_json_line(r);
  NESTOR_CHECK(to_json_line(record_from_json(line)) == line) << "a record that isn't read back: " << line;
  NESTOR_CHECK(bad_figures(r).empty()) << bad_figures(r);
  follow(check_imported(r));
}

}  // namespace nestor::fuzz
