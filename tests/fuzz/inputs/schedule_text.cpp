// A function, a line `---`, and schedules of it, as files and as records hold them.
#include "nestor/check.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "schedules/sched_file.h"
#include "tests/fuzz/inputs/target.h"

namespace nestor::fuzz {

void read_input(std::string_view input) {
  constexpr std::string_view kBetween = "\n---\n";
  const size_t at = input.find(kBetween);
  if (at == std::string_view::npos) return;
  const PrimFunc f = read_updates(parse_func(input.substr(0, at)));
  check_well_formed(f);
  const std::string_view text = input.substr(at + kBetween.size());
  const std::string file = as_file("m.sched", text);
  for (const Trace& trace : parse_schedules(text, file)) {
    const std::string printed = print(trace);
    NESTOR_CHECK(print(parse_trace(printed)) == printed) << "a trace that isn't read back:\n" << printed;
    follow(apply(f, trace));
  }
  schedules::parse_primitives(text, file);
}

}  // namespace nestor::fuzz
