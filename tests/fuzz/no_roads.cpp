// For programs with a deliberate bug, which the interpreter must detect.
#include "tests/fuzz/roads.h"

namespace nestor {

Roads fuzz_roads() {
  return {};
}

}  // namespace nestor
