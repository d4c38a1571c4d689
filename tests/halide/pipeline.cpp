// The Halide SDK works on this machine: a scheduled matmul through its JIT agrees with plain loops.
#include <Halide.h>

#include <cmath>
#include <cstdio>

int main() {
  constexpr int n = 64;
  Halide::Buffer<float> a(n, n), b(n, n);
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x) {
      a(x, y) = static_cast<float>((x * 7 + y * 3) % 11) - 5;
      b(x, y) = static_cast<float>((x * 5 + y * 2) % 13) - 6;
    }

  Halide::Var x("x"), y("y"), xi("xi"), yi("yi");
  Halide::RDom k(0, n);
  Halide::Func product("product");
  product(x, y) = 0.0f;
  product(x, y) += a(k, y) * b(x, k);
  product.update().tile(x, y, xi, yi, 16, 4).reorder(xi, yi, k, x, y).vectorize(xi).unroll(yi);
  Halide::Buffer<float> c = product.realize({n, n});

  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) {
      float expected = 0;
      for (int r = 0; r < n; ++r) expected += a(r, j) * b(i, r);
      if (std::fabs(c(i, j) - expected) > 1e-3f) {
        std::printf("product(%d, %d) is %g, expected %g\n", i, j, c(i, j), expected);
        return 1;
      }
    }
  std::printf("Halide %d.%d.%d agrees with plain loops\n", HALIDE_VERSION_MAJOR, HALIDE_VERSION_MINOR,
              HALIDE_VERSION_PATCH);
}
