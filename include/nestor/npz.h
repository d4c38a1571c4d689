// NumPy's files: .npy, one array, and .npz, a zip of them. How images, weights and outputs go in and out.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nestor/tensor.h"

namespace nestor {

// All throw UserError naming file, array and cause. Data must have exactly the header's size; Fortran order
// is turned into row major; big-endian and element types that we don't have are refused.
Tensor read_npy(const std::string& path);
Tensor parse_npy(std::string_view bytes, const std::string& where);
std::string format_npy(const Tensor& t);  // the bytes of a .npy file; bf16, which NumPy lacks, is refused
std::map<std::string, Tensor> read_npz(const std::string& path);

// Written beside `path`, then renamed: never half a file. The same tensors give the same bytes.
void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays);

}  // namespace nestor
