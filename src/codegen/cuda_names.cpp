// Names in CUDA C++: those of the IR, unless they mean something else there.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "src/codegen/cuda_source.h"

namespace nestor {

namespace {

constexpr std::string_view kWords =
    "alignas alignof and asm auto bool break case catch char class const constexpr continue default "
    "delete do double else enum explicit export extern false float for friend goto if inline int long "
    "mutable namespace new not operator or private protected public register return short signed "
    "sizeof static struct switch template this throw true try typedef typename union unsigned using "
    "virtual void volatile while xor blockIdx threadIdx blockDim gridDim warpSize exp log sqrt tanh "
    "erf pow fabs floor ceil rint fma expf logf sqrtf tanhf erff powf fabsf floorf ceilf rintf fmaf "
    "min_of max_of floor_div floor_mod trunc_div abs_of is_nan sigmoid sin cos sinf cosf scalef min "
    "max to_i64 to_i32 to_i16 to_i8 to_u8 unix linux half_to_float float_to_half bfloat_to_float "
    "float_to_bfloat expm1 log1p shared_memory";

bool is_reserved(const std::string& name) {
  static const std::unordered_set<std::string> words = [] {
    std::unordered_set<std::string> out;
    for (size_t at = 0, end = 0; at < kWords.size(); at = end + 1) {
      end = std::min(kWords.find(' ', at), kWords.size());
      out.emplace(kWords.substr(at, end - at));
    }
    return out;
  }();
  return words.count(name) > 0;
}

std::string identifier(const std::string& name) {
  std::string out;
  for (const char c : name)
    out += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  // Two leading underscores are the compiler's.
  const size_t first = out.find_first_not_of('_');
  if (first == std::string::npos || first > 0) out = "v" + out;
  return out[0] >= '0' && out[0] <= '9' ? "v" + out : out;
}

}  // namespace

std::string CudaWriter::new_name(const std::string& wanted) {
  const std::string base = identifier(wanted);
  std::string name = base;
  for (int i = 1; taken_.count(name) || is_reserved(name); ++i) name = base + "_" + std::to_string(i);
  taken_.insert(name);
  return name;
}

}  // namespace nestor
