// OpenBLAS: matrix products. It has no form that is packed ahead, so `const` operands gain it nothing.
#include <cblas.h>

#include "bench/peers/peer.h"

namespace nestor::bench {

std::string openblas_version() {
  return std::string(openblas_get_config()) + ", running " + openblas_get_corename();
}

std::optional<Peer> openblas_peer(const Problem& p) {
  if (p.op() != "MatMul" || p.output.dtype() != DType::f32) return std::nullopt;
  openblas_set_num_threads(1);
  const std::vector<int64_t>&sa = p.shape(0), &sb = p.shape(1);
  if (sa.size() < 2 || sb.size() != sa.size()) return std::nullopt;
  const Tensor a = p.input(0), b = p.input(1);
  const auto m = static_cast<int>(sa[sa.size() - 2]), k = static_cast<int>(sa.back()),
             n = static_cast<int>(sb.back());
  const int64_t batch = a.size() / m / k;
  if (b.size() != batch * k * n) return std::nullopt;
  Tensor c(DType::f32, p.output.shape());
  const auto run = [=]() mutable {
    const auto* pa = static_cast<const float*>(a.data());
    const auto* pb = static_cast<const float*>(b.data());
    auto* pc = static_cast<float*>(c.data());
    for (int64_t i = 0; i < batch; ++i, pa += int64_t{m} * k, pb += int64_t{k} * n, pc += int64_t{m} * n) {
      if (m == 1)
        cblas_sgemv(CblasRowMajor, CblasTrans, k, n, 1, pb, n, pa, 1, 0, pc, 1);
      else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, pa, k, pb, n, 0, pc, n);
    }
  };
  return Peer{"OpenBLAS", std::string(openblas_get_corename()) + (m == 1 ? " sgemv" : " sgemm"), run,
              [=] { return c; }};
}

}  // namespace nestor::bench
