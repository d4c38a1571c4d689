"""Writes cases that ONNX Runtime answered as JSON lines, in the form of export_onnx_cases.py: windows of every kind, and
operators at the opsets where their meaning changed.

usage: export_sweeps.py OUT.jsonl
"""
import itertools
import json
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from export_onnx_cases import attribute, tensor

rng = np.random.default_rng(5)
ort.set_default_logger_severity(4)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, dtype=np.int64)


def run(op, opset, inputs, outputs=1, **attrs):
    """One node through ONNX Runtime; None where it refuses the node."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **attrs)
    fed = {n: x for n, x in zip(names, inputs) if n}
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                      for n, x in fed.items()],
        [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    try:
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        results = session.run(None, fed)
    except Exception:  # the session's exceptions have no common base
        return None
    text = ", ".join(f"{k}={v}" for k, v in attrs.items())
    return {"name": f"{op}-{opset} {[list(x.shape) for x in fed.values()]} {text}", "op": op, "domain": "",
            "opset": opset, "rtol": 1e-4, "atol": 1e-5, "attrs": {a.name: attribute(a) for a in node.attribute},
            "inputs": [tensor(x) if x is not None else None for x in inputs], "outputs": [tensor(y) for y in results]}


def windows():
    for size, kernel, stride, dilation, pads in itertools.product((5, 8), (1, 2, 3), (1, 2, 3), (1, 2),
                                                                  ((0, 0), (1, 1), (0, 2), (1, 0))):
        common = {"strides": [stride, 1], "dilations": [dilation, 1], "pads": [pads[0], 0, pads[1], 0]}
        yield run("Conv", 11, [floats(1, 2, size, 4), floats(3, 2, kernel, 2), floats(3)], **common)
        for ceil, include in itertools.product((0, 1), (0, 1)):
            pool = dict(common, kernel_shape=[kernel, 2], ceil_mode=ceil)
            yield run("AveragePool", 19, [floats(1, 1, size, 4)], count_include_pad=include, **pool)
            if include == 0:
                yield run("MaxPool", 12, [floats(1, 1, size, 4)], **pool)
    for op, opset, auto_pad, size, stride in itertools.product(("Conv", "MaxPool", "AveragePool"), (7, 11),
                                                               ("SAME_UPPER", "SAME_LOWER", "VALID"), (4, 5, 7),
                                                               (1, 2, 3)):
        attrs = {"auto_pad": auto_pad, "strides": [stride], "kernel_shape": [3]}
        yield run(op, opset, [floats(1, 2, size)] + ([floats(2, 2, 3)] if op == "Conv" else []), **attrs)
    for group, per_group, filters in ((2, 1, 4), (3, 2, 3), (4, 1, 4)):
        yield run("Conv", 11, [floats(2, group * per_group, 5, 6), floats(filters, per_group, 3, 2)], group=group) \
            if filters % group == 0 else None
    yield run("Conv", 11, [floats(1, 2, 4, 3, 5), floats(2, 2, 2, 2, 3)], pads=[1, 0, 0, 0, 1, 1], strides=[2, 1, 2])


def transposed():
    for size, kernel, stride, dilation, pads, more in itertools.product((3, 6), (1, 2, 3, 4), (1, 2, 3), (1, 2, 3),
                                                                       ((0, 0), (1, 1), (2, 0)), (0, 1)):
        if more < max(stride, dilation) and (size - 1) * stride + (kernel - 1) * dilation + 1 + more > sum(pads):
            yield run("ConvTranspose", 11, [floats(1, 2, size, 3), floats(2, 3, kernel, 2), floats(3)],
                      strides=[stride, 2], dilations=[dilation, 1], pads=[pads[0], 0, pads[1], 1],
                      output_padding=[more, 0])
    for auto_pad, size, stride in itertools.product(("SAME_UPPER", "SAME_LOWER", "VALID"), (4, 5), (1, 2, 3)):
        for kernel, dilation in ((1, 1), (2, 1), (4, 1), (1, 3), (2, 3)):
            yield run("ConvTranspose", 11, [floats(1, 2, size), floats(2, 2, kernel)], auto_pad=auto_pad,
                      strides=[stride], dilations=[dilation])
        yield run("ConvTranspose", 11, [floats(1, 2, size), floats(2, 2, 4)], auto_pad=auto_pad, strides=[stride],
                  output_shape=[size * stride + 1])
    for wanted in (7, 10, 11, 12, 13, 14):
        yield run("ConvTranspose", 11, [floats(1, 2, 4, 4), floats(2, 1, 3, 3)], strides=[3, 3],
                  output_shape=[wanted, 10])
    for group, per_group, filters in ((2, 1, 2), (3, 2, 1), (4, 1, 1)):
        yield run("ConvTranspose", 11, [floats(2, group * per_group, 3, 4),
                                        floats(group * per_group, filters, 3, 2)], group=group, strides=[2, 1])
    yield run("ConvTranspose", 11, [floats(1, 2, 2, 3, 2), floats(2, 2, 2, 2, 3)], pads=[1, 0, 0, 0, 1, 1],
              strides=[2, 1, 2])


def products():
    for a, b in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 2, 3), (3, 4)), ((2, 1, 2, 3), (3, 3, 2)),
                 ((0, 3), (3, 2)), ((2, 0), (0, 2))):
        yield run("MatMul", 9, [floats(*a), floats(*b)])
    for ta, tb, c, opset in itertools.product((0, 1), (0, 1), ((), (1,), (4,), (2, 1), (2, 4)), (7, 13)):
        yield run("Gemm", opset, [floats(*((3, 2) if ta else (2, 3))), floats(*((4, 3) if tb else (3, 4))),
                                  floats(*c)], transA=ta, transB=tb, alpha=0.5, beta=-2.0)


def rows():
    for op, opset, axis in itertools.product(("Softmax", "LogSoftmax"), (7, 11, 13), (0, 1, 2, -1)):
        if axis >= 0 or opset >= 11:
            yield run(op, opset, [floats(2, 3, 4)], axis=axis)
    for op, opset in itertools.product(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                                        "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"), (7, 11, 13, 18)):
        as_input = opset >= (13 if op == "ReduceSum" else 18)
        for axes, keep in itertools.product(((0,), (1, 2), (-1,), None), (0, 1)):
            if axes and axes[0] < 0 and opset < 11:
                continue
            inputs, attrs = [floats(2, 3, 4)], {"keepdims": keep}
            if axes and as_input:
                inputs.append(ints(*axes))
            elif axes:
                attrs["axes"] = list(axes)
            yield run(op, opset, inputs, **attrs)
    for op, axis, keep, last in itertools.product(("ArgMax", "ArgMin"), (0, 1, -1), (0, 1), (0, 1)):
        yield run(op, 13, [np.round(floats(3, 4, 5))], axis=axis, keepdims=keep, select_last_index=last)
    for opset in (7, 9, 14, 15):
        yield run("BatchNormalization", opset, [floats(2, 3, 4, 2), floats(3), floats(3), floats(3), abs(floats(3))],
                  epsilon=1e-3)
    yield run("LayerNormalization", 17, [floats(2, 3, 4), floats(3, 4), floats(3, 4)], 1, axis=1)
    for axis in (-1, 1, 0):
        yield run("RMSNormalization", 23, [floats(2, 3, 4), floats(4)], axis=axis, epsilon=1e-3)
    yield run("InstanceNormalization", 6, [floats(2, 3, 4, 2), floats(3), floats(3)])
    yield run("LRN", 1, [floats(1, 6, 2, 2)], size=5, alpha=0.5, beta=0.6, bias=2.0)


def shapes():
    for opset in (1, 9):
        yield run("Slice", opset, [floats(4, 6)], starts=[1, -4], ends=[3, 1000])
        yield run("Slice", opset, [floats(4, 6)], starts=[-3], ends=[-1], axes=[1])
    for start, end, step in itertools.product((-9, -2, 0, 3, 9), (-9, -1, 2, 9, 2**63 - 1, -2**63), (-3, -1, 1, 2)):
        if end == 2**63 - 1 and step < 0:
            continue  # there ONNX Runtime departs from ONNX's text: it takes the end to be left out
        for opset in (10, 13):
            yield run("Slice", opset, [floats(5, 2), ints(start), ints(end), ints(0), ints(step)])
    for opset in (7, 11):
        yield run("Squeeze", opset, [floats(1, 3, 1)], axes=[0])
        yield run("Squeeze", opset, [floats(1, 3, 1)])
        yield run("Unsqueeze", opset, [floats(3, 2)], axes=[0, 3])
    yield run("Squeeze", 13, [floats(1, 3, 1), ints(-1)])
    yield run("Unsqueeze", 13, [floats(3, 2), ints(-1, 0)])
    yield run("Split", 11, [floats(2, 6)], 3, axis=1)
    yield run("Split", 2, [floats(2, 6)], 2, axis=-1, split=[4, 2]) or run("Split", 11, [floats(2, 6)], 2, axis=-1,
                                                                         split=[4, 2])
    yield run("Split", 13, [floats(2, 6), ints(1, 5)], 2, axis=1)
    yield run("Split", 18, [floats(7, 2)], 3, num_outputs=3)
    for opset, mode in itertools.product((2, 11, 18), ("constant", "reflect", "edge")):
        pads = [1, 2, 0, 1]
        if opset == 2:
            yield run("Pad", opset, [floats(3, 4)], pads=pads, mode=mode, value=1.5)
        else:
            yield run("Pad", opset, [floats(3, 4), ints(*pads), np.array(1.5, dtype=np.float32)], mode=mode)
    yield run("Pad", 11, [floats(4, 4), ints(-1, 1, 2, -2)])
    yield run("Pad", 18, [floats(3, 4), ints(1, 2), None, ints(-1)])
    yield run("Pad", 19, [floats(3, 4), ints(2, 3, 4, 1)], mode="wrap")
    for shape in ((0, -1), (4, 0, -1), (-1,), (2, 2, 3, 2), (24,)):
        yield run("Reshape", 13, [floats(2, 3, 4), ints(*shape)])
    for perm in itertools.permutations(range(3)):
        yield run("Transpose", 13, [floats(2, 3, 4)], perm=list(perm))
    yield run("Concat", 4, [floats(2, 1), floats(2, 0), floats(2, 3)], axis=1)
    yield run("Gather", 13, [floats(3, 4), ints(0, -1, 2).reshape(3, 1)], axis=1)
    yield run("Gather", 1, [floats(3, 4), ints(2, 0)], axis=0)
    yield run("GatherElements", 13, [floats(3, 4), ints(0, -1, 2, 1).reshape(1, 4)], axis=0)
    for equation, *shapes in (("ij,jk", (2, 3), (3, 4)), ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4)),
                              ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)), ("ii->i", (3, 3)), ("ij->", (2, 3)),
                              ("...ij,...jk->...ik", (2, 1, 3, 4), (2, 4, 5)), ("cba", (2, 3, 4)), ("i,j->ij", (2,), (3,)),
                              ("a,ab,abc->c", (2,), (2, 3), (2, 3, 4)), ("b...a->a...", (2, 3, 4))):
        yield run("Einsum", 12, [floats(*shape) for shape in shapes], equation=equation)
    pairs = ints(0, -1, 2, 1).reshape(2, 2)
    yield run("GatherND", 11, [floats(3, 4, 2), pairs])
    yield run("GatherND", 13, [floats(2, 3, 4), pairs - 1], batch_dims=1)
    yield run("ScatterND", 13, [floats(3, 4, 2), pairs, floats(2, 2)])
    yield run("ScatterND", 13, [floats(3, 4), ints(2, 0).reshape(2, 1), floats(2, 4)])
    for reduction in ("add", "mul", "max", "min"):
        yield run("ScatterND", 18, [floats(3, 4), ints(1, 1, -2).reshape(3, 1), floats(3, 4)], reduction=reduction)
        yield run("ScatterElements", 18, [floats(3, 4), ints(0, 2, 0, -1).reshape(2, 2), floats(2, 2)], axis=1, reduction=reduction)
    yield run("ScatterElements", 13, [floats(3, 4), ints(0, -1, 2, 1).reshape(1, 4), floats(1, 4)])
    yield run("Scatter", 9, [floats(3, 4), ints(0, 1, 2, 1).reshape(1, 4), floats(1, 4)], axis=0)
    for axis in (0, 1, -1):
        yield run("OneHot", 11, [ints(0, -1, 7, 2).reshape(2, 2), ints(3).reshape(()), floats(2)], axis=axis)
    for opset, mode, outside, corners in itertools.product((16, 20), (0, 1, 2), ("zeros", "border", "reflection"), (0, 1)):
        name = (("bilinear", "nearest", "bicubic") if opset == 16 else ("linear", "nearest", "cubic"))[mode]
        how = dict(mode=name, padding_mode=outside, align_corners=corners)
        if mode != 2 or outside != "border":  # there ONNX Runtime isn't as ONNX says
            yield run("GridSample", opset, [floats(2, 3, 5, 4), 1.4 * floats(2, 4, 3, 2)], **how)
            yield run("GridSample", opset, [floats(1, 1, 1, 2), 3 * floats(1, 2, 9, 2)], **how)
        if opset == 20 and mode != 2:
            yield run("GridSample", opset, [floats(1, 2, 3, 5, 4), 1.4 * floats(1, 2, 4, 3, 3)], **how)
    for axis, p in itertools.product((0, 1, -1), (1, 2)):
        yield run("LpNormalization", 13, [floats(3, 4, 5)], axis=axis, p=p)
    yield run("LpNormalization", 13, [np.zeros((2, 3), np.float32)])
    yield run("Expand", 8, [floats(3, 1), ints(2, 1, 4)])
    yield run("Tile", 6, [floats(3, 1), ints(2, 3)])
    for upper, k in itertools.product((0, 1), (-9, -1, 0, 2, 9)):
        yield run("Trilu", 14, [floats(2, 3, 4), ints(k).reshape(())], upper=upper)
    yield run("Trilu", 14, [ints(1, 2, 3, 4, 5, 6).reshape(3, 2)])
    for axis, reverse, exclusive in itertools.product((0, -1), (0, 1), (0, 1)):
        yield run("CumSum", 14, [floats(3, 4), ints(axis).reshape(())], reverse=reverse, exclusive=exclusive)
    yield run("CumSum", 11, [ints(3, -1, 2), ints(0)])
    for start, end in ((0, 4), (-1, 4), (1, -1), (-9, 9), (3, 1)):
        yield run("Shape", 15, [floats(2, 3, 4)], start=start, end=end)


def squares():
    for block, mode in itertools.product((1, 2, 3), ("DCR", "CRD")):
        yield run("DepthToSpace", 13, [floats(2, 36, 2, 3)], blocksize=block, mode=mode)
    for block in (1, 2, 3):
        yield run("SpaceToDepth", 13, [floats(2, 3, 6, 12)], blocksize=block)
    for shape, groups in itertools.product(((2, 6, 5), (1, 6, 3, 4), (2, 12, 2, 2, 3)), (1, 2, 3, 6)):
        x = floats(*shape) + 0.5  # ONNX Runtime loses digits where the mean is large
        yield run("GroupNormalization", 21, [x, floats(shape[1]), floats(shape[1])], num_groups=groups)


def elements():
    hard = np.array([0.0, -0.0, 1.5, -2.5, 0.5, np.nan, np.inf, -np.inf, 3e38, 1e-40, -7.0, 88.0], dtype=np.float32)
    for op, opset in (("Relu", 14), ("LeakyRelu", 16), ("Elu", 6), ("Selu", 6), ("Celu", 12), ("Sigmoid", 13),
                      ("HardSigmoid", 6), ("HardSwish", 14), ("Softsign", 1), ("Tanh", 13), ("Erf", 13), ("Exp", 13),
                      ("Sin", 7), ("Cos", 7), ("Log", 13), ("Sqrt", 13), ("Reciprocal", 13), ("Floor", 13), ("Ceil", 13), ("Round", 11),
                      ("Neg", 13), ("Abs", 13), ("ThresholdedRelu", 10), ("IsNaN", 13), ("IsInf", 10)):
        yield run(op, opset, [hard])
    for below, above in ((0, 1), (1, 0), (0, 0)):
        yield run("IsInf", 10, [hard], detect_negative=below, detect_positive=above)
    pairs = np.array(list(itertools.product(hard, hard)), dtype=np.float32)
    for op, opset in (("Add", 14), ("Sub", 14), ("Mul", 14), ("Div", 14), ("Max", 13), ("Min", 13), ("Equal", 13),
                      ("Less", 13), ("Greater", 13), ("LessOrEqual", 16), ("GreaterOrEqual", 16), ("Pow", 15)):
        yield run(op, opset, [pairs[:, 0].copy(), pairs[:, 1].copy()])
    yield run("Clip", 13, [hard, np.array(-1, dtype=np.float32), np.array(2, dtype=np.float32)])
    yield run("Clip", 13, [hard, None, np.array(2, dtype=np.float32)])
    yield run("Clip", 6, [hard], min=-1.0)
    yield run("Clip", 12, [ints(-5, 0, 5), ints(-2).reshape(()), ints(3).reshape(())])
    yield run("Div", 14, [ints(7, -7, 7, -7), ints(2, 2, -2, -2)])
    for fmod in (0, 1):
        yield run("Mod", 13, [ints(7, -7, 7, -7, 0), ints(3, 3, -3, -3, 5)], fmod=fmod)
    yield run("Pow", 13, [floats(3), ints(2, 3, 0)])
    yield run("Pow", 13, [ints(2, -3, 5), ints(10, 3, 0)])
    yield run("Sum", 8, [floats(2, 3), floats(3), floats(1)])
    yield run("PRelu", 16, [floats(2, 3, 2), floats(3, 1)])
    for to in (1, 6, 7, 9, 11):
        yield run("Cast", 13, [np.array([0, 1.9, -1.9, 5], dtype=np.float32)], to=to)
    yield run("Cast", 13, [ints(0, 3, -(2**40))], to=6)
    yield run("Where", 9, [np.array([[True], [False]]), floats(1, 3), floats(2, 1)])
    for opset in (7, 10, 12, 13):  # until 10 the mask is unspecified, and all false there; ours says what was kept
        yield run("Dropout", opset, [floats(3)], 2 if opset >= 12 else 1)


def quantizations():
    x = np.concatenate([rng.standard_normal(40) * 20, [0, 0.5, 1.5, -2.5, 1e30, -1e30]]).astype(np.float32)
    for kind, zero, scale in itertools.product((np.uint8, np.int8), (0, 3, 100), (0.5, 0.1, 1e-20)):
        point, step = np.array(zero, kind), np.array(scale, np.float32)
        yield run("QuantizeLinear", 13, [x, step, point])
        yield run("DequantizeLinear", 13, [np.arange(-9, 9).astype(kind), step, point])
    yield run("QuantizeLinear", 10, [x, np.array(0.3, np.float32)])
    yield run("DequantizeLinear", 13, [np.array([-(2**31), 2**24 + 1, 7], np.int32), np.array(0.3, np.float32)])
    for axis in (0, 1, -1):
        steps = np.abs(floats(3)) + 0.1
        points = np.array([1, 2, 3], np.uint8)
        yield run("QuantizeLinear", 13, [floats(3, 3, 3), steps, points], axis=axis)
        yield run("DequantizeLinear", 13, [rng.integers(0, 256, (3, 3, 3), np.uint8), steps, points], axis=axis)
    for block in (2, 3, 4):
        steps = np.abs(floats(2, -(-6 // block))) + 0.1
        yield run("DequantizeLinear", 21, [rng.integers(-128, 128, (2, 6), np.int8), steps], axis=1, block_size=block)
        yield run("QuantizeLinear", 21, [floats(2, 6), steps], axis=1, block_size=block, output_dtype=3)
    for values in (x, np.abs(x) + 1, -np.abs(x) - 1, x * 0, floats(5, 7), floats(1)):
        yield run("DynamicQuantizeLinear", 11, [values.astype(np.float32)], 3)


def resizes():
    modes = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
    for size, to in itertools.product((1, 2, 5, 8), (1, 2, 3, 5, 8, 10, 13, 16)):
        for mode, where in itertools.product(("nearest", "linear", "cubic"), modes):
            common = {"mode": mode, "coordinate_transformation_mode": where}
            x = [floats(1, 1, size, 3), None, None, ints(1, 1, to, 3)]
            if mode == "nearest":
                # ONNX Runtime's floats come to rest beside the integers that the symmetric mode's middle makes.
                exact = () if where == "half_pixel_symmetric" else ("floor", "ceil")
                for nearest in ("round_prefer_floor", "round_prefer_ceil", *exact):
                    yield run("Resize", 13, x, nearest_mode=nearest, **common)
            else:
                yield run("Resize", 13, x, **common)
    for factor, mode, where in itertools.product((0.3, 0.5, 0.61, 1, 1.3, 2, 2.7, 3), ("nearest", "linear", "cubic"),
                                                 ("half_pixel", "asymmetric")):
        scales = np.array([1, 1, factor, 2], dtype=np.float32)
        yield run("Resize", 13, [floats(1, 2, 7, 5), None, scales], mode=mode, coordinate_transformation_mode=where)
    for exclude, a in itertools.product((0, 1), (-0.75, -0.5)):
        yield run("Resize", 13, [floats(1, 1, 4, 6), None, None, ints(1, 1, 9, 4)], mode="cubic", cubic_coeff_a=a,
                  exclude_outside=exclude)
    for policy, to in itertools.product(("stretch", "not_larger", "not_smaller"), ((7, 8), (3, 9), (10, 2))):
        yield run("Resize", 18, [floats(1, 1, 4, 6), None, None, ints(*to)], axes=[2, 3],
                  keep_aspect_ratio_policy=policy)
    for scale in (0.3, 0.7, 0.8, 1.3):  # of 4 and of 7 elements, also to as many as there were
        for size in (2, 4, 7):
            yield run("Resize", 10, [floats(1, 1, size, 3), np.array([1, 1, scale, 1], dtype=np.float32)], mode="nearest")
    for scale in (1.5, 2, 3):
        scales = np.array([1, 1, scale, 1], dtype=np.float32)
        yield run("Upsample", 9, [floats(1, 1, 4, 3), scales], mode="nearest")
        yield run("Resize", 10, [floats(1, 1, 4, 3), scales], mode="linear")
    yield run("Resize", 13, [ints(1, 2, 3), None, None, ints(7)], mode="nearest")
    # Regions inside the image, across its edges, turned around, and of one point.
    for mode, (top, left, bottom, right), to in itertools.product(
            ("nearest", "linear", "cubic"), ((0.25, 0.5, 0.75, 1), (-0.3, 0, 1.2, 0.6), (1, 0.8, 0, 0.1), (0.5, 0.5, 0.5, 0.5), (0, 0, 1, 1)),
            ((7, 3), (3, 9), (1, 4), (8, 1))):  # ONNX Runtime has no region on an axis that keeps its size
        region = np.array([0, 0, top, left, 1, 1, bottom, right], dtype=np.float32)
        yield run("Resize", 13, [floats(1, 2, 5, 6), region, None, ints(1, 2, *to)], mode=mode,
                  coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.5)
    region = np.array([0.1, -0.2, 0.9, 0.7], dtype=np.float32)
    for mode in ("nearest", "linear"):
        yield run("Resize", 18, [floats(1, 2, 5, 6), region, np.array([1.3, 0.6], dtype=np.float32)], axes=[2, 3], mode=mode,
                  coordinate_transformation_mode="tf_crop_and_resize")


def main():
    refused = 0
    with open(sys.argv[1], "w") as out:
        for case in itertools.chain(windows(), transposed(), products(), rows(), shapes(), elements(), quantizations(), resizes(), squares()):
            if case:
                out.write(json.dumps(case) + "\n")
            else:
                refused += 1
        out.write(json.dumps({"skipped": refused}) + "\n")


if __name__ == "__main__":
    main()
