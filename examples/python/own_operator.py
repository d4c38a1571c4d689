"""An operator of one's own: the distance of each pair of rows, as loops, compiled and compared with NumPy's."""

import numpy as np

import nestor

text = """
func distances(in A: f32[50,8], in B: f32[40,8], out Y: f32[50,40]) {
  for i in 50, j in 40, k in 8 {
    block Y(vi: S 50 = i, vj: S 40 = j, vk: R 8 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += (A[vi,vk] - B[vj,vk]) * (A[vi,vk] - B[vj,vk])
    }
  }
}
"""
m = nestor.compile(text, threads=1)
rng = np.random.default_rng(1)
a, b = rng.standard_normal((50, 8)).astype("float32"), rng.standard_normal((40, 8)).astype("float32")
expected = ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)
np.testing.assert_allclose(m(a, b), expected, rtol=1e-5)
print("the largest difference:", np.abs(m(a, b) - expected).max())
