// Values from other threads of a warp, for what src/passes/thread_tree.cpp makes.
#include <fmt/format.h>

#include "nestor/error.h"
#include "src/codegen/cuda_source.h"

namespace nestor {

// shuffle_xor(x, d): x of the thread whose number along x differs in bit d. Where a row of threads is a part
// of a warp, only its threads take part: the other rows' may have nothing to do.
CudaText CudaWriter::shuffle(const Call& c, Type t) {
  NESTOR_CHECK(c.name == "shuffle_xor" && c.args.size() == 2) << "no expression in CUDA code: " << c.name;
  constexpr int64_t kWarp = 32;
  const auto& [x, y, z] = part_.launch.block;
  std::string mask = "0xffffffff";
  if (x < kWarp) {
    const std::string row = z > 1 ? fmt::format("(threadIdx.z * {} + threadIdx.y)", y) : "threadIdx.y";
    mask = fmt::format("{:#x}", (int64_t{1} << x) - 1);
    if (y * z > 1) mask += fmt::format("u << {} % {} * {}", row, kWarp / x, x);
  }
  waits_ = true;  // a warp's threads do it together
  const bool small = bytes_of(t.dtype) < 4 && !is_float(t.dtype);  // passed as int
  const std::string value = small ? "(int)" + operand(c.args[0], kUnary) : expr(c.args[0]);
  const std::string text = fmt::format("__shfl_xor_sync({}, {}, {})", mask, value, expr(c.args[1]));
  return small ? CudaText{fmt::format("({}){}", cuda_name(t.dtype), text), kUnary} : CudaText{text};
}

}  // namespace nestor
