// Random expressions over hard values, through the interpreter and the machine.
#include "agree.h"
#include "random_function.h"

using namespace nestor;

TEST_CASE("random expressions: the interpreter and the machine agree") {
  const char* one = std::getenv("NESTOR_SEED");  // replays a failure
  const char* many = std::getenv("NESTOR_FUZZ_COUNT");
  const uint64_t first = one ? std::stoull(one) : 1, count = many ? std::stoull(many) : one ? 1 : 120;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    INFO("NESTOR_SEED=" << seed);
    testing::check_agree(testing::random_function(seed), seed,
                         seed % 4 == 0 ? parse_target("x86-64-v3") : host_target());
  }
}
