#include "tests/fuzz/roads.h"

namespace nestor {

Roads fuzz_roads() {
  return {{"cpu", cpu_road}, {"cuda", cuda_road}, {"proof", proof_road}};
}

}  // namespace nestor
