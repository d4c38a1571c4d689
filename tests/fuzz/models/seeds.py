"""The five models that mutations start from, in the shorthand: each has another part of the operators."""

import random


def _tensor(shape, dtype="f32", data=None, seed=0):
    count = 1
    for d in shape:
        count *= d
    rng = random.Random(f"{seed} {shape} {dtype}")
    draw = {"f32": lambda: round(rng.uniform(-1, 1), 3), "i64": lambda: 0, "i8": lambda: rng.randrange(-128, 128),
            "u8": lambda: rng.randrange(256)}[dtype]
    return {"dtype": dtype, "shape": list(shape), "data": [draw() for _ in range(count)] if data is None else data}


def _node(op, inputs, outputs, **attrs):
    return {"op": op, "name": "n_" + outputs[0], "inputs": inputs, "outputs": outputs, "attrs": attrs}


def _ints(*values):
    return _tensor([len(values)], "i64", list(values))


def _model(inputs, outputs, nodes, weights):
    return {"opset": 17, "inputs": inputs, "outputs": outputs, "nodes": nodes, "weights": weights}


def _input(name, shape, dtype="f32"):
    return {"name": name, "dtype": dtype, "shape": shape}


def convolutions():
    return _model(
        [_input("x", [1, 3, 10, 10])], ["y"],
        [_node("Conv", ["x", "w1", "b1"], ["c1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
         _node("BatchNormalization", ["c1", "s", "b", "m", "v"], ["n1"], epsilon=0.001),
         _node("Relu", ["n1"], ["r1"]),
         _node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
         _node("Conv", ["p1", "w2"], ["c2"], group=4, dilations=[1, 2], pads=[1, 2, 1, 2]),
         _node("Add", ["c2", "p1"], ["a"]),
         _node("AveragePool", ["a"], ["p2"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
         _node("ConvTranspose", ["p2", "w3"], ["t"], strides=[2, 2]),
         _node("GlobalAveragePool", ["t"], ["g"]),
         _node("Flatten", ["g"], ["f"]),
         _node("Gemm", ["f", "w4", "b4"], ["z"], transB=1, alpha=0.5),
         _node("Softmax", ["z"], ["y"], axis=-1)],
        {"w1": _tensor([4, 3, 3, 3]), "b1": _tensor([4]), "s": _tensor([4], data=[1, 2, 1, 0.5]), "b": _tensor([4]),
         "m": _tensor([4]), "v": _tensor([4], data=[1, 2, 3, 4]), "w2": _tensor([4, 1, 3, 3]), "w3": _tensor([4, 2, 2, 2]),
         "w4": _tensor([5, 2]), "b4": _tensor([5])})


def attention():
    return _model(
        [_input("ids", ["batch", 6], "i64")], ["y", "best"],
        [_node("Gather", ["table", "ids"], ["e"], axis=0),
         _node("LayerNormalization", ["e", "g", "b"], ["n"], axis=-1, epsilon=1e-5),
         _node("Shape", ["n"], ["shape"]),
         _node("Gather", ["shape", "zero"], ["batch"], axis=0),
         _node("Concat", ["batch", "heads"], ["to"], axis=0),
         _node("MatMul", ["n", "wq"], ["q0"]), _node("Reshape", ["q0", "to"], ["q1"]),
         _node("Transpose", ["q1"], ["q"], perm=[0, 2, 1, 3]),
         _node("MatMul", ["n", "wk"], ["k0"]), _node("Reshape", ["k0", "to"], ["k1"]),
         _node("Transpose", ["k1"], ["k"], perm=[0, 2, 3, 1]),
         _node("MatMul", ["q", "k"], ["s0"]), _node("Mul", ["s0", "scale"], ["s1"]),
         _node("Where", ["mask", "s1", "low"], ["s2"]), _node("Softmax", ["s2"], ["p"], axis=-1),
         _node("Transpose", ["k1"], ["v"], perm=[0, 2, 1, 3]),
         _node("MatMul", ["p", "v"], ["o0"]), _node("Transpose", ["o0"], ["o1"], perm=[0, 2, 1, 3]),
         _node("Reshape", ["o1", "flat"], ["o2"], allowzero=0), _node("Add", ["o2", "e"], ["r"]),
         _node("Einsum", ["r", "wk"], ["y"], equation="bij,jk->bik"),
         _node("ArgMax", ["r"], ["best"], axis=2, keepdims=0)],
        {"table": _tensor([11, 8]), "g": _tensor([8]), "b": _tensor([8]), "zero": _ints(0), "heads": _ints(6, 2, 4),
         "wq": _tensor([8, 8]), "wk": _tensor([8, 8], seed=1), "scale": _tensor([], data=[0.5]), "flat": _ints(0, 0, -1),
         "mask": {"dtype": "bool", "shape": [6, 6], "data": [[j <= i for j in range(6)] for i in range(6)]},
         "low": _tensor([], data=[-1e9])})


def quantized():
    return _model(
        [_input("x", [2, 4, 6, 6])], ["y", "z"],
        [_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]), _node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
         _node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
         _node("Conv", ["d", "wd", "bias"], ["c"], pads=[1, 1, 1, 1]),
         _node("QuantizeLinear", ["c", "cs", "xz"], ["cq"]), _node("DequantizeLinear", ["cq", "cs", "xz"], ["cd"]),
         _node("MaxPool", ["cd"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
         _node("Flatten", ["p"], ["f"], axis=1),
         _node("DynamicQuantizeLinear", ["f"], ["fq", "fs", "fz"]),
         _node("MatMulInteger", ["fq", "w2", "fz", "w2z"], ["mi"]), _node("Cast", ["mi"], ["mf"], to="f32"),
         _node("Mul", ["mf", "fs"], ["y"]),
         _node("QLinearConv", ["q", "xs", "xz", "w", "ws1", "wz1", "cs", "xz", "bi"], ["ql"], kernel_shape=[3, 3]),
         _node("DequantizeLinear", ["ql", "cs", "xz"], ["z"])],
        {"xs": _tensor([], data=[0.02]), "xz": _tensor([], "u8", [128]), "w": _tensor([4, 4, 3, 3], "i8"),
         "ws": _tensor([4], data=[0.01, 0.02, 0.03, 0.04]), "wz": _tensor([4], "i8", [0, 0, 0, 0]), "bias": _tensor([4]),
         "cs": _tensor([], data=[0.05]), "w2": _tensor([36, 3], "i8"), "w2z": _tensor([], "i8", [1]),
         "ws1": _tensor([], data=[0.01]), "wz1": _tensor([], "i8", [0]),
         "bi": {"dtype": "i32", "shape": [4], "data": [1, -2, 3, -4]}})


def recurrent():
    return _model(
        [_input("x", [5, 2, 3])], ["y", "h", "values", "gy"],
        [_node("LSTM", ["x", "w", "r", "b"], ["y0", "h", "c"], hidden_size=4, direction="bidirectional"),
         _node("Transpose", ["y0"], ["y1"], perm=[0, 2, 1, 3]), _node("Reshape", ["y1", "flat"], ["y2"]),
         _node("TopK", ["y2", "k"], ["values", "indices"], axis=-1, largest=1),
         _node("CumSum", ["y2", "axis"], ["cum"], exclusive=0, reverse=1),
         _node("ReduceSum", ["cum", "axes"], ["sum"], keepdims=1), _node("Sub", ["y2", "sum"], ["d"]),
         _node("GRU", ["d", "gw", "gr"], ["gy"], hidden_size=2, linear_before_reset=1),
         _node("ReduceLogSumExp", ["d"], ["y"], axes=[1], keepdims=0)],
        {"w": _tensor([2, 16, 3]), "r": _tensor([2, 16, 4]), "b": _tensor([2, 32]), "flat": _ints(5, 2, 8), "k": _ints(3),
         "axis": _tensor([], "i64", [0]), "axes": _ints(2), "gw": _tensor([1, 6, 8]), "gr": _tensor([1, 6, 2])})


def movement():
    return _model(
        [_input("x", [2, 4, 6, 6]), _input("i", [3], "i64")], ["y", "s0", "u", "o", "g"],
        [_node("Pad", ["x", "pads", "value"], ["p"], mode="constant"),
         _node("Slice", ["p", "starts", "ends", "saxes", "steps"], ["s"]),
         _node("Resize", ["s", "", "scales"], ["r"], mode="linear", coordinate_transformation_mode="half_pixel"),
         _node("Split", ["r", "sizes"], ["s0", "s1"], axis=1), _node("Concat", ["s1", "s0", "s1"], ["c"], axis=1),
         _node("DepthToSpace", ["x"], ["ds"], blocksize=2), _node("Tile", ["ds", "reps"], ["t"]),
         _node("Unsqueeze", ["t", "uaxes"], ["u"]), _node("Expand", ["one", "eshape"], ["ex"]),
         _node("ScatterElements", ["ex", "sidx", "supd"], ["sc"], axis=0), _node("Gather", ["x", "i"], ["g"], axis=2),
         _node("OneHot", ["i", "depth", "onoff"], ["o"], axis=-1), _node("Trilu", ["c"], ["tr"], upper=0),
         _node("ReduceMean", ["tr"], ["m"], axes=[-1], keepdims=1), _node("Div", ["tr", "m"], ["q"]),
         _node("Clip", ["q", "lo", "hi"], ["cl"]), _node("Neg", ["cl"], ["ng"]), _node("ReduceSum", ["sc"], ["scs"], keepdims=0),
         _node("Mul", ["ng", "scs"], ["y"])],
        {"pads": _ints(0, 0, 1, 1, 0, 0, 1, 1), "value": _tensor([], data=[0.5]), "starts": _ints(0, -1), "ends": _ints(7, -9),
         "saxes": _ints(2, 3), "steps": _ints(2, -1), "scales": _tensor([4], data=[1, 1, 2, 1.5]), "sizes": _ints(1, 3),
         "reps": _ints(1, 2, 1, 1), "uaxes": _ints(0, -1), "one": _tensor([1, 1], data=[1]), "eshape": _ints(3, 4),
         "sidx": _tensor([1, 4], "i64", [0, 1, 2, 0]), "supd": _tensor([1, 4]), "depth": _tensor([], "i64", [4]),
         "onoff": _tensor([2], data=[0, 1]), "lo": _tensor([], data=[-2]), "hi": _tensor([], data=[2])})


SEEDS = {f.__name__: f for f in (convolutions, attention, quantized, recurrent, movement)}
