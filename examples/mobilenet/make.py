#!/usr/bin/env python3
"""Writes MobileNetV2 (Sandler et al. 2018, width 1.0, 224x224) with seeded random weights, as .onnx and as .json with
external weights, and an input with the outputs that ONNX Runtime gives for it.

    make.py FOLDER [--seed S] [--size N]
"""

import argparse
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import onnx_models


class Builder:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.count = [], [], 0

    def weight(self, name, array):
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(self, op, inputs, **attributes):
        self.count += 1
        output = f"{op.lower()}_{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def conv_bn(self, x, channels_in, channels_out, kernel, stride, groups=1, relu=True):
        tag = f"layer{self.count}"
        shape = (channels_out, channels_in // groups, kernel, kernel)
        w = self.weight(tag + ".weight", onnx_models.he_normal(self.rng, shape))
        x = self.node("Conv", [x, w], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4, group=groups)
        gamma = self.rng.uniform(0.8, 1.2, channels_out)
        beta = self.rng.uniform(-0.1, 0.1, channels_out)
        parameters = [self.weight(f"{tag}.{n}", v) for n, v in
                      (("gamma", gamma), ("beta", beta), ("mean", np.zeros(channels_out)), ("var", np.ones(channels_out)))]
        x = self.node("BatchNormalization", [x, *parameters], epsilon=1e-5)
        if relu:
            low, high = self.weight(tag + ".min", np.array(0.0)), self.weight(tag + ".max", np.array(6.0))
            x = self.node("Clip", [x, low, high])
        return x


def mobilenet_v2(seed, size=224, classes=1000):
    b = Builder(seed)
    x = b.conv_bn("image", 3, 32, 3, 2)
    channels = 32
    for expand, out, repeat, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                        (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(repeat):
            step, hidden, shortcut = (stride if i == 0 else 1), channels * expand, x
            if expand != 1:
                x = b.conv_bn(x, channels, hidden, 1, 1)
            x = b.conv_bn(x, hidden, hidden, 3, step, groups=hidden)
            x = b.conv_bn(x, hidden, out, 1, 1, relu=False)
            if step == 1 and channels == out:
                x = b.node("Add", [shortcut, x])
            channels = out
    x = b.conv_bn(x, channels, 1280, 1, 1)
    x = b.node("GlobalAveragePool", [x])
    x = b.node("Flatten", [x], axis=1)
    w = b.weight("classifier.weight", b.rng.standard_normal((classes, 1280)) * 0.15)
    c = b.weight("classifier.bias", b.rng.uniform(-0.1, 0.1, classes))
    b.nodes.append(helper.make_node("Gemm", [x, w, c], ["logits"], name="classifier", transB=1))
    graph = helper.make_graph(b.nodes, "mobilenetv2",
                              [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, size, size])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, classes])], b.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=224, help="of the image, a multiple of 32")
    args = parser.parse_args()
    model = mobilenet_v2(args.seed, args.size)
    feed = {"image": np.random.default_rng(args.seed + 1).standard_normal((1, 3, args.size, args.size)).astype(np.float32)}
    onnx_models.calibrate_batchnorm(model, feed)
    expected = onnx_models.write(model, args.folder, "mobilenetv2", feed)
    if expected["logits"].std() < 0.5:
        sys.exit("the logits hardly vary: a comparison with them would show nothing")


if __name__ == "__main__":
    main()
