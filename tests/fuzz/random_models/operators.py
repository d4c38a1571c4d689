"""Random nodes: for each operator what makes one from the values that there are so far.

A maker gives (operator, inputs, attributes), where an input is a Value, an array (an initializer) or None (omitted).
It may be wrong: ONNX Runtime decides whether such a node is valid. `exact` values are those that have no rounding
errors; only these go to operators whose results jump, such as Floor, comparisons and ArgMax.
"""
import numpy as np

F32 = np.float32
FLOATS = [np.float32] * 6 + [np.float64, np.float16]
INTS = [np.int64, np.int32, np.int8, np.uint8]

SMOOTH = ["Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Sigmoid", "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Tanh", "Erf",
          "Exp", "Sin", "Cos", "Neg", "Abs", "Identity", "Mish", "ThresholdedRelu", "Atan", "Dropout"]
JUMPS = ["Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf", "Shrink"]
REDUCES = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceProd"]


class Maker:
    def __init__(self, random, values, opset):
        self.r, self.values, self.opset = random, values, opset

    # ---- Choices

    def below(self, n):
        return int(self.r.integers(n))

    def one(self, items):
        return items[self.below(len(items))]

    def value(self, types=None, exact=False, rank=None, least=0):
        fitting = [v for v in self.values if (types is None or v.dtype.type in types) and (v.exact or not exact)
                   and (rank is None or v.array.ndim == rank) and v.array.ndim >= least]
        if not fitting:
            raise LookupError
        return self.one(fitting)

    def real(self, **more):
        return self.value((np.float32, np.float64, np.float16), **more)

    def f32(self, **more):
        return self.value((np.float32,), **more)

    def weights(self, *shape, dtype=F32):
        return (self.r.standard_normal(shape) * 0.5).astype(dtype)

    def ints(self, *values):
        return np.array(values, np.int64)

    def axis(self, v):
        return self.below(v.array.ndim) - (v.array.ndim if self.below(2) else 0)

    def broadcastable(self, v):
        """Another value, or weights, whose shape goes with v's."""
        shape = [n if self.below(3) else 1 for n in v.array.shape][self.below(v.array.ndim + 1):]
        others = [o for o in self.values if o.dtype == v.dtype and o.array.ndim <= 4]
        if others and self.below(2):
            return self.one(others)
        if v.dtype.kind == "f":
            return self.weights(*shape, dtype=v.dtype)
        return self.r.integers(0, 2 if v.dtype.kind == "b" else 9, shape).astype(v.dtype)

    # ---- Operators

    def unary(self):
        return self.one(SMOOTH), [self.real()], {}

    def jump(self):
        op = self.one(JUMPS)  # ONNX Runtime computes Shrink of f64 in f32
        return op, [self.f32(exact=True) if op == "Shrink" else self.real(exact=True)], {}

    def positive(self):
        x = self.real()
        return self.one(["Sqrt", "Log", "Reciprocal"]), [x], {}

    def arithmetic(self):
        x = self.value((np.float32, np.float64, np.float16, np.int64, np.int32))
        return self.one(["Add", "Sub", "Mul", "Div", "Max", "Min"]), [x, self.broadcastable(x)], {}

    def variadic(self):
        x = self.real()
        return self.one(["Sum", "Mean", "Max", "Min"]), [x] + [self.broadcastable(x) for _ in range(self.below(3))], {}

    def power(self):
        x = self.real()
        return "Pow", [x, np.array(self.one([2, 3, 1, 0.5]), x.dtype)], {}

    def modulo(self):
        x = self.value((np.int64, np.int32), exact=True)
        return "Mod", [x, np.array(self.one([3, 7, -4]), x.dtype)], {"fmod": self.below(2)}

    def bits(self):
        x = self.value(tuple(INTS), exact=True)
        if not self.below(3):
            x = self.value((np.uint8,), exact=True)
            return "BitShift", [x, np.array(self.below(8), x.dtype)], {"direction": self.one(["LEFT", "RIGHT"])}
        return self.one(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [x, self.broadcastable(x)], {}

    def compare(self):
        x = self.value(exact=True)
        y = x if not self.below(4) else self.broadcastable(x)
        if not getattr(y, "exact", True):
            raise LookupError
        return self.one(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]), [x, y], {}

    def logic(self):
        x = self.value((np.bool_,))
        if not self.below(4):
            return "Not", [x], {}
        return self.one(["And", "Or", "Xor"]), [x, self.broadcastable(x)], {}

    def where(self):
        x = self.value()
        return "Where", [self.value((np.bool_,)), x, self.broadcastable(x)], {}

    def cast(self):
        x = self.value(exact=True)
        to = self.one([1, 1, 6, 7, 9, 10, 11, 2, 3, 4, 5, 12, 13])
        if x.dtype.kind == "f" and to in (2, 3, 4, 5, 12, 13) and (x.array.min() < 0 or x.array.max() > 127):
            raise LookupError  # undefined
        return "Cast", [x], {"to": to}

    def clip(self):
        x = self.real()
        low, high = np.array(-0.5, x.dtype), np.array(0.7, x.dtype)
        return "Clip", [x, low if self.below(3) else None, high if self.below(3) else None], {}

    def reduce(self):
        x, op = self.real(least=1), self.one(REDUCES)
        axes = [int(a) for a in self.r.permutation(x.array.ndim)[:1 + self.below(x.array.ndim)]]
        keep = {"keepdims": self.below(2)}
        if self.opset >= 18 or op == "ReduceSum":
            return op, [x, self.ints(*axes)], keep
        return op, [x], {"axes": axes, **keep}

    def extremum(self):
        x = self.value((np.float32, np.int32), exact=True, least=1)
        return self.one(["ArgMax", "ArgMin"]), [x], {"axis": self.axis(x), "keepdims": self.below(2),
                                                    "select_last_index": self.below(2)}

    def top_k(self):
        x = self.value((np.float32, np.int64), exact=True, least=1)
        axis = self.below(x.array.ndim)
        return "TopK", [x, self.ints(1 + self.below(max(1, x.array.shape[axis])))], {"axis": axis, "largest": self.below(2)}

    def softmax(self):
        x = self.real(least=1)
        return self.one(["Softmax", "LogSoftmax"]), [x], {"axis": self.axis(x)}

    def norm(self):
        x = self.f32(least=2)
        kind, channels = self.below(4), x.array.shape[1]
        if kind == 0:
            axis = 1 + self.below(x.array.ndim - 1)
            shape = x.array.shape[axis:]
            return "LayerNormalization", [x, self.weights(*shape), self.weights(*shape) if self.below(2) else None], {"axis": axis}
        if kind == 1:
            return "BatchNormalization", [x] + [self.weights(channels) for _ in range(3)] + [np.abs(self.weights(channels)) + F32(1)], {}
        if kind == 2:
            return "InstanceNormalization", [x, self.weights(channels), self.weights(channels)], {}
        return "LpNormalization", [x], {"axis": self.axis(x), "p": 1 + self.below(2)}

    def matmul(self):
        x = self.value((np.float32, np.float64), least=1)
        batch = [] if self.below(2) else list(x.array.shape[:-2])
        return "MatMul", [x, self.weights(*batch, x.array.shape[-1], 1 + self.below(9), dtype=x.dtype)], {}

    def gemm(self):
        x = self.f32(rank=2)
        k, n, turned = x.array.shape[1], 1 + self.below(20), self.below(2)
        w = self.weights(n, k) if turned else self.weights(k, n)
        return "Gemm", [x, w, self.one([None, self.weights(n), self.weights(1, n)])], {"transB": turned, "alpha": 0.5, "beta": 2.0}

    def einsum(self):
        x = self.f32(rank=3)
        return "Einsum", [x, self.weights(x.array.shape[2], 4)], {"equation": self.one(["abc,cd->abd", "abc,cd->dab", "abc,cd->ad"])}

    def conv(self):
        x = self.f32(least=3)
        spatial, channels = x.array.ndim - 2, x.array.shape[1]
        group = self.one([1, channels])
        kernel = [1 + self.below(3) for _ in range(spatial)]
        attrs = {"strides": [1 + self.below(2) for _ in kernel], "dilations": [1 + self.below(2) for _ in kernel], "group": group}
        if self.below(2):
            attrs["pads"] = [self.below(3) for _ in range(2 * spatial)]
        elif self.below(2):
            attrs["auto_pad"] = self.one(["SAME_UPPER", "SAME_LOWER"])
            attrs["dilations"] = [1] * spatial
        filters = group * (1 + self.below(4))
        if self.below(4):
            return "Conv", [x, self.weights(filters, channels // group, *kernel), self.one([None, self.weights(filters)])], attrs
        attrs.pop("auto_pad", None)
        return "ConvTranspose", [x, self.weights(channels, filters // group, *kernel)], attrs

    def pool(self):
        x = self.f32(least=3)
        spatial = x.array.ndim - 2
        if not self.below(4):
            return self.one(["GlobalAveragePool", "GlobalMaxPool"]), [x], {}
        attrs = {"kernel_shape": [1 + self.below(min(3, n)) for n in x.array.shape[2:]], "strides": [1 + self.below(2) for _ in range(spatial)],
                 "ceil_mode": self.below(2)}
        if self.below(2):
            attrs["pads"] = [self.below(k) for k in attrs["kernel_shape"]] * 2
        op = self.one(["MaxPool", "AveragePool"])
        if op == "AveragePool":
            attrs["count_include_pad"] = self.below(2)
        return op, [x], attrs

    def pad(self):
        x = self.value(least=1)
        mode = self.one(["constant", "edge", "reflect"])
        pads = [self.below(3) - (mode == "constant" and not self.below(4)) for _ in range(2 * x.array.ndim)]
        return "Pad", [x, self.ints(*pads)], {"mode": mode}

    def slice(self):
        x = self.value(least=1)
        axis = self.below(x.array.ndim)
        step = self.one([1, 1, 2, -1, -2])
        ends = [self.below(x.array.shape[axis] + 1), self.one([-1, 100, 2, self.below(x.array.shape[axis] + 1)])]
        start, end = ends if step > 0 else [100, -100]
        return "Slice", [x, self.ints(start), self.ints(end), self.ints(axis), self.ints(step)], {}

    def gather(self):
        x = self.value(least=1)
        axis = self.below(x.array.ndim)
        extent = x.array.shape[axis]
        if self.below(2):
            at = self.r.integers(-extent, extent, [1 + self.below(3) for _ in range(self.below(3))]).astype(np.int64)
            return "Gather", [x, at], {"axis": axis}
        shape = list(x.array.shape)
        shape[axis] = 1 + self.below(4)
        return "GatherElements", [x, self.r.integers(0, extent, shape).astype(np.int64)], {"axis": axis}

    def gather_nd(self):
        x = self.value(least=2)
        at = np.stack([self.r.integers(0, n, 3) for n in x.array.shape[:1 + self.below(x.array.ndim)]], -1)
        return "GatherND", [x, at.astype(np.int64)], {}

    def scatter(self):
        x = self.value((np.float32, np.int64), least=1)
        axis = self.below(x.array.ndim)
        shape = list(x.array.shape)
        shape[axis] = 1 + self.below(shape[axis])
        order = self.r.permuted(np.broadcast_to(np.arange(x.array.shape[axis]), [*shape[:axis], *shape[axis + 1:], x.array.shape[axis]]), axis=-1)
        at = np.moveaxis(order, -1, axis).take(range(shape[axis]), axis).astype(np.int64)
        return "ScatterElements", [x, at, self.weights(*shape).astype(x.dtype)], {"axis": axis}

    def concat(self):
        x = self.value(least=1)
        axis = self.below(x.array.ndim)
        fitting = [v for v in self.values if v.dtype == x.dtype and v.array.ndim == x.array.ndim
                   and all(a == b for k, (a, b) in enumerate(zip(v.array.shape, x.array.shape)) if k != axis)]
        return "Concat", [self.one(fitting) for _ in range(1 + self.below(3))], {"axis": axis}

    def split(self):
        x = self.value(least=1)
        axis = self.below(x.array.ndim)
        n = x.array.shape[axis]
        first = self.below(n + 1)
        return "Split", [x, self.ints(first, n - first)], {"axis": axis, "outputs": 2}

    def layout(self):
        x = self.value(least=1)
        rank, size = x.array.ndim, x.array.size
        kind = self.below(7)
        if kind == 0:
            return "Transpose", [x], {"perm": [int(p) for p in self.r.permutation(rank)]}
        if kind == 1:
            divisors = [d for d in range(1, size + 1) if size % d == 0] or [0]
            d = self.one(divisors)
            return "Reshape", [x, self.ints(d, -1) if size else self.ints(0)], {}
        if kind == 2:
            return "Flatten", [x], {"axis": self.below(rank + 1)}
        if kind == 3:
            return "Squeeze", [x], {}
        if kind == 4:
            return "Unsqueeze", [x, self.ints(self.below(rank + 1))], {}
        if kind == 5:
            return "Tile", [x, self.ints(*[1 + self.below(2) for _ in range(rank)])], {}
        return "Expand", [x, self.ints(2, *[1 + self.below(2) if n == 1 else n for n in x.array.shape])], {}

    def depth(self):
        x = self.f32(rank=4)
        return self.one(["DepthToSpace", "SpaceToDepth"]), [x], {"blocksize": 2}

    def running(self):
        x = self.value((np.float32, np.float64, np.int64), least=1)
        return "CumSum", [x, np.array(self.below(x.array.ndim), np.int64)], {"exclusive": self.below(2), "reverse": self.below(2)}

    def triangle(self):
        return "Trilu", [self.value(least=2), np.array(self.below(3) - 1, np.int64)], {"upper": self.below(2)}

    def resize(self):
        x = self.f32(rank=4)
        mode = self.one(["nearest", "linear", "cubic"])
        turn = self.one(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
        sizes = self.ints(*x.array.shape[:2], 1 + self.below(12), 1 + self.below(12))
        return "Resize", [x, None, None, sizes], {"mode": mode, "coordinate_transformation_mode": turn}

    def quantize(self):
        x = self.f32(exact=True)
        zero = np.array(self.below(100), self.one([np.uint8, np.int8]))
        return "QuantizeLinear", [x, np.array(0.03, F32), zero], {}

    def dequantize(self):
        x = self.value((np.uint8, np.int8, np.int32), exact=True)
        return "DequantizeLinear", [x, np.array(0.05, F32)] + ([] if x.dtype == np.int32 else [np.array(3, x.dtype)]), {}

    def matmul_integer(self):
        x = self.value((np.uint8,), exact=True, least=2)
        w = self.r.integers(-50, 50, (x.array.shape[-1], 1 + self.below(8))).astype(self.one([np.int8, np.uint8]))
        return "MatMulInteger", [x, w, np.array(5, np.uint8), np.array(3, w.dtype)], {}

    def one_hot(self):
        x = self.value((np.int64, np.int32), exact=True)
        return "OneHot", [x, np.array(5, np.int64), np.array([-1, 2], F32)], {"axis": self.one([-1, 0])}

    def recurrent(self):
        x = self.f32(rank=3)
        op, hidden, both = self.one(["LSTM", "GRU", "RNN"]), 1 + self.below(6), 1 + self.below(2)
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op] * hidden
        attrs = {"hidden_size": hidden, "direction": "bidirectional" if both == 2 else self.one(["forward", "reverse"]), "outputs": 2}
        if op == "GRU":
            attrs["linear_before_reset"] = self.below(2)
        return op, [x, self.weights(both, gates, x.array.shape[2]), self.weights(both, gates, hidden),
                    self.one([None, self.weights(both, 2 * gates)])], attrs

    def sample(self):
        x = self.f32(rank=4)
        grid = self.r.uniform(-1.2, 1.2, (x.array.shape[0], 3, 4, 2)).astype(F32)
        return "GridSample", [x, grid], {"padding_mode": self.one(["zeros", "border", "reflection"]), "align_corners": self.below(2)}

    def shape(self):
        return self.one(["Shape", "Size"]), [self.value()], {}


MAKERS = [name for name, f in vars(Maker).items() if callable(f) and not name.startswith("_") and name not in
          ("below", "one", "value", "real", "f32", "weights", "ints", "axis", "broadcastable")]
