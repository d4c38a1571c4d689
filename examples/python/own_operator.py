"""Operators of your own, compared with NumPy: a function as loops, and an operator that a model uses."""

import os

import numpy as np

import nestor

# The distance of each pair of rows.
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

# RmsNorm of examples/custom_op, in a model: relu(rms_norm(x) * w).
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "custom_op")
m = nestor.compile(os.path.join(folder, "model.json"), ops=[os.path.join(folder, "rms_norm.nest")], threads=1)
x = rng.standard_normal((4, 8)).astype("float32")
w = np.array([1, 0.5, 2, -1, 0.25, 1.5, -0.5, 1], "float32")
expected = np.maximum(x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w, 0)
np.testing.assert_allclose(m(x), expected, rtol=1e-5)
print("the largest difference:", np.abs(m(x) - expected).max())
