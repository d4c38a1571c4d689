"""Small models as exporters write them, through the command line: values as ONNX's reference evaluator or ONNX Runtime
has them, and refusals that say everything at once. check.py runs them.
"""

import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from onnx.reference import ReferenceEvaluator

F32, I64 = np.float32, np.int64
ONNX_TYPE = {np.dtype(k): v for k, v in {"float32": T.FLOAT, "int64": T.INT64, "int32": T.INT32, "bool": T.BOOL,
                                         "float64": T.DOUBLE, "int8": T.INT8, "uint8": T.UINT8}.items()}
rng = np.random.default_rng(1)


def real(*shape):
    return rng.standard_normal(shape).astype(F32)


def ints(*values):
    return np.array(values, I64)


def graph(name, nodes, outputs, initializers=None):
    return h.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=o) for o in outputs],
                        [nh.from_array(v, k) for k, v in (initializers or {}).items()])


def value(name, array, dims=None):
    return h.make_tensor_value_info(name, ONNX_TYPE[array.dtype], list(array.shape) if dims is None else dims)


def model(nodes, inputs, outputs, weights=None, opset=17, dims=None, domains=(), functions=()):
    """inputs: arrays by name, whose declared sizes `dims` replaces; outputs: names, or values."""
    g = h.make_graph(nodes, "g", [value(k, v, (dims or {}).get(k)) for k, v in inputs.items()],
                     [onnx.ValueInfoProto(name=o) if isinstance(o, str) else o for o in outputs],
                     [nh.from_array(v, k) for k, v in (weights or {}).items()])
    return h.make_model(g, opset_imports=[h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains],
                        ir_version=9, functions=list(functions))


def ref(name, of_function):
    return onnx.AttributeProto(name=name, type=onnx.AttributeProto.FLOAT, ref_attr_name=of_function)


class Checker:
    def __init__(self, nestor, work):
        self.nestor, self.work, self.failed, self.count = nestor, work, 0, 0
        os.makedirs(work, exist_ok=True)

    def path(self, name):
        return os.path.join(self.work, name)

    def run(self, *args):
        return subprocess.run([self.nestor, *args], capture_output=True, text=True, check=False)

    def report(self, ok, what, shown=""):
        print(f"{'ok  ' if ok else 'FAIL'} {what}", flush=True)
        if not ok:
            self.failed += 1
            print("     " + shown.strip().replace("\n", "\n     "), flush=True)

    def save(self, m, inputs):
        self.count += 1
        stem = self.path(f"m{self.count}")
        onnx.save(m, stem + ".onnx")
        feeds = []
        for k, (name, array) in enumerate(inputs.items()):
            np.save(f"{stem}_{k}.npy", array)
            feeds += ["--input", f"{name}=@{stem}_{k}.npy"]
        return stem, feeds

    def agrees(self, what, m, inputs, *flags, want=None, bound=(), atol=1e-5, warns=""):
        """As the reference evaluator says, or `want`: an array, or a function of ONNX Runtime's session."""
        stem, feeds = self.save(m, {k: v for k, v in inputs.items() if k not in bound})
        p = self.run("run", stem + ".onnx", *feeds, *flags, "--threads", "1", "-o", stem + ".npz")
        if p.returncode != 0 or warns not in p.stderr or (not warns and p.stderr):
            return self.report(False, what, f"exit {p.returncode}\n{p.stdout}{p.stderr}")
        names = [o.name for o in m.graph.output]
        if want == "onnxruntime":
            session = onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
            want = session.run(None, inputs)
        elif want is None:
            want = ReferenceEvaluator(m).run(None, inputs)
        with np.load(stem + ".npz") as got:
            wrong = [f"{n}: {got[n].dtype}{got[n].shape}, wanted {np.asarray(w).dtype}{np.asarray(w).shape}\n{got[n]}\n{w}"
                     for n, w in zip(names, want)
                     if got[n].shape != np.asarray(w).shape or got[n].dtype != np.asarray(w).dtype
                     or not np.allclose(got[n], w, rtol=1e-5, atol=atol, equal_nan=True)]
        return self.report(not wrong, what, "\n".join(wrong))

    def refuses(self, what, m, *needles, flags=(), lacks=()):
        stem, _ = self.save(m, {})
        p = self.run("inspect", stem + ".onnx", "--stage", "graph", *flags)
        missing = [n for n in needles if n not in p.stderr] + [n for n in lacks if n in p.stderr]
        self.report(p.returncode == 1 and not missing, what, f"exit {p.returncode}, {missing}\n{p.stdout}{p.stderr}")


N = h.make_node
x34 = np.arange(-6, 6, dtype=F32).reshape(3, 4)


def branches(c):
    relu = graph("then", [N("Relu", ["x"], ["t"])], ["t"])
    neg = graph("else", [N("Neg", ["x"], ["t"])], ["t"])
    both = {"then_branch": relu, "else_branch": neg}
    for taken in (True, False):
        c.agrees(f"If of a constant {taken}", model([N("If", ["c"], ["y"], **both)], {"x": x34}, ["y"], {"c": np.array(taken)}),
                 {"x": x34})
    # PyTorch's squeeze: the branch depends on a size.
    squeeze = graph("then", [N("Squeeze", ["x", "axis"], ["t"])], ["t"], {"axis": ints(1)})
    same = graph("else", [N("Identity", ["x"], ["e"])], ["e"])
    sized = [N("Shape", ["x"], ["s"]), N("Gather", ["s", "i"], ["d"]), N("Equal", ["d", "one"], ["c"]),
             N("If", ["c"], ["y"], then_branch=squeeze, else_branch=same)]
    for columns in (1, 4):
        x = x34[:, :columns].copy()
        c.agrees(f"If of a size, {columns}", model(sized, {"x": x}, ["y"], {"i": np.array(1, I64), "one": np.array(1, I64)},
                                                   dims={"x": ["B", "C"]}), {"x": x})
    # A condition that an input decides: bound, it is known; the other branch isn't looked at.
    odd = graph("else", [N("Loop", ["n", "", "x"], ["e"], body=graph("body", [], []))], ["e"])
    rate = model([N("Equal", ["sr", "k"], ["c"]), N("If", ["c"], ["y"], then_branch=relu, else_branch=odd)],
                 {"x": x34, "sr": np.array(16000, I64)}, ["y"], {"k": np.array(16000, I64), "n": np.array(3, I64)})
    c.agrees("If of a bound input", rate, {"x": x34, "sr": np.array(16000, I64)}, "--const", "sr=16000", bound=["sr"],
             want=[np.maximum(x34, 0)])
    c.agrees("If of an input, one of whose branches isn't supported", rate, {"x": x34, "sr": np.array(16000, I64)}, want=[np.maximum(x34, 0)],
             warns="a run ends with an error where it takes this one: in its branch `else`: Loop node that makes `e`")
    c.refuses("the branch that isn't supported", rate, "its body doesn't fit its inputs and outputs", flags=["--const", "sr=8000"])
    # Names hide those outside, and branches are inside branches.
    inner = graph("inner", [N("Mul", ["t", "x"], ["u"])], ["u"])
    outer = graph("outer", [N("Add", ["x", "x"], ["t"]), N("If", ["c"], ["u"], then_branch=inner, else_branch=inner)], ["u"])
    nested = model([N("Relu", ["x"], ["t"]), N("If", ["c"], ["y"], then_branch=outer, else_branch=relu), N("Add", ["y", "t"], ["z"])],
                   {"x": x34}, ["z", "y"], {"c": np.array(True)})
    c.agrees("a branch inside a branch", nested, {"x": x34}, want=[2 * x34 * x34 + np.maximum(x34, 0), 2 * x34 * x34])
    # What only the other branch reads isn't refused.
    dead = model([N("NonZero", ["x"], ["z"]), N("Cast", ["z"], ["f"], to=T.FLOAT),
                  N("If", ["c"], ["y"], then_branch=relu, else_branch=graph("else", [N("Neg", ["f"], ["e"])], ["e"]))],
                 {"x": x34}, ["y"], {"c": np.array(True)})
    c.agrees("what another branch reads", dead, {"x": x34}, want=[np.maximum(x34, 0)])
    c.agrees("what no output depends on", model([N("Relu", ["x"], ["y"]), N("NonZero", ["x"], ["z"]), N("Nope", ["z"], ["w"])],
                                                {"x": x34}, ["y"]), {"x": x34}, want=[np.maximum(x34, 0)])


def detectors(c):
    """What stands behind a detector's convolutions: as many boxes as the image has, the best of them first."""
    count = 40
    nodes = [N("Mul", ["s", "half"], ["scores"]),
             N("NonMaxSuppression", ["b", "scores", "most", "overlap", "least"], ["kept"]),
             N("Gather", ["kept", "two"], ["column"], axis=1), N("Squeeze", ["column", "one"], ["at"]),
             N("Gather", ["b", "at"], ["boxes"], axis=1), N("Squeeze", ["boxes", "zero"], ["of_kept"]),
             N("Gather", ["scores", "at"], ["found"], axis=2), N("Squeeze", ["found", "zero_one"], ["list"]),
             N("Shape", ["list"], ["length"]), N("Concat", ["length", "five"], ["both"], axis=0),
             N("ReduceMin", ["both"], ["k"], keepdims=1), N("TopK", ["list", "k"], ["score", "order"]),
             N("Gather", ["of_kept", "order"], ["box"], axis=0),
             N("Concat", ["zero", "order"], ["padded"], axis=0), N("Cast", ["padded"], ["f"], to=T.FLOAT),
             N("RoiAlign", ["image", "box", "of_image"], ["features"], output_height=2, output_width=2, sampling_ratio=2),
             N("Mul", ["order", "zero"], ["of_image"])]
    nodes[-1], nodes[-2] = nodes[-2], nodes[-1]
    weights = {"half": F32(0.5), "most": ints(count), "overlap": np.array([0.5], F32), "two": ints(2), "one": ints(1),
               "zero": ints(0), "zero_one": ints(0, 1), "five": ints(5)}
    for least in (0.1, 0.45, 2):  # which leaves many, few and none
        corner = rng.random((1, count, 2)) * 8
        boxes = np.concatenate([corner, corner + rng.random((1, count, 2)) * 6 + 0.5], 2).astype(F32)
        c.agrees(f"a detector's end, scores above {least}",
                 model(nodes, {"b": boxes, "s": np.zeros((1, 1, count), F32), "image": np.zeros((1, 3, 16, 16), F32)},
                       ["score", "box", "f", "features"], {**weights, "least": np.array([least], F32)}),
                 {"b": boxes, "s": rng.random((1, 1, count)).astype(F32), "image": real(1, 3, 16, 16)}, want="onnxruntime")


def pasted_masks(c):
    """A mask for each box, as large as the box, pasted into an image and appended to those before, as Mask R-CNN does."""
    count, height, width = 50, 20, 24
    body = [N("Identity", ["go"], ["on"]), N("Gather", ["boxes", "i"], ["box"]), N("Split", ["box"], ["x0", "y0", "x1", "y1"], axis=0),
            N("Sub", ["x1", "x0"], ["dx"]), N("Add", ["dx", "one"], ["w"]), N("Sub", ["y1", "y0"], ["dy"]), N("Add", ["dy", "one"], ["h"]),
            N("Gather", ["masks", "i"], ["mask"]), N("Unsqueeze", ["mask", "zero"], ["wide"]), N("Concat", ["one", "one", "h", "w"], ["size"], axis=0),
            N("Resize", ["wide", "", "", "size"], ["scaled"], mode="linear"), N("Squeeze", ["scaled", "zero_one"], ["part"]),
            N("Sub", ["bottom", "y1"], ["below"]), N("Sub", ["right", "x1"], ["behind"]),
            N("Concat", ["y0", "w"], ["above_size"], axis=0), N("ConstantOfShape", ["above_size"], ["above"]),
            N("Concat", ["below", "w"], ["below_size"], axis=0), N("ConstantOfShape", ["below_size"], ["under"]),
            N("Concat", ["above", "part", "under"], ["rows"], axis=0), N("Shape", ["rows"], ["high"], end=1),
            N("Concat", ["high", "x0"], ["left_size"], axis=0), N("ConstantOfShape", ["left_size"], ["left"]),
            N("Concat", ["high", "behind"], ["right_size"], axis=0), N("ConstantOfShape", ["right_size"], ["beside"]),
            N("Concat", ["left", "rows", "beside"], ["whole"], axis=1), N("Unsqueeze", ["whole", "zero"], ["image"]),
            N("Cast", ["images"], ["same"], to=T.FLOAT), N("Concat", ["same", "image"], ["more"], axis=0)]
    g = h.make_graph(body, "paste", [h.make_tensor_value_info("i", T.INT64, []), h.make_tensor_value_info("go", T.BOOL, []),
                                     onnx.ValueInfoProto(name="images")],
                     [h.make_tensor_value_info("on", T.BOOL, []), onnx.ValueInfoProto(name="more")])
    corner = rng.integers(0, (width - 7, height - 7), (count, 2))
    feeds = {"masks": real(count, 1, 4, 4), "boxes": np.concatenate([corner, corner + rng.integers(0, 8, (count, 2))], 1)}
    m = model([N("Loop", ["count", "yes", "none"], ["all"], body=g)], feeds, ["all"],
              {"count": np.array(count), "yes": np.array(True), "none": np.zeros((0, height, width), F32), "one": ints(1), "zero": ints(0),
               "zero_one": ints(0, 1), "bottom": ints(height - 1), "right": ints(width - 1)})
    c.refuses("pasted masks without bounds", m, "in its body", "--dim h=..512 --dim w=..512", "'*=..512' bounds all")
    c.agrees("pasted masks", m, feeds, "--dim", "*=..24", want="onnxruntime")


def functions(c):
    gate = h.make_function("my.fn", "Gate", ["a"], ["b"], [N("Sigmoid", ["a"], ["t"]), N("Mul", ["t", "a"], ["b"])],
                           [h.make_opsetid("", 17)])
    relu = h.make_function("my.fn", "Relu", ["a"], ["b"], [N("Max", ["a", "a"], ["b"])], [h.make_opsetid("", 17)])
    twice = h.make_function("my.fn", "Twice", ["a"], ["b"], [N("Gate", ["a"], ["t"], domain="my.fn"), N("Gate", ["t"], ["b"], domain="my.fn")],
                            [h.make_opsetid("", 17), h.make_opsetid("my.fn", 1)])
    call = lambda op, **attrs: [N(op, ["x"], ["y"], domain="my.fn", **attrs)]
    c.agrees("a function", model(call("Gate"), {"x": x34}, ["y"], domains=["my.fn"], functions=[gate]), {"x": x34})
    c.agrees("a function named as an operator", model(call("Relu"), {"x": x34}, ["y"], domains=["my.fn"], functions=[relu]), {"x": x34})
    c.agrees("a function that calls another twice", model(call("Twice"), {"x": x34}, ["y"], domains=["my.fn"], functions=[gate, twice]),
             {"x": x34})
    leaky = N("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(ref("alpha", "slope"))
    given = h.make_function("my.fn", "Leaky", ["a"], ["b"], [leaky], [h.make_opsetid("", 16)], attributes=["slope"])
    fallback = h.make_function("my.fn", "Leaky", ["a"], ["b"], [leaky], [h.make_opsetid("", 16)],
                               attribute_protos=[h.make_attribute("slope", 0.25)])
    for what, function, attrs, slope in (("given", given, {"slope": 0.125}, 0.125), ("left out", given, {}, 0.01),
                                         ("by default", fallback, {}, 0.25), ("over its default", fallback, {"slope": 0.5}, 0.5)):
        c.agrees(f"a function's attribute {what}", model(call("Leaky", **attrs), {"x": x34}, ["y"], domains=["my.fn"], functions=[function]),
                 {"x": x34}, want=[np.where(x34 < 0, F32(slope) * x34, x34)])
    # A branch inside a function, whose own name is that of what the call gives.
    branchy = h.make_function("my.fn", "Branchy", ["a"], ["b"], [
        N("Size", ["a"], ["n"]), N("Constant", [], ["k"], value=nh.from_array(np.array(12, I64))), N("Equal", ["n", "k"], ["c"]),
        N("If", ["c"], ["b"], then_branch=graph("then", [N("Neg", ["a"], ["x"]), N("Mul", ["a", "x"], ["t"])], ["t"]),
          else_branch=graph("else", [N("Identity", ["a"], ["t"])], ["t"]))], [h.make_opsetid("", 17)])
    c.agrees("a branch in a function", model(call("Branchy"), {"x": x34}, ["y"], domains=["my.fn"], functions=[branchy]),
             {"x": x34}, want=[-x34 * x34])
    endless = h.make_function("my.fn", "Endless", ["a"], ["b"], call("Endless")[:0] + [N("Endless", ["a"], ["b"], domain="my.fn")],
                              [h.make_opsetid("my.fn", 1)])
    c.refuses("a function that calls itself", model(call("Endless"), {"x": x34}, ["y"], domains=["my.fn"], functions=[endless]),
              "the function Endless calls itself")


def sizes(c):
    x = real(4, 3)
    relu = [N("Relu", ["x"], ["y"])]
    want = [np.maximum(x, 0)]
    declared = lambda *shape: [h.make_tensor_value_info("y", T.FLOAT, list(shape))]
    c.agrees("an output declared otherwise", model(relu, {"x": x}, declared(1, 3)), {"x": x}, want=want,
             warns="`y` is declared with [1,3], it is f32[4,3]")
    c.agrees("an output of another rank", model(relu, {"x": x}, declared(12)), {"x": x}, want=want, warns="declared with [12]")
    inner = model([N("Neg", ["x"], ["n"]), N("Relu", ["n"], ["y"])], {"x": x}, ["y"])
    inner.graph.value_info.append(h.make_tensor_value_info("n", T.FLOAT, [1, 3]))
    c.agrees("a value declared otherwise", inner, {"x": x}, want=[np.maximum(-x, 0)], warns="`n` is declared with [1,3]")
    c.agrees("an output of unknown size, -1", model(relu, {"x": x}, declared(-1, 3)), {"x": x}, want=want)
    for dim in ("N", None, -1):
        m = model(relu, {"x": x}, ["y"], dims={"x": [dim, 3]})
        c.agrees(f"an input of size {dim}, from the file", m, {"x": x}, want=want)
        c.agrees(f"an input of size {dim}, --dim", m, {"x": x}, "--dim", "x=4,3", want=want)
    c.refuses("a shape that doesn't fit", model(relu, {"x": x}, ["y"], dims={"x": ["N", 3]}), "given with shape [4,5]", "[N,3]",
              flags=["--dim", "x=4,5"])
    c.refuses("a shape of no input", model(relu, {"x": x}, ["y"]), "no input is named `q`", flags=["--dim", "q=4,5"])
    bare = model(relu, {"x": x}, ["y"])
    bare.graph.input[0].type.tensor_type.ClearField("shape")
    c.agrees("an input without a shape, from the file", bare, {"x": x}, want=want)
    c.agrees("an input without a shape, --dim", bare, {"x": x}, "--dim", "x=4,3", want=want)
    c.refuses("an input without a shape", bare, "input `x` has no shape", "--dim x=1,3,224,224")
    c.refuses("an input without a shape, one size", bare, "input `x` has no shape", flags=["--dim", "x.0=4"], lacks=["no input has"])
    c.refuses("an output of another type", model(relu, {"x": x}, [h.make_tensor_value_info("y", T.INT32, [4, 3])]),
              "output `y` is declared as i32, the nodes make f32[4,3]")
    # Names that stand for nothing: both are "?" and differ.
    q = model(relu, {"x": x}, ["y"], dims={"x": ["?", "?"]})
    c.agrees("sizes named ?", q, {"x": x}, want=want)
    c.agrees("sizes named ?, --dim", q, {"x": x}, "--dim", "x.0=4", "--dim", "x.1=3", want=want)


def constants(c):
    x, w = real(2, 3), real(3)
    add = model([N("Add", ["x", "w"], ["y"])], {"x": x, "w": w}, ["y"], dims={"w": ["C"]})
    np.save(c.path("w.npy"), w)
    c.agrees("--const of a file", add, {"x": x, "w": w}, "--const", f"w=@{c.path('w.npy')}", bound=["w"])
    listed = ",".join(str(float(v)) for v in w)
    c.agrees("--const of a list", add, {"x": x, "w": w}, "--dim", "C=3", "--const", f"w={listed}", bound=["w"])
    weight = model([N("Add", ["x", "w"], ["y"])], {"x": x}, ["y"], {"w": w})
    c.agrees("--const of a weight", weight, {"x": x}, "--const", "w=1,2,3", want=[x + np.array([1, 2, 3], F32)])
    shaped = model([N("Reshape", ["x", "s"], ["y"])], {"x": x, "s": ints(3, -1)}, ["y"])
    c.agrees("--const of a shape", shaped, {"x": x, "s": ints(3, -1)}, "--const", "s=3,-1", bound=["s"])
    c.refuses("a shape that isn't known", shaped, "input 1 (shape) is computed at run time")
    for flag, needle in (("q=1", "no input or weight `q`"), ("w=1,2", "2 elements are given, f32[3] has 3"), ("w=a", "isn't a number"),
                         (f"x=@{c.path('w.npy')}", "x"), ("w=@nowhere.npy", "nowhere.npy"), ("w", "NAME="), ("w=", "nothing is given")):
        c.refuses(f"--const {flag.replace(c.work, '')}", weight, needle, flags=["--const", flag])
    c.refuses("--const beyond its type", shaped, "doesn't fit i64", flags=["--const", "s=1.5,2"])


def known_values(c):
    x = real(3, 4)
    # arange as PyTorch wrote it: the places of ones.
    nodes = [N("Shape", ["x"], ["s"]), N("Slice", ["s", "z", "o"], ["n"]), N("ConstantOfShape", ["n"], ["ones"], value=nh.from_array(ints(1))),
             N("NonZero", ["ones"], ["nz"]), N("Squeeze", ["nz", "z"], ["ar"]), N("Gather", ["x", "ar"], ["y"], axis=0)]
    c.agrees("NonZero of ones", model(nodes, {"x": x}, ["y"], {"z": ints(0), "o": ints(1)}, dims={"x": ["N", 4]}), {"x": x})
    k = np.array([[0, 2, 0], [np.nan, 0, -1]], F32)
    c.agrees("NonZero of a weight", model([N("NonZero", ["k"], ["z"]), N("Gather", ["x", "i"], ["y"])], {"x": x}, ["y", "z"],
                                          {"k": k, "i": ints(2, 0)}), {"x": x})
    c.agrees("NonZero of an input", model([N("NonZero", ["x"], ["y"])], {"x": x}, ["y"]), {"x": x})
    for attrs in ({}, {"k": 1}, {"k": -2, "dtype": T.INT64}, {"k": 9}):
        c.agrees(f"EyeLike {attrs}", model([N("EyeLike", ["x"], ["y"], **attrs)], {"x": x}, ["y"]), {"x": x})
    big = real(70, 80)
    c.agrees("a large EyeLike", model([N("EyeLike", ["x"], ["e"], k=3), N("Add", ["x", "e"], ["y"])], {"x": big}, ["y"]), {"x": big})
    theta = real(2, 2, 3)
    for corners in (0, 1):
        c.agrees(f"AffineGrid, align_corners {corners}", model([N("AffineGrid", ["t", "s"], ["y"], align_corners=corners)], {"t": theta},
                 ["y"], {"s": ints(2, 3, 5, 6)}, opset=20), {"t": theta})
    theta = real(1, 3, 4)
    c.agrees("AffineGrid of volumes", model([N("AffineGrid", ["t", "s"], ["y"])], {"t": theta}, ["y"], {"s": ints(1, 2, 3, 4, 5)}, opset=20),
             {"t": theta})
    image = real(1, 2, 12, 17)
    for mode in ("linear", "cubic"):
        for exclude in (0, 1) if mode == "cubic" else (0,):
            for scales in ((1, 1, 0.4, 0.6), (1, 1, 0.3, 1.5)):
                m = model([N("Resize", ["x", "", "s"], ["y"], mode=mode, antialias=1, exclude_outside=exclude)], {"x": image}, ["y"],
                          {"s": np.array(scales, F32)}, opset=18)
                c.agrees(f"Resize with antialias, {mode}, {scales}, {exclude}", m, {"x": image}, want="onnxruntime", atol=1e-4)


def weight_standardization(c):
    """timm's ScaledStdConv2d and StdConv2d: weights go through batch_norm(training=True) at run time."""
    x, w, gain = real(1, 3, 8, 8), real(6, 3, 3, 3), np.full(6, 0.3, F32)
    nodes = [N("Reshape", ["w", "flat"], ["r"]),
             N("BatchNormalization", ["r", "gain", "zero", "mean", "var"], ["n", "m1", "v1"], training_mode=1, epsilon=1e-6, momentum=1.0),
             N("Reshape", ["n", "full"], ["k"]), N("Conv", ["x", "k", "b"], ["c"], pads=[1, 1, 1, 1]), N("Relu", ["c"], ["y"])]
    weights = {"w": w, "flat": ints(1, 6, -1), "gain": gain, "zero": np.zeros(6, F32), "mean": np.zeros(6, F32),
               "var": np.ones(6, F32), "full": ints(6, 3, 3, 3), "b": real(6)}
    c.agrees("weight standardization", model(nodes, {"x": x}, ["y"], weights), {"x": x})
    batch = real(4, 3, 5, 5)
    c.agrees("statistics of a batch", model([N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], training_mode=1)], {"x": batch}, ["y"],
             {"s": real(3), "b": real(3), "m": real(3), "v": np.abs(real(3))}, opset=15), {"x": batch})
    flat = real(5, 3)
    c.agrees("statistics of a flat batch", model([N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], training_mode=1)], {"x": flat},
             ["y"], {"s": real(3), "b": real(3), "m": real(3), "v": np.abs(real(3))}, opset=15), {"x": flat})
    read = model([N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "m1", "v1"], training_mode=1)], {"x": batch}, ["y", "m1"],
                 {"s": real(3), "b": real(3), "m": real(3), "v": np.abs(real(3))}, opset=15)
    c.refuses("running statistics", read, "running statistics are wanted")
    old = model([N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "m1", "v1", "m2", "v2"])], {"x": batch}, ["y"],
                {"s": real(3), "b": real(3), "m": real(3), "v": np.abs(real(3))}, opset=9)
    c.refuses("training of an old opset", old, "training isn't supported")


def quantized_lstm(c):
    """ONNX Runtime's, as its dynamic quantizer writes it."""
    steps, batch, size, hidden = 5, 2, 8, 6
    x = real(steps, batch, size)
    for directions, columns, kind in ((2, False, np.int8), (1, True, np.int8), (1, False, np.uint8)):
        # Of seven bits: ONNX Runtime's sums of signed bytes saturate on processors without VNNI.
        byte = lambda *shape: rng.integers(0 if kind == np.uint8 else -63, 128 if kind == np.uint8 else 64, shape).astype(kind)
        per = (directions, 4 * hidden) if columns else (directions,)
        scale = lambda: rng.uniform(0.004, 0.01, per).astype(F32)
        zero = np.full(per, 128 if kind == np.uint8 else 0, kind)
        weights = {"w": byte(directions, size, 4 * hidden), "r": byte(directions, hidden, 4 * hidden), "b": real(directions, 8 * hidden),
                   "ws": scale(), "wz": zero, "rs": scale(), "rz": zero}
        node = N("DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "h", "c", "", "ws", "wz", "rs", "rz"], ["y", "yh", "yc"], domain="com.microsoft",
                 hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward")
        outs = [h.make_tensor_value_info("y", T.FLOAT, None), h.make_tensor_value_info("yh", T.FLOAT, None),
                h.make_tensor_value_info("yc", T.FLOAT, None)]
        inputs = {"x": x, "h": real(directions, batch, hidden), "c": real(directions, batch, hidden)}
        # A step of the bytes that a state is rounded to, since one differs in its last bit.
        c.agrees(f"DynamicQuantizeLSTM, {directions} directions, {np.dtype(kind)}", model([node], inputs, outs, weights, domains=["com.microsoft"]),
                 inputs, want="onnxruntime", atol=5e-3)


def refusals(c):
    x = real(2, 3)
    nodes = [N("ImageDecoder", ["x"], [f"d{i}"], name=f"det{i}") for i in range(5)]
    nodes += [N("StringNormalizer", ["s"], ["n"]), N("SequenceConstruct", ["x", "x"], ["q"]), N("Unique", ["x"], ["u"]),
              N("RandomNormalLike", ["x"], ["r"]), N("Cast", ["x"], ["t"], to=T.STRING), N("Loop", ["m", "", "x"], ["l"], body=graph("b", [], [])),
              N("LabelEncoder", ["s"], ["e"], domain="ai.onnx.ml")]
    outs = [onnx.ValueInfoProto(name=n) for n in ("d0", "d1", "d2", "d3", "d4", "q", "u", "r", "l", "e")]
    outs += [h.make_tensor_value_info("n", T.STRING, [3]), h.make_tensor_value_info("t", T.STRING, [2, 3])]
    m = model(nodes, {"x": x, "m": np.array(3, I64)}, outs, domains=["ai.onnx.ml"])
    m.graph.input.append(h.make_tensor_value_info("s", T.STRING, [3]))
    c.refuses("all reasons at once", m, "5 ImageDecoder nodes (opset 17, f32; `det0`, `det1`, `det2` and 2 more): the operator isn't supported",
              "input `s` is a tensor of string", "output `n` is a tensor of string", "output `t` is a tensor of string",
              "StringNormalizer node that makes `n` (opset 17): strings aren't supported", "sequences of tensors aren't supported",
              "random numbers", "its body doesn't fit its inputs and outputs", "classical machine learning",
              "Cast node that makes `t`")
    shapes = model([N("Softmax", ["a"], ["y"], name="one"), N("Softmax", ["b"], ["z"], name="two")],
                   {"a": np.zeros((2, 3), np.int32), "b": np.zeros((4, 5), np.int32)}, ["y", "z"])
    c.refuses("one line for shapes that differ", shapes, "2 Softmax nodes (opset 17, i32; `one`, `two`)", "the others are alike")
    # What the file says of a refused node's result lets problems behind it be found.
    behind = model([N("ImageDecoder", ["x"], ["d"]), N("MatMul", ["d", "x"], ["y"])], {"x": x}, ["y"])
    behind.graph.value_info.append(h.make_tensor_value_info("d", T.FLOAT, [2, 7]))
    c.refuses("a problem behind a refused node", behind, "ImageDecoder node", "MatMul node")
    for kind, says in ((T.INT4, "reads `x`, a tensor of int4, which isn't supported there"),
                       (T.FLOAT8E4M3FN, "reads `x`, a tensor of float8e4m3fn, which isn't supported there"),
                       (T.COMPLEX64, "input `x` is a tensor of complex64, which isn't supported")):
        m = model([N("Neg", ["x"], ["y"])], {}, ["y"])
        m.graph.input.append(h.make_tensor_value_info("x", kind, [3]))
        c.refuses(f"an input of type {kind}", m, says)
    unread = model([N("Relu", ["x"], ["y"])], {"x": x}, ["y"])
    unread.graph.input.append(h.make_tensor_value_info("s", T.STRING, [3]))
    c.agrees("an input of strings that nothing reads", unread, {"x": x}, warns="no output depends on the input `s`")


def ordinary(checker):
    c = Checker(checker.nestor, checker.work)
    for part in (branches, detectors, pasted_masks, functions, sizes, constants, known_values, weight_standardization, quantized_lstm, refusals):
        part(c)
    sys.exit(f"{c.failed} failed" if c.failed else 0)
