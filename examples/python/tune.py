"""Tunes an operator for a few seconds and compiles it with what was found."""

import os
import tempfile

import numpy as np

import nestor

spec = "MatMul(f32[100,300], const f32[300,70])"
weights = np.random.default_rng(1).standard_normal((300, 70)).astype("float32")

with tempfile.TemporaryDirectory() as folder:
    db = os.path.join(folder, "records.db")
    for result in nestor.tune(spec, db, seconds=5, threads=1):
        print(f"{result.func}: default {result.default_us:.1f} us, best {result.best_us:.1f} us; {result.end}")
    m = nestor.compile(spec, const={"x1": weights}, db=db, threads=1)

x = np.ones((100, 300), "float32")
np.testing.assert_allclose(m(x), x @ weights, rtol=1e-4, atol=1e-4)
