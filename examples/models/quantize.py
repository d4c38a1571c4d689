#!/usr/bin/env python3
"""Writes a model in bytes as ONNX Runtime's quantizer makes it: u8 activations, i8 weights with a scale for each
filter, between QuantizeLinear and DequantizeLinear. Ranges are those of two inputs drawn with the seed.

    quantize.py MODEL.onnx OUT.onnx [--seed S]
"""

import argparse
import os
import sys
import tempfile

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

PER_AXIS = 13  # the opset since which weights may have a scale for each filter


class Drawn(CalibrationDataReader):
    def __init__(self, model, seed):
        rng = np.random.default_rng(seed)
        inputs = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()
        for i in inputs:
            if i.type != "tensor(float)" or not all(isinstance(d, int) for d in i.shape):
                sys.exit(f"{i.name} is a {i.type} of shape {i.shape}; inputs must be floats of a known shape")
        self.feeds = [{i.name: rng.standard_normal(i.shape).astype(np.float32) for i in inputs} for _ in range(2)]

    def get_next(self):
        return self.feeds.pop() if self.feeds else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prepared, written = os.path.join(folder, "prepared.onnx"), os.path.join(folder, "quantized.onnx")
        model = onnx.load(args.model)
        if model.opset_import[0].version < PER_AXIS:
            model = onnx.version_converter.convert_version(model, PER_AXIS)
        onnx.save(model, written)
        quant_pre_process(written, prepared, skip_symbolic_shape=True)  # norms into weights, shapes
        quantize_static(prepared, written, Drawn(prepared, args.seed), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
        with open(written, "rb") as made, open(args.out + ".tmp", "wb") as out:
            out.write(made.read())
    os.replace(args.out + ".tmp", args.out)


if __name__ == "__main__":
    main()
