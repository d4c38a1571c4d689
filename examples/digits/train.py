#!/usr/bin/env python3
"""Trains a small convolutional network on the 1,797 handwritten digits (8x8 grey images, scanned from real forms) that
scikit-learn ships, in plain NumPy, and writes next to this script:

    digits.json    the model as ONNX's protobuf JSON, weights inside
    digits.onnx    the same model, binary
    heldout.npz    500 images that training never saw ("image": f32[500,1,8,8]) and their labels ("label": i64[500])

    train.py [--seed S] [--epochs N]
"""

import argparse
import os

import numpy as np
import onnx
import onnx.reference
from google.protobuf import json_format
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HELD_OUT = 500


class Conv:
    """3x3, padding 1, no bias (the BatchNormalization after it has one)."""

    def __init__(self, rng, channels_in, channels_out):
        self.w = rng.standard_normal((channels_out, channels_in, 3, 3)) * np.sqrt(2 / (9 * channels_in))

    def forward(self, x):
        self.shape = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        self.windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))  # n c y x r s
        return np.einsum("ncyxrs,ocrs->noyx", self.windows, self.w, optimize=True)

    def backward(self, g):
        self.gradients = [np.einsum("ncyxrs,noyx->ocrs", self.windows, g, optimize=True)]
        padded = np.pad(g, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return np.einsum("noyxrs,ocrs->ncyx", windows, self.w[:, :, ::-1, ::-1], optimize=True)

    def parameters(self):
        return [self.w]


class BatchNorm:
    def __init__(self, channels):
        self.gamma, self.beta = np.ones(channels), np.zeros(channels)
        self.mean, self.var = np.zeros(channels), np.ones(channels)

    def forward(self, x):
        mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
        self.mean, self.var = 0.95 * self.mean + 0.05 * mean, 0.95 * self.var + 0.05 * var
        self.inv = 1 / np.sqrt(var + 1e-5)
        self.hat = (x - mean[:, None, None]) * self.inv[:, None, None]
        return self.hat * self.gamma[:, None, None] + self.beta[:, None, None]

    def backward(self, g):
        self.gradients = [(g * self.hat).sum((0, 2, 3)), g.sum((0, 2, 3))]
        count = g.size / g.shape[1]
        centred = g - (self.gradients[1] / count)[:, None, None] - self.hat * (self.gradients[0] / count)[:, None, None]
        return centred * (self.gamma * self.inv)[:, None, None]

    def parameters(self):
        return [self.gamma, self.beta]


class Relu:
    def forward(self, x):
        self.mask = x > 0
        return x * self.mask

    def backward(self, g):
        return g * self.mask

    def parameters(self):
        return []


class MaxPool:
    """2x2, stride 2."""

    def forward(self, x):
        n, c, h, w = x.shape
        self.tiles = x.reshape(n, c, h // 2, 2, w // 2, 2)
        out = self.tiles.max((3, 5))
        self.mask = self.tiles == out[:, :, :, None, :, None]
        return out

    def backward(self, g):
        n, c, h, w = g.shape
        return (self.mask * g[:, :, :, None, :, None]).reshape(n, c, 2 * h, 2 * w)

    def parameters(self):
        return []


class Linear:
    def __init__(self, rng, n_in, n_out):
        self.w = rng.standard_normal((n_out, n_in)) * np.sqrt(1 / n_in)
        self.b = np.zeros(n_out)

    def forward(self, x):
        self.shape = x.shape
        self.x = x.reshape(len(x), -1)
        return self.x @ self.w.T + self.b

    def backward(self, g):
        self.gradients = [g.T @ self.x, g.sum(0)]
        return (g @ self.w).reshape(self.shape)

    def parameters(self):
        return [self.w, self.b]


def train(layers, images, labels, rng, epochs, batch=64):
    """Adam on the cross entropy, with images shifted by up to one pixel."""
    parameters = [p for layer in layers for p in layer.parameters()]
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    step = 0
    for epoch in range(epochs):
        rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        order = rng.permutation(len(images))
        for start in range(0, len(order) - batch + 1, batch):
            rows = order[start:start + batch]
            x = np.roll(images[rows], rng.integers(-1, 2, 2), (2, 3))
            for layer in layers:
                x = layer.forward(x)
            p = np.exp(x - x.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(batch), labels[rows]] -= 1
            g = p / batch
            for layer in reversed(layers):
                g = layer.backward(g)
            step += 1
            gradients = [g for layer in layers if layer.parameters() for g in layer.gradients]
            for p, g, (m, v) in zip(parameters, gradients, moments):
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                p -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)


def to_onnx(conv1, bn1, conv2, bn2, linear):
    weights = []

    def weight(name, array):
        weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def norm(name, bn):
        return [weight(f"{name}.{n}", v) for n, v in
                (("gamma", bn.gamma), ("beta", bn.beta), ("mean", bn.mean), ("var", bn.var))]

    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["image", weight("conv1.weight", conv1.w)], ["c1"], "conv1", **conv),
        helper.make_node("BatchNormalization", ["c1", *norm("bn1", bn1)], ["b1"], "bn1", epsilon=1e-5),
        helper.make_node("Relu", ["b1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "pool1", **pool),
        helper.make_node("Conv", ["p1", weight("conv2.weight", conv2.w)], ["c2"], "conv2", **conv),
        helper.make_node("BatchNormalization", ["c2", *norm("bn2", bn2)], ["b2"], "bn2", epsilon=1e-5),
        helper.make_node("Relu", ["b2"], ["r2"], "relu2"),
        helper.make_node("MaxPool", ["r2"], ["p2"], "pool2", **pool),
        helper.make_node("Flatten", ["p2"], ["flat"], "flatten", axis=1),
        helper.make_node("Gemm", ["flat", weight("fc.weight", linear.w), weight("fc.bias", linear.b)], ["logits"], "fc",
                         transB=1),
        helper.make_node("Softmax", ["logits"], ["probability"], "softmax", axis=1),
    ]
    graph = helper.make_graph(nodes, "digits",
                              [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
                              [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 10])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    data = load_digits()
    order = rng.permutation(len(data.target))
    images = (data.images[order] / 16.0).reshape(-1, 1, 8, 8)
    labels = data.target[order]
    conv1, bn1, conv2, bn2 = Conv(rng, 1, 16), BatchNorm(16), Conv(rng, 16, 32), BatchNorm(32)
    linear = Linear(rng, 128, 10)
    layers = [conv1, bn1, Relu(), MaxPool(), conv2, bn2, Relu(), MaxPool(), linear]
    train(layers, images[HELD_OUT:], labels[HELD_OUT:], rng, args.epochs)

    folder = os.path.dirname(os.path.abspath(__file__))
    model = to_onnx(conv1, bn1, conv2, bn2, linear)
    with open(os.path.join(folder, "digits.json"), "w") as f:
        f.write(json_format.MessageToJson(model))
    onnx.save(model, os.path.join(folder, "digits.onnx"))
    held_out = images[:HELD_OUT].astype(np.float32)
    np.savez_compressed(os.path.join(folder, "heldout.npz"), image=held_out, label=labels[:HELD_OUT].astype(np.int64))

    evaluator = onnx.reference.ReferenceEvaluator(model)
    (probability,) = evaluator.run(None, {"image": held_out})
    print(f"held-out accuracy: {(probability.argmax(1) == labels[:HELD_OUT]).mean():.3f} of {HELD_OUT}")


if __name__ == "__main__":
    main()
