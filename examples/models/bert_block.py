#!/usr/bin/env python3
"""Writes a BERT-like encoder block, or several, (multi-head attention, LayerNormalization, GELU by Erf) with seeded weights, as
.onnx and .json with an input and ONNX Runtime's outputs.

    bert_block.py FOLDER [--seed S] [--tokens T] [--hidden H] [--heads A] [--layers L]
"""

import argparse
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import onnx_models


def encoder(seed, tokens, hidden, heads, layers):
    rng = np.random.default_rng(seed)
    nodes, weights = [], []
    count = [0]

    def const(array, name):
        name = within + name
        weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(op, inputs, **attributes):
        count[0] += 1
        nodes.append(helper.make_node(op, inputs, [f"v{count[0]}"], name=f"{op}_{count[0]}", **attributes))
        return f"v{count[0]}"

    def linear(x, name, n_in, n_out):
        w = const((rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)).astype(np.float32), name + ".weight")
        b = const(rng.uniform(-0.1, 0.1, n_out).astype(np.float32), name + ".bias")
        return node("Add", [node("MatMul", [x, w]), b])

    def norm(x, name):
        g = const(rng.uniform(0.8, 1.2, hidden).astype(np.float32), name + ".gamma")
        b = const(rng.uniform(-0.1, 0.1, hidden).astype(np.float32), name + ".beta")
        return node("LayerNormalization", [x, g, b], axis=-1, epsilon=1e-5)

    def heads_of(x, permutation):
        return node("Transpose", [node("Reshape", [x, split])], perm=permutation)

    x = "hidden"
    for layer in range(layers):
        within = f"layer{layer}." if layers > 1 else ""
        split = const(np.array([1, tokens, heads, hidden // heads], np.int64), "split")
        join = const(np.array([1, tokens, hidden], np.int64), "join")
        q = heads_of(linear(x, "query", hidden, hidden), [0, 2, 1, 3])
        k = heads_of(linear(x, "key", hidden, hidden), [0, 2, 3, 1])
        v = heads_of(linear(x, "value", hidden, hidden), [0, 2, 1, 3])
        scale = const(np.float32(np.sqrt(hidden / heads)), "scale")
        scores = node("Add", [node("Div", [node("MatMul", [q, k]), scale]), "mask"])
        context = node("MatMul", [node("Softmax", [scores], axis=-1), v])
        context = node("Reshape", [node("Transpose", [context], perm=[0, 2, 1, 3]), join])
        x = norm(node("Add", [linear(context, "output", hidden, hidden), x]), "norm1")
        h = linear(x, "up", hidden, 4 * hidden)
        gelu = node("Mul", [node("Mul", [h, const(np.float32(0.5), "half")]),
                            node("Add", [node("Erf", [node("Div", [h, const(np.float32(np.sqrt(2)), "sqrt2")])]),
                                         const(np.float32(1), "one")])])
        x = norm(node("Add", [linear(gelu, "down", 4 * hidden, hidden), x]), "norm2")
    nodes.append(helper.make_node("Identity", [x], ["encoded"]))
    graph = helper.make_graph(
        nodes, "bert_block",
        [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, [1, tokens, hidden]),
         helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, 1, 1, tokens])],
        [helper.make_tensor_value_info("encoded", TensorProto.FLOAT, [1, tokens, hidden])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--layers", type=int, default=1)
    args = parser.parse_args()
    model = encoder(args.seed, args.tokens, args.hidden, args.heads, args.layers)
    rng = np.random.default_rng(args.seed + 1)
    mask = np.zeros((1, 1, 1, args.tokens), np.float32)
    mask[..., args.tokens - args.tokens // 5:] = -1e4  # the last tokens are padding
    onnx_models.write(model, args.folder, "bert_block",
                      {"hidden": rng.standard_normal((1, args.tokens, args.hidden)).astype(np.float32), "mask": mask})


if __name__ == "__main__":
    main()
