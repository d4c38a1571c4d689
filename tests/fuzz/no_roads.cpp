// For programs with a planted bug, which the interpreter must see.
#include "tests/fuzz/roads.h"

namespace nestor {

Roads fuzz_roads() {
  return {};
}

}  // namespace nestor
