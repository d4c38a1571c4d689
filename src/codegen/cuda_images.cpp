// Code for several kinds of devices. NVIDIA's rules: machine code for sm_80 runs on sm_80 and newer ones of
// major version 8; for sm_90a on sm_90 alone; PTX for compute_80 on whatever is newer, compiled by the
// driver.
#include <algorithm>
#include <sstream>

#include "nestor/cuda.h"
#include "nestor/error.h"

namespace nestor {

namespace {

int number_of(const Target& t) {
  return std::stoi(t.sm.substr(3));
}

bool is_specific(const Target& t) {
  return t.sm.back() == 'a';
}

}  // namespace

std::vector<Target> parse_targets(const std::string& names) {
  std::vector<Target> out;
  std::istringstream list(names);
  const bool cuda = names.starts_with("cuda:");
  for (std::string name; std::getline(list, name, ',');) {
    if (cuda && !name.starts_with("cuda:")) name = "cuda:" + name;
    out.push_back(parse_target(name));
  }
  if (out.empty()) return {parse_target(names)};
  if (out.size() > 1 && std::any_of(out.begin(), out.end(), [](const Target& t) { return t.sm.empty(); }))
    throw UserError(Diagnostic{
        "--target " + names + ": several targets are for CUDA only", {}, {}, "--target cuda:sm_80,sm_90"});
  const auto older = [](const Target& a, const Target& b) {
    return std::pair(number_of(a), a.sm) < std::pair(number_of(b), b.sm);
  };
  const auto same = [](const Target& a, const Target& b) { return a.sm == b.sm; };
  std::sort(out.begin(), out.end(), older);
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  return out;
}

std::vector<CudaImage> compile_images(const std::string& source, const std::vector<Target>& targets) {
  std::vector<CudaImage> out;
  const Target* newest = nullptr;
  for (const Target& t : targets) {
    out.push_back(
        {compile_cubin(source, t), number_of(t), is_specific(t) ? CudaForm::specific_code : CudaForm::code});
    if (!is_specific(t)) newest = &t;
  }
  if (newest) out.push_back({compile_ptx(source, *newest), number_of(*newest), CudaForm::ptx});
  return out;
}

}  // namespace nestor
