// Convolutions by their default schedules, at sizes that their tiles like and dislike: how many kernels, and
// that they are right.
#include <algorithm>

#include "catch.h"
#include "check.h"
#include "kernels.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Work {
  const char* text;
  size_t kernels;
  bool tiled = true;  // through shared memory
};

void check_works(const std::vector<Work>& works) {
  std::vector<CudaCase> cases;
  for (const Work& w : works) {
    INFO(w.text);
    cases.push_back(make_operator_case(w.text, "", "windows_" + std::to_string(cases.size())));
    const CudaProgram& p = cases.back().program;
    INFO(p.source);
    CHECK(p.kernels.size() == w.kernels);
    CHECK((p.source.find("__shared__") != std::string::npos) == w.tiled);
  }
  check_cases(cases, 2e-4);
}

}  // namespace

TEST_CASE("convolutions are one kernel, padding, bias and all") {
  check_works({
      {"Conv(f32[2,8,14,14], const f32[16,8,3,3]; pads=[1,1,1,1])", 1},
      {"Conv(f32[1,8,28,28], const f32[24,8,3,3], const f32[24]; pads=[1,1,1,1], strides=[2,2])", 1},
      {"Conv(f32[1,3,32,32], const f32[8,3,7,7], const f32[8]; pads=[3,3,3,3], strides=[2,2])", 1},
      {"Conv(f32[1,6,19,19], f32[10,6,3,3])", 1},
      {"Conv(f32[1,16,16,16], const f32[8,16,1,1]; strides=[2,2])", 1},
      {"Conv(f32[1,5,13,21], const f32[8,5,3,5]; pads=[1,2,1,2], strides=[1,3])", 1},
      {"Conv(f32[1,4,16,16], const f32[8,4,3,3]; pads=[2,2,2,2], dilations=[2,2])", 1},
      {"Conv(f32[1,8,12,12], const f32[16,2,3,3]; group=4, pads=[1,1,1,1])", 1},
      {"Conv(f32[2,6,40], const f32[12,6,5]; pads=[2,2])", 1},
      {"Conv(f32[1,2,4,8,8], const f32[8,2,3,3,3]; pads=[1,1,1,1,1,1])", 1},
      {"Conv(f16[1,8,14,14], const f16[16,8,3,3]; pads=[1,1,1,1])", 1},
      {"Conv(f64[1,4,14,14], const f64[8,4,3,3]; pads=[1,1,1,1])", 1},
      {"Conv(f32[1,4,37,37], const f32[6,4,3,3]; pads=[1,1,1,1])", 1},
  });
}

TEST_CASE("depthwise convolutions are one kernel that reads their channels from shared memory") {
  check_works({
      {"Conv(f32[1,16,14,14], const f32[16,1,3,3], const f32[16]; group=16, pads=[1,1,1,1])", 1},
      {"Conv(f32[2,12,28,28], const f32[12,1,3,3]; group=12, pads=[1,1,1,1], strides=[2,2])", 1},
      {"Conv(f32[1,24,7,7], const f32[24,1,5,5]; group=24, pads=[2,2,2,2])", 1},
      {"Conv(f32[1,6,15,15], f32[6,1,3,3]; group=6, pads=[1,1,1,1])", 1},
      {"Conv(f32[1,8,112], const f32[8,1,3]; group=8, pads=[1,1])", 1},
      {"Conv(f16[1,16,14,14], const f16[16,1,3,3]; group=16, pads=[1,1,1,1])", 1},
  });
}

TEST_CASE("convolutions of few results sum their channels in parts") {
  check_works({
      {"Conv(f32[1,256,7,7], const f32[64,256,3,3], const f32[64]; pads=[1,1,1,1])", 2},
      {"Conv(f32[1,128,5,5], const f32[24,128,3,3])", 2},
  });
}
