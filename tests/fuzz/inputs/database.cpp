// A file that is said to be a tuning database.
#include "nestor/tune.h"
#include "tests/fuzz/inputs/target.h"

namespace nestor::fuzz {

void read_input(std::string_view input) {
  const Database db(as_file("t.db", input), Database::Mode::read);
  for (const Record& r : db.records()) {
    to_json_line(r);
    bad_figures(r);
    db.by_speed(r.workload, r.target, r.threads, [](const Record&) { return false; });
  }
}

}  // namespace nestor::fuzz
