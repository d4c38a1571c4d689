"""Writes what NumPy makes of NaN, infinities, zeros, denormals, the largest and smallest floats, operator by operator, as
JSON lines in the form of export_onnx_cases.py.

usage: export_special_values.py OUT.jsonl
"""
import itertools
import json
import math
import sys

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from export_onnx_cases import attribute, tensor
from onnx import helper

F = np.float32
nan, inf = np.nan, np.inf
SPECIAL = np.array([nan, inf, -inf, 0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 1.1754944e-38, -1.1754944e-38, 3.4028235e38,
                    -3.4028235e38, 1.0, -1.0, 0.5, -2.5, 88.0, -88.0, 103.0, -103.0], dtype=F)
# Sums of several of the largest floats overflow, or not, by the order of the terms.
CALM = SPECIAL[np.isnan(SPECIAL) | np.isinf(SPECIAL) | (np.abs(SPECIAL) < 1e30)]


def case(op, opset, inputs, output, **attrs):
    made = helper.make_node(op, [], [], **attrs)
    text = ", ".join(f"{k}={v}" for k, v in attrs.items())
    return {"name": f"{op}-{opset} {text}", "op": op, "domain": "", "opset": opset, "rtol": 1e-5, "atol": 1e-38,
            "attrs": {a.name: attribute(a) for a in made.attribute},
            "inputs": [tensor(x) if x is not None else None for x in inputs], "outputs": [tensor(output)]}


def softplus(x):
    return np.maximum(x, F(0)) + np.log1p(np.exp(-np.abs(x)))


def elu(x, alpha=1.0):
    return np.where(x < 0, F(alpha) * np.expm1(x), x)


def hard_sigmoid(x, alpha, beta):
    return np.clip(F(alpha) * x + F(beta), F(0), F(1))


def sigmoid(x):
    return F(1) / (F(1) + np.exp(-x))


def erf(x):
    return np.array([math.erf(v) for v in x.astype(np.float64)], dtype=F)


UNARY = [
    ("Relu", 14, lambda x: np.maximum(x, F(0))), ("LeakyRelu", 16, lambda x: np.where(x < 0, F(0.01) * x, x)),
    ("ThresholdedRelu", 10, lambda x: np.where(x > 1, x, F(0))), ("Elu", 6, elu), ("Celu", 12, elu),
    ("Selu", 6, lambda x: F(1.0507009873554805) * elu(x, 1.6732632423543772)), ("Sigmoid", 13, sigmoid),
    ("HardSigmoid", 6, lambda x: hard_sigmoid(x, 0.2, 0.5)), ("HardSwish", 14, lambda x: x * hard_sigmoid(x, 1 / 6, 0.5)),
    ("Mish", 18, lambda x: x * np.tanh(softplus(x))), ("Softplus", 1, softplus),
    ("Softsign", 1, lambda x: x / (F(1) + np.abs(x))), ("Tanh", 13, np.tanh), ("Erf", 13, erf), ("Exp", 13, np.exp),
    ("Log", 13, np.log), ("Sin", 7, np.sin), ("Cos", 7, np.cos), ("Sqrt", 13, np.sqrt), ("Reciprocal", 13, np.reciprocal),
    ("Floor", 13, np.floor), ("Ceil", 13, np.ceil), ("Round", 11, np.rint), ("Neg", 13, np.negative), ("Abs", 13, np.abs),
    ("Sign", 13, np.sign), ("IsNaN", 13, np.isnan), ("IsInf", 10, np.isinf),
    ("Gelu", 20, lambda x: F(0.5) * x * (F(1) + erf(x * F(math.sqrt(0.5))))),
]
BINARY = [
    ("Add", 14, np.add), ("Sub", 14, np.subtract), ("Mul", 14, np.multiply), ("Div", 14, np.divide), ("Pow", 15, np.power),
    ("Max", 13, np.maximum), ("Min", 13, np.minimum), ("Equal", 13, np.equal), ("Less", 13, np.less),
    ("Greater", 13, np.greater), ("LessOrEqual", 16, np.less_equal), ("GreaterOrEqual", 16, np.greater_equal),
    ("PRelu", 16, lambda x, slope: np.where(x < 0, slope * x, x)), ("Sum", 13, np.add),
]


def rows():
    """Each calm value in each place of a short row and of one longer than a vector, two of them, and rows of one value."""
    for n in (3, 40):
        ordinary = np.linspace(-3, 2, n, dtype=F)
        some = [(v,) for v in CALM] + list(itertools.permutations([nan, inf, -inf, F(-0.0)], 2))
        filled = [np.full(n, v, dtype=F) for v in CALM]
        for values, shift in itertools.product(some, range(0, n, max(1, n // 5))):
            row = ordinary.copy()
            for k, v in enumerate(values):
                row[(shift + 3 * k) % n] = v
            filled.append(row)
        yield np.stack(filled)


def softmax(x):
    e = np.exp(x - np.max(x, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def log_softmax(x):
    d = x - np.max(x, -1, keepdims=True)
    return d - np.log(np.sum(np.exp(d), -1, keepdims=True))


def log_sum_exp(x, axis):
    return np.logaddexp.reduce(x.astype(np.float64), axis).astype(F)


def reductions(x):
    axes = np.array([1], dtype=np.int64)
    for op, of in (("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceSum", np.sum), ("ReduceMean", np.mean),
                   ("ReduceProd", np.prod), ("ReduceLogSumExp", log_sum_exp)):
        yield case(op, 18, [x, axes], of(x, axis=1), keepdims=0)
        yield case(op, 18, [x.T.copy(), axes - 1], of(x, axis=1), keepdims=0)
    for op, of in (("ReduceL1", np.abs), ("ReduceSumSquare", np.square)):
        yield case(op, 18, [x, axes], np.sum(of(x), axis=1), keepdims=0)
    for op, of in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        yield case(op, 13, [x], of(x, axis=1), axis=1, keepdims=0)
    yield case("Softmax", 13, [x], softmax(x), axis=-1)
    one = case("LogSoftmax", 13, [x], log_softmax(x), axis=-1)
    one["atol"] = 1e-6  # NumPy's own, that doesn't keep digits near 0
    yield one
    yield case("CumSum", 14, [x, np.array(1, dtype=np.int64)], np.cumsum(x, axis=1))
    image = x[:, None, :]
    windows = sliding_window_view(image, 3, axis=2)
    yield case("MaxPool", 12, [image], windows.max(-1), kernel_shape=[3])
    yield case("AveragePool", 19, [image], windows.mean(-1), kernel_shape=[3])
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1)), constant_values=-inf)
    yield case("MaxPool", 12, [image], sliding_window_view(padded, 3, axis=2)[..., ::2, :].max(-1), kernel_shape=[3],
               pads=[1, 1], strides=[2])
    yield case("GlobalMaxPool", 1, [image], image.max(-1, keepdims=True))
    yield case("GlobalAveragePool", 1, [image], image.mean(-1, keepdims=True))


def products():
    a = np.linspace(-1, 1, 5 * 7, dtype=F).reshape(5, 7)
    for v in CALM:
        b = a.T.copy()
        b[3, 2] = v
        yield case("MatMul", 13, [a, b], a @ b)


def cases():
    for op, opset, of in UNARY:
        yield case(op, opset, [SPECIAL], of(SPECIAL))
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), dtype=F)
    a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
    for op, opset, of in BINARY:
        yield case(op, opset, [a, b], of(a, b))
    for low, high in ((-1.0, 2.0), (0.0, 6.0), (-0.0, inf), (nan, 1.0), (-1.0, nan)):
        yield case("Clip", 13, [SPECIAL, F(low), F(high)], np.clip(SPECIAL, F(low), F(high)))
    yield case("Where", 16, [a > b, a, b], np.where(a > b, a, b))
    yield case("Max", 13, [a, b, a[::-1].copy()], np.maximum(np.maximum(a, b), a[::-1]))
    for x in rows():
        yield from reductions(x)
    yield from products()


def main():
    with np.errstate(all="ignore"), open(sys.argv[1], "w", encoding="utf-8") as out:
        for c in cases():
            out.write(json.dumps(c) + "\n")


if __name__ == "__main__":
    main()
