"""Runs small exports of PyTorch, one of each family (families/*.onnx, which families.py --save wrote), by Nestor and by
ONNX Runtime: their results must agree.
"""
import glob
import os
import sys

import numpy as np
import onnx
import onnxruntime

import nestor


def main():
    failed = 0
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "families", "*.onnx"))):
        random, feeds = np.random.default_rng(1), {}
        for value in onnx.load(path).graph.input:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            is_words = value.type.tensor_type.elem_type == onnx.TensorProto.INT64
            feeds[value.name] = random.integers(0, 50, shape) if is_words else random.standard_normal(shape).astype(np.float32)
        wanted = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        got = np.asarray(nestor.compile(path, threads=1)(*feeds.values()))
        right = got.shape == wanted.shape and np.allclose(got, wanted, rtol=1e-3, atol=1e-4)
        failed += not right
        print(f"{os.path.basename(path)[:-5]} {'agrees' if right else 'WRONG'}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
