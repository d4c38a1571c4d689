// Batches of images with weights that don't fit in L2: which loop is outermost.
#include "catch.h"
#include "tests/driver/compiled.h"

using namespace nestor;

TEST_CASE("weights that pass for each image of a batch pass once, where a tile's stay") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  const std::string inside = "(ob0 n y", steps = "; strides=[2,2], pads=[1,1,1,1])";
  CHECK(default_has("Conv(f32[36,448,8,8], const f32[128,448,3,3]" + steps, inside, target));
  CHECK(default_says("Conv(f32[36,448,8,8], const f32[128,448,3,3]" + steps,
                     "of weights stay in L2 for all 36 of n", target));
  // One image; weights that stay; images of many outputs, and large ones; one tile of columns.
  CHECK_FALSE(default_has("Conv(f32[1,448,8,8], const f32[128,448,3,3]" + steps, inside, target));
  CHECK_FALSE(default_has("Conv(f32[36,64,8,8], const f32[128,64,3,3]" + steps, inside, target));
  CHECK_FALSE(default_has("Conv(f32[36,448,16,16], const f32[128,448,3,3]" + steps, inside, target));
  CHECK_FALSE(default_has("Conv(f32[20,768,14,14], const f32[512,768,2,2]; strides=[2,2])", inside, target));
  CHECK_FALSE(default_has("Conv(f32[36,448,8,8], const f32[48,448,3,3]" + steps, inside, target));
  for (Target small : shared_targets()) {
    small.l2_bytes = 16 << 10;
    for (const char* spec : {"Conv(f32[5,24,4,11], const f32[67,24,3,3]; strides=[2,2], pads=[1,1,1,1])",
                             "Conv(f32[6,19,9], const f32[70,19,3], const f32[70])",
                             "Conv(f32[3,40,5,4], const f32[80,20,2,3]; group=2)"}) {
      INFO(spec);
      check_default(spec, small, true);
      check_default(spec, small, false);
    }
  }
}
