#!/usr/bin/env python3
"""Takes the light_*.onnx networks that ship with the `onnx` package (real architectures whose weights are constants, so
that every output is 0.001), gives them seeded, scaled random weights, drops the last Softmax, and writes each as .onnx
and .json with an input and ONNX Runtime's outputs.

    light.py FOLDER [NAME ...] [--seed S]        NAME: squeezenet shufflenet resnet50 ...
"""

import argparse
import os
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import onnx_models


def randomized(name, seed):
    folder = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
    model = onnx.load(os.path.join(folder, f"light_{name}.onnx"))
    model.ir_version = 8  # since 4, initializers need not be listed as inputs
    graph = model.graph
    rng = np.random.default_rng(seed)
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    weights = {n.output[0]: tuple(int(d) for d in shapes[n.input[0]]) for n in graph.node
               if n.op_type == "ConstantOfShape" and n.input[0] in shapes}
    weights.update({i.name: tuple(i.dims) for i in graph.initializer if i.data_type == 1})
    used_as = {}  # weight -> (operator, input position)
    for node in graph.node:
        for position, value in enumerate(node.input):
            used_as[value] = (node.op_type, position)
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        graph.node.remove(node)
    for weight, shape in weights.items():
        op, position = used_as.get(weight, ("", 0))
        if op == "BatchNormalization":
            value = rng.uniform(0.8, 1.2, shape) if position in (1, 4) else rng.uniform(-0.1, 0.1, shape)
        elif len(shape) > 1:
            value = onnx_models.he_normal(rng, shape)
        else:
            value = rng.uniform(-0.1, 0.1, shape)
        onnx_models.set_initializer(model, weight, value.astype(np.float32))
    last = graph.node[-1]
    if last.op_type == "Softmax":
        graph.node.remove(last)
        del graph.output[:]
        graph.output.append(helper.make_tensor_value_info(last.input[0], 1, None))
    used = {value for node in graph.node for value in node.input}
    for unused in [i for i in graph.initializer if i.name not in used]:
        graph.initializer.remove(unused)
    known = {i.name for i in graph.initializer}
    for extra in [i for i in graph.input if i.name in known or i.name not in used]:
        graph.input.remove(extra)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", default=["squeezenet", "shufflenet", "resnet50"])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for name in args.names:
        model = randomized(name, args.seed)
        value = model.graph.input[0]
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        feed = {value.name: np.random.default_rng(args.seed + 1).standard_normal(shape).astype(np.float32)}
        onnx_models.calibrate_batchnorm(model, feed)
        output = model.graph.output[0]
        (logits,) = onnx_models.session(model).run([output.name], feed)
        output.CopyFrom(helper.make_tensor_value_info(output.name, 1, logits.shape))
        onnx_models.write(model, args.folder, name, feed)


if __name__ == "__main__":
    main()
