#!/usr/bin/env python3
"""Writes one layer of MobileNetV2 as a model of its own: the 1x1 expansion 24 -> 144 at 56x56 with its bias and ReLU6.

    layer.py FILE.onnx [--seed S]
"""

import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in (
        ("weight", rng.standard_normal((144, 24, 1, 1)) * np.sqrt(2 / 24)), ("bias", rng.uniform(-0.1, 0.1, 144)),
        ("low", np.array(0.0)), ("high", np.array(6.0)))]
    nodes = [helper.make_node("Conv", ["x", "weight", "bias"], ["t"], kernel_shape=[1, 1]),
             helper.make_node("Clip", ["t", "low", "high"], ["y"])]
    graph = helper.make_graph(nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 24, 56, 56])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 144, 56, 56])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), args.file)


if __name__ == "__main__":
    main()
