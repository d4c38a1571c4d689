// Elementwise works, transposes and scans by their default schedules: as wide as the memory allows, and right
// at ragged sizes.
#include "catch.h"
#include "check.h"
#include "kernels.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

CudaCase case_of(const std::string& text, size_t number = 0) {
  return make_operator_case(text, "", "operator_" + std::to_string(number));
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

}  // namespace

TEST_CASE("maps, transposes and scans by their default schedule pass under emulation") {
  std::vector<CudaCase> cases;
  for (const char* text : {
           "Relu(f32[7])",
           "Relu(f32[28000])",
           "Relu(f32[10007])",
           "Add(f32[128,256], f32[256])",
           "Add(f32[60,1023], f32[1023])",
           "Add(f32[5,1,7], f32[3,1])",
           "Mul(f64[300,20], f64[300,1])",
           "Add(i64[300,20], i64[20])",
           "And(bool[300,20], bool[20])",
           "Where(bool[30,200], f32[30,200], f32[])",
           "Add(f32[2,3,4,5,6,7,8], f32[4,1,6,1,8])",
           "Transpose(f32[70,133]; perm=[1,0])",
           "Transpose(f32[2,3,40,50]; perm=[0,3,1,2])",
           "Transpose(f32[2,30,40,20]; perm=[0,2,3,1])",
           "Transpose(f32[2,30,40,50]; perm=[3,2,1,0])",
           "Transpose(f64[64,65]; perm=[1,0])",
           "Transpose(i8[100,70]; perm=[1,0])",
           "Transpose(bool[33,32]; perm=[1,0])",
           "Transpose(f16[16,300]; perm=[1,0])",
           "Transpose(f32[4,5,6]; perm=[2,0,1])",
           "Transpose(f32[30,5,60]; perm=[1,0,2])",
           "Slice(f32[20,300], const i64[1]{3}, const i64[1]{250}, const i64[1]{1})",
           "Pad(f32[20,30,31], const i64[6]{0,1,2,0,1,2})",
           "Resize(f32[1,3,20,20], const f32[0], const f32[4]{1,1,2,2})",
           "DepthToSpace(f32[1,64,20,20]; blocksize=2)",
           "Expand(f32[1,300], const i64[2]{40,300})",
           "Cast(f16[400,100]; to=1)",
           "Cast(f32[400,100]; to=7)",
           "CumSum(f32[8,640], const i64[1]{1})",
           "CumSum(f32[80,64], const i64[1]{0})",
           "CumSum(f32[3,4,50], const i64[1]{1}; reverse=1)",
       })
    cases.push_back(case_of(text, cases.size()));
  check_cases(cases, 1e-4);
}

TEST_CASE("maps of dense operands load and store 16 bytes") {
  for (const char* text : {"Relu(f32[256,1024])", "Add(f32[256,1024], f32[1024])",
                           "Mul(f64[300,200], f64[300,1])", "Cast(f16[4000,100]; to=1)"}) {
    const std::string source = case_of(text).program.source;
    INFO(source);
    const bool wide =
        source.find("(float4*)&Y") != std::string::npos || source.find("(double2*)&Y") != std::string::npos;
    CHECK(wide);
  }
}

TEST_CASE("a transpose's tile has columns in 32 banks, and stores rows of the output") {
  const CudaCase c = case_of("Transpose(f32[256,512]; perm=[1,0])");
  INFO(c.program.source);
  CHECK(c.program.kernels[0].shared_bytes == 4 * 32 * 33);
  CHECK(count(c.program.source, "__syncthreads();") == 1);
  CHECK(c.program.source.find("X_tile[i * 33") != std::string::npos);
}
