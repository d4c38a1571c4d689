"""Loops and branches that are decided at run time, or that are long: models beside ONNX Runtime, as they are run, as
artifacts, and as the interpreter in f64 says. check.py runs them.
"""

import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from ordinary import Checker, model

F32, I64 = np.float32, np.int64
N = h.make_node
rng = np.random.default_rng(1)


def real(*shape):
    return rng.standard_normal(shape).astype(F32)


def scalar(value, kind=I64):
    return np.array(value, kind)


def body(nodes, inputs, outputs, weights=None, name="body"):
    """inputs: name to (type, shape); outputs: names."""
    return h.make_graph(nodes, name, [h.make_tensor_value_info(k, t, s) for k, (t, s) in inputs.items()],
                        [onnx.ValueInfoProto(name=o) for o in outputs],
                        [nh.from_array(np.asarray(v), k) for k, v in (weights or {}).items()])


COUNTED = {"i": (T.INT64, []), "go": (T.BOOL, [])}
GOES = N("Identity", ["go"], ["on"])


class LoopChecker(Checker):
    def same(self, what, m, runs, flags=(), verify=True, atol=1e-5, contains=(), artifact_only=False):
        """For each of the runs' inputs: `nestor run`, an artifact, and for the first one `nestor verify`. The artifact is
        compiled once."""
        self.count += 1
        stem = self.path(f"l{self.count}")
        # What the file doesn't say of outputs, ONNX Runtime wants to know.
        onnx.save(m, stem + ".onnx")
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        p = self.run("compile", stem + ".onnx", "-o", stem + ".so", "--threads", "2", *flags)
        if p.returncode != 0:
            return self.report(False, what, p.stdout + p.stderr)
        for k, inputs in enumerate(runs):
            want = session.run(None, inputs)
            feeds = []
            for n, (name, array) in enumerate(inputs.items()):
                np.save(f"{stem}_{k}_{n}.npy", array)
                feeds += ["--input", f"{name}=@{stem}_{k}_{n}.npy"]
            commands = [("artifact", ["run", stem + ".so", *feeds, "-o", stem + ".npz"]),
                        ("run", ["run", stem + ".onnx", *feeds, *flags, "--threads", "1", "-o", stem + ".npz"])]
            if artifact_only:
                commands = commands[:1]
            elif verify and k == 0:
                commands.append(("verify", ["verify", stem + ".onnx", "--against", "graph", *feeds, *flags]))
            for how, command in commands:
                p = self.run(*command)
                if p.returncode != 0:
                    return self.report(False, f"{what}, {how} {k}", p.stdout + p.stderr)
                if how == "verify":
                    continue
                with np.load(stem + ".npz") as got:
                    for o, w in zip(m.graph.output, want):
                        g = got[o.name]
                        if g.shape != w.shape or g.dtype != w.dtype or not np.allclose(g, w, rtol=1e-5, atol=atol, equal_nan=True):
                            return self.report(False, f"{what}, {how} {k}", f"{o.name}: {g.dtype}{g.shape}\n{g}\nwanted {w.dtype}{w.shape}\n{w}")
        shown = self.run("inspect", stem + ".onnx", "--stage", "fused", *flags).stdout if contains else ""
        missing = [c for c in contains if c not in shown]
        return self.report(not missing, what, f"{missing}\n{shown}")


def scans(c):
    steps, width = 3000, 5
    x, start = real(steps, width), real(width)
    add = body([N("Add", ["s", "p"], ["a"]), N("Mul", ["a", "half"], ["t"]), N("Neg", ["t"], ["e"])],
               {"s": (T.FLOAT, [width]), "p": (T.FLOAT, [width])}, ["t", "e"], {"half": F32(0.5)})
    for backward in (0, 1):
        m = model([N("Scan", ["start", "x"], ["last", "all"], body=add, num_scan_inputs=1, scan_input_directions=[backward],
                     scan_output_directions=[backward])], {"start": start, "x": x}, ["last", "all"])
        c.same(f"a long Scan, directions {backward}", m, [{"start": start, "x": x}], contains=["loop: 3000 iterations"])
    # The element is the state: read where the iteration before wrote it.
    same = body([N("Add", ["s", "p"], ["a"]), N("Tanh", ["a"], ["t"]), N("Identity", ["t"], ["e"])],
                {"s": (T.FLOAT, [width]), "p": (T.FLOAT, [width])}, ["t", "e"])
    m = model([N("Scan", ["start", "x"], ["last", "all"], body=same, num_scan_inputs=1)], {"start": start, "x": x}, ["last", "all"])
    c.same("a state that is an element", m, [{"start": start, "x": x}])
    # Along other dimensions, and what is read around it.
    y = real(width, steps)
    other = body([N("Add", ["s", "p"], ["a"]), N("Mul", ["a", "w"], ["t"]), N("MatMul", ["t", "matrix"], ["e"])],
                 {"s": (T.FLOAT, [width]), "p": (T.FLOAT, [width])}, ["t", "e"])
    m = model([N("Abs", ["w0"], ["w"]), N("Scan", ["start", "y"], ["last", "all"], body=other, num_scan_inputs=1, scan_input_axes=[1],
                                         scan_output_axes=[-1])], {"start": start, "y": y, "w0": real(1)}, ["last", "all"],
              {"matrix": real(width, 3)})
    c.same("a Scan along the last dimension", m, [{"start": start, "y": y, "w0": np.full(1, 0.3, F32)}])
    # Parts and elements that nothing computes: the state itself, a constant, a value from around.
    idle = body([N("Add", ["s", "p"], ["t"]), N("Identity", ["s"], ["s1"]), N("Identity", ["k0"], ["k"]), N("Identity", ["start"], ["st"]),
                 N("Identity", ["p"], ["p1"])], {"s": (T.FLOAT, [width]), "p": (T.FLOAT, [width])}, ["t", "s1", "k", "st", "p1"],
                {"k0": np.ones(2, F32)})
    m = model([N("Scan", ["start", "x"], ["last", "before", "ones", "starts", "parts"], body=idle, num_scan_inputs=1)],
              {"start": start, "x": x[:1200]}, ["last", "before", "ones", "starts", "parts"])
    c.same("elements that nothing computes", m, [{"start": start, "x": x[:1200]}])
    # States that change places, and one that stays.
    swap = body([N("Add", ["a", "b"], ["sum"]), N("Mul", ["sum", "half"], ["n"]), N("Identity", ["n"], ["n1"]), N("Identity", ["b"], ["b1"]),
                 N("Identity", ["d"], ["d1"])],
                {"a": (T.FLOAT, [width]), "b": (T.FLOAT, [width]), "d": (T.FLOAT, [2]), "p": (T.FLOAT, [width])},
                ["b1", "n", "d1", "n1"], {"half": F32(0.5)})
    m = model([N("Scan", ["start", "b", "d", "x"], ["la", "lb", "ld", "all"], body=swap, num_scan_inputs=1)],
              {"start": start, "b": real(width), "d": real(2), "x": x}, ["la", "lb", "ld", "all"])
    c.same("states that change places", m, [{"start": start, "b": real(width), "d": real(2), "x": x}])
    # In one another: a row of a matrix, then its elements.
    inner = body([N("Mul", ["u", "decay"], ["v"]), N("Add", ["v", "q"], ["w"]), N("Identity", ["w"], ["w1"])],
                 {"u": (T.FLOAT, []), "q": (T.FLOAT, [])}, ["w", "w1"])
    outer = body([N("Scan", ["zero", "p"], ["end", "sums"], body=inner, num_scan_inputs=1), N("Add", ["s", "end"], ["t"])],
                 {"s": (T.FLOAT, []), "p": (T.FLOAT, [600])}, ["t", "sums"], {"zero": F32(0)})
    z = real(700, 600)
    m = model([N("Sigmoid", ["d0"], ["decay"]), N("Scan", ["s0", "z"], ["last", "all"], body=outer, num_scan_inputs=1)],
              {"s0": F32(1), "z": z, "d0": F32(0.5)}, ["last", "all"])
    c.same("a Scan in a Scan", m, [{"s0": scalar(1, F32), "z": z, "d0": scalar(0.5, F32)}], verify=False, atol=1e-3)


def loops(c):
    width = 4
    x = real(width)
    step = {**COUNTED, "s": (T.FLOAT, [width])}
    sums = body([GOES, N("Mul", ["s", "half"], ["a"]), N("Add", ["a", "x"], ["t"])], step, ["on", "t"], {"half": F32(0.5)})
    m = model([N("Loop", ["n", "", "x"], ["y"], body=sums)], {"n": scalar(3), "x": x}, ["y"])
    c.same("a number of iterations at run time", m, [{"n": scalar(n), "x": x} for n in (3, 0, 1, 2, 7, -1)], contains=["loop: n iterations"])
    m = model([N("Loop", ["n", "c", "x"], ["y"], body=sums)], {"n": scalar(3), "c": scalar(True, bool), "x": x}, ["y"])
    c.same("a condition at first", m, [{"n": scalar(3), "c": scalar(v, bool), "x": x} for v in (True, False)])
    # Until a value of the state says stop.
    until = body([N("Mul", ["s", "two"], ["t"]), N("ReduceMax", ["t"], ["top"], keepdims=0), N("Less", ["top", "most"], ["on"]),
                  N("Cast", ["i"], ["f"], to=T.FLOAT), N("Add", ["k", "f"], ["l"])],
                 {**step, "k": (T.FLOAT, [])}, ["on", "t", "l"], {"two": F32(2)})
    m = model([N("Loop", ["", "c", "x", "k0"], ["y", "k"], body=until)],
              {"c": scalar(True, bool), "x": x, "k0": scalar(0, F32), "most": scalar(50, F32)}, ["y", "k"])
    some = np.abs(x) + F32(0.1)
    c.same("while a condition holds", m, [{"c": scalar(v, bool), "x": s, "k0": scalar(0, F32), "most": scalar(top, F32)}
                                         for v, s, top in ((True, some, 50), (True, some, 0.01), (False, some, 50), (True, some * 30, 1e6))])
    # Known, but long: a number, or a condition that constants decide.
    long = body([GOES, N("Cast", ["i"], ["f"], to=T.FLOAT), N("Sin", ["f"], ["a"]), N("Add", ["s", "a"], ["t"]), N("Mul", ["t", "half"], ["u"])],
                step, ["on", "u", "a"], {"half": F32(0.5)})
    m = model([N("Loop", ["n", "", "x"], ["y", "all"], body=long)], {"x": x}, ["y", "all"], {"n": scalar(5000)})
    c.same("a long Loop", m, [{"x": x}], contains=["loop: 5000 iterations"])
    until = body([N("Add", ["j", "three"], ["k"]), N("Less", ["k", "end"], ["on"]), N("Tanh", ["s"], ["t"]), N("Identity", ["t"], ["t1"])],
                 {**COUNTED, "j": (T.INT64, []), "s": (T.FLOAT, [width])}, ["on", "k", "t", "t1"], {"three": scalar(3), "end": scalar(4000)})
    m = model([N("Loop", ["", "", "j", "x"], ["k", "y", "all"], body=until)], {"x": x}, ["k", "y", "all"], {"j": scalar(0)})
    c.same("a condition that constants decide", m, [{"x": x}], contains=["loop: 1334 iterations"])
    short = body([N("Add", ["j", "three"], ["k"]), N("Less", ["k", "end"], ["on"]), N("Tanh", ["s"], ["t"]), N("Identity", ["t"], ["t1"])],
                 {**COUNTED, "j": (T.INT64, []), "s": (T.FLOAT, [width])}, ["on", "k", "t", "t1"], {"three": scalar(3), "end": scalar(8)})
    m = model([N("Loop", ["", "", "j", "x"], ["k", "y", "all"], body=short)], {"x": x}, ["k", "y", "all"], {"j": scalar(0)})
    c.same("the same in a few iterations", m, [{"x": x}])
    none = body([GOES, N("Tanh", ["s"], ["t"]), N("Neg", ["t"], ["e"])], step, ["on", "t", "e"])
    m = model([N("Loop", ["n", "", "x"], ["y", "all"], body=none)], {"x": x}, ["y", "all"], {"n": scalar(0)})
    c.same("no iteration, and no element", m, [{"x": x}])
    # In one another, with names from around both.
    inner = body([N("Identity", ["go2"], ["on2"]), N("Add", ["v", "x"], ["v1"]), N("Mul", ["v1", "scale"], ["w"])],
                 {"i2": (T.INT64, []), "go2": (T.BOOL, []), "v": (T.FLOAT, [width])}, ["on2", "w"])
    outer = body([GOES, N("Loop", ["i", "", "s"], ["r"], body=inner), N("Add", ["r", "x"], ["t"])], step, ["on", "t"])
    m = model([N("Sigmoid", ["q"], ["scale"]), N("Loop", ["n", "", "x"], ["y"], body=outer)], {"n": scalar(4), "x": x, "q": scalar(0.1, F32)}, ["y"])
    c.same("a Loop in a Loop, of as many iterations", m, [{"n": scalar(n), "x": x, "q": scalar(0.1, F32)} for n in (4, 0, 1, 9)])
    picked = body([GOES, N("Gather", ["rows", "i"], ["r"]), N("Add", ["s", "r"], ["t"])], step, ["on", "t"])
    m = model([N("Loop", ["n", "", "x"], ["y"], body=picked)], {"n": scalar(3), "x": x}, ["y"], {"rows": real(8, width)})
    c.same("what the iteration's number picks", m, [{"n": scalar(n), "x": x} for n in (3, 8)], flags=["--check-indices"])


def branches(c):
    x = real(3, 4)
    yes = body([N("Relu", ["x"], ["t"]), N("Mul", ["t", "w"], ["t1"]), N("ReduceSum", ["t1"], ["r"], keepdims=0)], {}, ["t1", "r"], {"w": real(4)})
    no = body([N("Neg", ["x"], ["e"]), N("ReduceMax", ["e"], ["f"], keepdims=0)], {}, ["e", "f"])
    m = model([N("If", ["c"], ["y", "z"], then_branch=yes, else_branch=no)], {"c": scalar(True, bool), "x": x}, ["y", "z"])
    c.same("a condition at run time", m, [{"c": scalar(v, bool), "x": x} for v in (True, False)], contains=["if c", "else"])
    # What a branch hands on without computing it.
    yes = body([N("Identity", ["x"], ["t"]), N("Identity", ["k0"], ["k1"])], {}, ["t", "k1"], {"k0": real(2)})
    no = body([N("Exp", ["x"], ["e"]), N("Identity", ["b"], ["b1"])], {}, ["e", "b1"])
    m = model([N("ReduceSum", ["x"], ["s"], keepdims=0), N("Less", ["s", "zero"], ["c"]), N("If", ["c"], ["y0", "k0"], then_branch=yes, else_branch=no),
               N("Add", ["y0", "x"], ["y"]), N("Mul", ["k0", "k0"], ["k"])], {"x": x, "b": real(2)}, ["y", "k"], {"zero": F32(0)})
    c.same("what branches hand on", m, [{"x": v * np.abs(x), "b": real(2)} for v in (F32(1), F32(-1))])
    m = model([N("If", ["c"], ["y", "k"], then_branch=yes, else_branch=no)], {"c": scalar(True, bool), "x": x, "b": real(2)}, ["y", "k"])
    c.same("the same as outputs", m, [{"c": scalar(v, bool), "x": x, "b": real(2)} for v in (True, False)])
    # An If in an If, in a Loop whose state it makes.
    deep = body([N("If", ["odd"], ["m"], then_branch=body([N("Sin", ["s"], ["m1"])], {}, ["m1"]),
                   else_branch=body([N("If", ["c"], ["m3"], then_branch=body([N("Cos", ["s"], ["m4"])], {}, ["m4"]),
                                       else_branch=body([N("Identity", ["s"], ["m5"])], {}, ["m5"]))], {}, ["m3"]))],
                {}, ["m"])
    loop = body([GOES, N("Mod", ["i", "two"], ["r"]), N("Cast", ["r"], ["odd"], to=T.BOOL),
                 N("If", ["go"], ["t"], then_branch=deep, else_branch=body([N("Abs", ["s"], ["t9"])], {}, ["t9"]))],
                {**COUNTED, "s": (T.FLOAT, [3, 4])}, ["on", "t"], {"two": scalar(2)})
    m = model([N("Loop", ["n", "", "x"], ["y"], body=loop)], {"n": scalar(5), "c": scalar(True, bool), "x": x}, ["y"])
    c.same("branches in branches in a Loop", m, [{"n": scalar(n), "c": scalar(v, bool), "x": x} for n, v in ((5, True), (5, False), (0, True), (1, False))])
    stop = body([N("If", ["c"], ["s1"], then_branch=body([N("Loop", ["n", "", "x"], ["q"], body=body(
        [N("Identity", ["g2"], ["o2"]), N("Add", ["v", "x"], ["w"])], {"i2": (T.INT64, []), "g2": (T.BOOL, []), "v": (T.FLOAT, [3, 4])}, ["o2", "w"]))],
        {}, ["q"]), else_branch=body([N("Neg", ["x"], ["e"])], {}, ["e"]))], {}, ["s1"])
    m = model([N("If", ["d"], ["y"], then_branch=stop, else_branch=body([N("Sqrt", ["x"], ["e9"])], {}, ["e9"]))],
              {"n": scalar(5), "c": scalar(True, bool), "d": scalar(True, bool), "x": np.abs(x)}, ["y"])
    c.same("a Loop in a branch", m, [{"n": scalar(2), "c": scalar(a, bool), "d": scalar(b, bool), "x": np.abs(x)} for a in (True, False) for b in (True, False)])
    # Convolutions, whose weights are packed and whose values lie in blocks of channels.
    image = real(1, 16, 12, 12)
    yes = body([N("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]), N("Relu", ["a"], ["b"]), N("Conv", ["b", "w2"], ["t"], pads=[1, 1, 1, 1])],
               {}, ["t"], {"w1": real(32, 16, 3, 3), "w2": real(16, 32, 3, 3)})
    no = body([N("Conv", ["x", "w3"], ["e"])], {}, ["e"], {"w3": real(16, 16, 1, 1)})
    m = model([N("Relu", ["x0"], ["x"]), N("If", ["c"], ["y0"], then_branch=yes, else_branch=no), N("Relu", ["y0"], ["y"])],
              {"c": scalar(True, bool), "x0": image}, ["y"])
    c.same("convolutions in branches", m, [{"c": scalar(v, bool), "x0": image} for v in (True, False)], atol=1e-3)


def kinds(c):
    """Loops and branches among what else the compiler does: blocked layouts, halves, recurrent layers, older opsets."""
    image, w = real(1, 32, 10, 10), real(32, 32, 3, 3) * F32(0.1)
    conv = [N("Conv", ["x", "w0"], ["f"], pads=[1, 1, 1, 1])]
    yes = body([N("Conv", ["f", "w1"], ["t"], pads=[1, 1, 1, 1])], {}, ["t"], {"w1": w})
    no = body([N("Add", ["f", "x"], ["e"])], {}, ["e"])
    m = model([*conv, N("If", ["c"], ["y0"], then_branch=yes, else_branch=no), N("Conv", ["y0", "w0"], ["y"], pads=[1, 1, 1, 1])],
              {"c": scalar(True, bool), "x": image}, ["y"], {"w0": w})
    c.same("convolutions around a branch", m, [{"c": scalar(v, bool), "x": image} for v in (True, False)], atol=1e-3)
    again = body([GOES, N("Conv", ["s", "w0"], ["a"], pads=[1, 1, 1, 1]), N("Relu", ["a"], ["t"])], {**COUNTED, "s": (T.FLOAT, [1, 32, 10, 10])}, ["on", "t"])
    m = model([*conv, N("Loop", ["n", "", "f"], ["y0"], body=again), N("Relu", ["y0"], ["y"])], {"n": scalar(2), "x": image}, ["y"], {"w0": w})
    c.same("a convolution as often as is said", m, [{"n": scalar(n), "x": image} for n in (2, 0, 5)], atol=1e-2)
    half = np.float16
    step = body([N("Mul", ["s", "k"], ["a"]), N("Add", ["a", "p"], ["t"]), N("Relu", ["t"], ["e"])],
                {"s": (T.FLOAT16, [4]), "p": (T.FLOAT16, [4])}, ["t", "e"], {"k": half(0.5)})
    m = model([N("Cast", ["x"], ["h"], to=T.FLOAT16), N("Cast", ["s0"], ["h0"], to=T.FLOAT16),
               N("Scan", ["h0", "h"], ["hl", "ha"], body=step, num_scan_inputs=1), N("Cast", ["hl"], ["last"], to=T.FLOAT),
               N("Cast", ["ha"], ["all"], to=T.FLOAT)], {"s0": real(4), "x": real(900, 4)}, ["last", "all"])
    c.same("a Scan in f16", m, [{"s0": real(4), "x": real(900, 4)}], atol=5e-3)
    size, hidden, steps = 6, 8, 300
    weights = {"W": real(2, 4 * hidden, size), "R": real(2, 4 * hidden, hidden), "B": real(2, 8 * hidden)}
    lstm = N("LSTM", ["x", "W", "R", "B", "lengths"], ["y", "h", "c"], hidden_size=hidden, direction="bidirectional")
    x, lengths = real(steps, 3, size), np.array([300, 1, 170], np.int32)
    m = model([lstm], {"x": x, "lengths": lengths}, ["y", "h", "c"], weights)
    c.same("a long LSTM with lengths", m, [{"x": x, "lengths": lengths}], atol=1e-4)
    gru = N("GRU", ["x", "W", "R", "B"], ["y", "h"], hidden_size=hidden, linear_before_reset=1, direction="reverse")
    weights = {"W": real(1, 3 * hidden, size), "R": real(1, 3 * hidden, hidden), "B": real(1, 6 * hidden)}
    yes = body([gru, N("Squeeze", ["y", "one"], ["t"])], {}, ["t", "h"], {**weights, "one": np.array([1], I64)})
    no = body([N("Shape", ["x"], ["sh"]), N("ConstantOfShape", ["size"], ["e"]), N("ConstantOfShape", ["state"], ["f"])], {}, ["e", "f"],
              {"size": np.array([steps, 3, hidden], I64), "state": np.array([1, 3, hidden], I64)})
    m = model([N("If", ["q"], ["y", "h"], then_branch=yes, else_branch=no)], {"q": scalar(True, bool), "x": x}, ["y", "h"])
    c.same("a long GRU in a branch", m, [{"q": scalar(v, bool), "x": x} for v in (True, False)], atol=1e-4)
    add = body([N("Add", ["s", "p"], ["t"]), N("Identity", ["t"], ["e"])], {"s": (T.FLOAT, [2]), "p": (T.FLOAT, [2])}, ["t", "e"])
    start, rows = real(3, 2), real(3, 5, 2)
    m = model([N("Scan", ["", "start", "x"], ["last", "all"], body=add, num_scan_inputs=1)], {"start": start, "x": rows}, ["last", "all"], opset=8)
    c.same("a Scan over a batch, of opset 8", m, [{"start": start, "x": rows}])


def open_sizes(c):
    """One artifact for all sizes, those of 1 and loops of no iteration among them."""
    width = 5
    sizes = [(2, 40), (1, 1), (3, 2), (1, 100), (2, 16), (4, 7), (2, 40)]
    dims = {"x": ["batch", "seq", width], "start": ["batch", width]}
    runs = [{"x": real(b, s, width), "start": real(b, width)} for b, s in sizes]

    def same(what, nodes, outputs, weights=None, runs=runs, contains=()):
        m = model(nodes, runs[0], outputs, weights, dims=dims)
        c.same(f"{what}, of all sizes", m, runs, artifact_only=True, contains=contains)

    state, part = (T.FLOAT, ["batch", width]), (T.FLOAT, ["batch", width])
    add = body([N("Add", ["s", "p"], ["t"]), N("Tanh", ["t"], ["e"])], {"s": state, "p": part}, ["t", "e"])
    for backward in (0, 1):
        same(f"a Scan, directions {backward}",
             [N("Scan", ["start", "x"], ["last", "all"], body=add, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
                scan_input_directions=[backward], scan_output_directions=[backward])], ["last", "all"], contains=["loop: seq iterations"])
    step = {**COUNTED, "s": state}
    turn = body([GOES, N("Gather", ["x", "i"], ["p"], axis=1), N("MatMul", ["s", "w"], ["m"]), N("Add", ["m", "p"], ["a"]), N("Tanh", ["a"], ["t"]),
                 N("Relu", ["t"], ["e"])], step, ["on", "t", "e"])
    gives_none = body(list(turn.node), step, ["on", "t"])
    steps = [N("Shape", ["x"], ["shape"]), N("Gather", ["shape", "one"], ["n"])]
    weights = {"one": scalar(1), "three": scalar(3), "true": scalar(True, bool), "w": real(width, width)}
    same("a Loop", [*steps, N("Loop", ["n", "true", "start"], ["last", "all"], body=turn)], ["last", "all"], weights)
    same("a Loop of some steps fewer", [*steps, N("Sub", ["n", "three"], ["less"]), N("Loop", ["less", "true", "start"], ["last"], body=gives_none)], ["last"], weights)
    until = body([N("Gather", ["x", "i"], ["p"], axis=1), N("Abs", ["p"], ["q"]), N("Add", ["s", "q"], ["t"]), N("ReduceMax", ["t"], ["top"], keepdims=0),
                  N("Less", ["top", "nine"], ["on"])], step, ["on", "t"], {"nine": F32(9)})
    same("a Loop that data end", [*steps, N("Loop", ["n", "", "start"], ["last"], body=until)], ["last"], weights)
    # What the body computes of sizes, its own and those around it; a state of sizes.
    shapes = body([N("Shape", ["x"], ["xs"]), N("Gather", ["xs", "zero"], ["b"]), N("Cast", ["b"], ["f"], to=T.FLOAT), N("Shape", ["s"], ["ss"]),
                   N("Expand", ["half", "ss"], ["h"]), N("Reshape", ["h", "flat"], ["v"]), N("Reshape", ["v", "ss"], ["r"]), N("Add", ["s", "r"], ["a"]),
                   N("Div", ["a", "f"], ["d"]), N("Add", ["d", "p"], ["t"]), N("Add", ["k", "b"], ["l"])],
                  {"s": state, "k": (T.INT64, []), "p": part}, ["t", "l"], {"zero": scalar(0), "half": np.array([0.5], F32), "flat": np.array([-1], I64)})
    same("a body that computes with sizes", [*steps, N("Scan", ["start", "n", "x"], ["last", "k"], body=shapes, num_scan_inputs=1, scan_input_axes=[1])],
         ["last", "k"], weights)
    inner = body([N("Add", ["u", "q"], ["v"]), N("Identity", ["v"], ["v1"])], {"u": (T.FLOAT, [width]), "q": (T.FLOAT, [width])}, ["v", "v1"])
    outer = body([GOES, N("Scan", ["zeros", "s"], ["total", "sums"], body=inner, num_scan_inputs=1), N("Gather", ["x", "i"], ["p"], axis=1),
                  N("Add", ["sums", "p"], ["a"]), N("Tanh", ["a"], ["t"])], step, ["on", "t", "total"], {"zeros": np.zeros(width, F32)})
    same("a Scan in a Loop", [*steps, N("Loop", ["n", "true", "start"], ["last", "all"], body=outer)], ["last", "all"], weights)
    lengths = [{"x": real(s, b, width), "lengths": 1 + np.arange(b, dtype=np.int32) % s} for b, s in sizes]
    for op, gates, outputs in (("LSTM", 4, ["y", "h", "c"]), ("GRU", 3, ["y", "h"]), ("RNN", 1, ["y", "h"])):
        for direction in ("forward", "reverse", "bidirectional"):
            d = 2 if direction == "bidirectional" else 1
            m = model([N(op, ["x", "w", "r", "b", "lengths"], outputs, hidden_size=8, direction=direction)], lengths[0], outputs,
                      {"w": real(d, gates * 8, width), "r": real(d, gates * 8, 8), "b": real(d, gates * 16)},
                      dims={"x": ["seq", "batch", width], "lengths": ["batch"]})
            c.same(f"{op}, {direction}, of all sizes", m, lengths, artifact_only=True)
    # Branches that data, or sizes, decide.
    relu, negative, same_as = (body([N(op, ["x"], ["t"])], {}, ["t"]) for op in ("Relu", "Neg", "Identity"))
    top = [N("ReduceMax", ["x"], ["top"], keepdims=0), N("Greater", ["top", "limit"], ["c"])]
    only_x = [{"x": r["x"]} for r in runs]
    same("an If", [*top, N("If", ["c"], ["y"], then_branch=relu, else_branch=negative)], ["y"], {"limit": F32(2.2)}, runs=only_x)
    same("an If that hands on", [*top, N("If", ["c"], ["y"], then_branch=relu, else_branch=same_as)], ["y"], {"limit": F32(2.2)}, runs=only_x)
    same("an If by a size", [*steps, N("Greater", ["n", "three"], ["c"]), N("If", ["c"], ["y"], then_branch=relu, else_branch=negative)], ["y"], weights,
         runs=only_x)
    # As exporters write it: an axis that is 1 goes. Usual sizes decide, which are possible ones.
    goes = body([N("Squeeze", ["m", "two"], ["t"])], {}, ["t"], {"two": np.array([2], I64)})
    stays = body([N("Identity", ["m"], ["t"])], {}, ["t"])
    windows = [N("MaxPool", ["x"], ["m"], kernel_shape=[200], strides=[300]), N("Shape", ["m"], ["shape"]), N("Gather", ["shape", "axis"], ["n"]),
               N("Equal", ["n", "one"], ["c"]), N("If", ["c"], ["r"], then_branch=goes, else_branch=stays), N("MatMul", ["r", "w"], ["y"])]
    m = model(windows, {"x": real(1, width, 200)}, ["y"], {**weights, "axis": scalar(2)}, dims={"x": ["batch", width, "seq"]})
    c.same("an If by a size, of other shapes", m, [{"x": real(b, width, s)} for b, s in ((1, 200), (3, 499), (2, 300))], artifact_only=True)
    # One that is only for some sizes ends the runs that take it at others.
    row = body([N("Add", ["x", "rows"], ["t"])], {}, ["t"], {"rows": real(16, width)})
    flags = [{"x": real(2, s, width), "c": scalar(v, bool)} for s, v in ((16, True), (9, False), (16, False))]
    m = model([N("If", ["c"], ["y"], then_branch=row, else_branch=negative)], flags[0], ["y"], dims={"x": ["batch", "seq", width]})
    c.same("a branch for some sizes", m, flags, artifact_only=True)
    stem, feeds = c.save(m, {"x": real(2, 9, width), "c": scalar(True, bool)})
    p = c.run("compile", stem + ".onnx", "-o", stem + ".so")
    p = c.run("run", stem + ".so", *feeds)
    c.report(p.returncode == 1 and "a branch was taken that isn't for these sizes" in p.stderr, "the same at another size", p.stdout + p.stderr)


def limits(c):
    x = real(3)
    double = body([N("Add", ["s", "s"], ["t"]), N("ReduceMax", ["t"], ["top"], keepdims=0), N("Less", ["top", "most"], ["on"])],
                  {**COUNTED, "s": (T.FLOAT, [3])}, ["on", "t"], {"most": F32(1000)})
    m = model([N("Loop", ["", "", "x"], ["y"], body=double)], {"x": x}, ["y"])
    c.same("a loop within its limit", m, [{"x": np.full(3, v, F32)} for v in (1, 400, 2000)], flags=["--max-trips", "10"])
    stem, feeds = c.save(m, {"x": np.full(3, 0.001, F32)})
    p = c.run("run", stem + ".onnx", *feeds, "--max-trips", "10")
    c.report(p.returncode == 1 and "goes on for more than 10 iterations" in p.stderr, "a loop beyond its limit", p.stdout + p.stderr)
    c.run("compile", stem + ".onnx", "-o", stem + ".so", "--max-trips", "10")
    p = c.run("run", stem + ".so", *feeds)
    c.report(p.returncode == 1 and "a loop goes on for more iterations than it was compiled for" in p.stderr, "the same of an artifact", p.stdout + p.stderr)


def refusals(c):
    x = real(3)
    grow = body([GOES, N("Concat", ["s", "x"], ["t"], axis=0)], {**COUNTED, "s": (T.FLOAT, [None])}, ["on", "t"])
    m = model([N("Loop", ["n", "", "x"], ["y"], body=grow)], {"n": scalar(3), "x": x}, ["y"])
    c.refuses("a state that grows", m, "Loop node that makes `y`", "a state grows in each iteration, and only run time tells", "--dim n=..512")
    many = body([GOES, N("Neg", ["s"], ["t"]), N("Neg", ["t"], ["e"])], {**COUNTED, "s": (T.FLOAT, [3])}, ["on", "t", "e"])
    m = model([N("Loop", ["n", "", "x"], ["y", "all"], body=many)], {"n": scalar(3), "x": x}, ["all"])
    c.refuses("elements of an unknown number", m, "its output `all` has an element for each iteration", "--const n=VALUE")
    m = model([N("If", ["c"], ["y"], then_branch=body([N("Neg", ["x"], ["t"])], {}, ["t"]),
                 else_branch=body([N("Concat", ["x", "x"], ["e"], axis=0)], {}, ["e"]))], {"c": scalar(True, bool), "x": x}, ["y"])
    c.refuses("branches of different shapes", m, "`y` is f32[3] if the condition holds and f32[6] if not", "--const c=VALUE")
    # One that is refused ends the runs that take it.
    twice = body([N("Concat", ["x", "x"], ["k"], axis=0), N("Reshape", ["k", "three"], ["e"])], {}, ["e"], {"three": np.array([3], I64)})
    m = model([N("If", ["c"], ["y"], then_branch=body([N("Neg", ["x"], ["t"])], {}, ["t"]), else_branch=twice)], {"c": scalar(True, bool), "x": x}, ["y"])
    stem, feeds = c.save(m, {"c": scalar(False, bool), "x": x})
    p = c.run("compile", stem + ".onnx", "-o", stem + ".so")
    c.report("a run ends with an error where it takes this one: in its branch `body`: Reshape node" in p.stderr, "a warning of it", p.stderr)
    for of in (".onnx", ".so"):
        p = c.run("run", stem + of, *feeds)
        c.report(p.returncode == 1 and ("Reshape node" if of == ".onnx" else "a branch was taken that isn't for these sizes") in p.stderr,
                 f"a run of {of} that takes it", p.stdout + p.stderr)
        _, taken = c.save(m, {"c": scalar(True, bool), "x": x})
        p = c.run("run", stem + of, *taken)
        c.report(p.returncode == 0, f"a run of {of} that takes the other", p.stdout + p.stderr)
    random = body([N("Bernoulli", ["x"], ["t"])], {}, ["t"])
    m = model([N("If", ["c"], ["y"], then_branch=random, else_branch=random)], {"c": scalar(True, bool), "x": real(2, 2)}, ["y"])
    c.refuses("an operator in a branch", m, "If node that makes `y`", "Bernoulli node that makes `t`")
    step = {**COUNTED, "s": (T.FLOAT, [3])}
    sums = body([GOES, N("Add", ["s", "x"], ["t"])], step, ["on", "t"])
    m = model([N("Loop", ["n", "", "x"], ["y"], body=sums)], {"n": scalar(3), "x": x}, ["y"])
    c.refuses("a GPU", m, "control flow isn't supported where the number of iterations is computed at run time, on this target",
              "--const n=VALUE", flags=["--target", "cuda:sm_80"])
    m = model([N("Loop", ["", "", "x"], ["y"], body=sums)], {"x": x}, ["y"])
    c.refuses("a loop without an end", m, "it never ends")


def loops_of_models(checker):
    c = LoopChecker(checker.nestor, checker.work)
    for part in (scans, loops, branches, kinds, open_sizes, limits, refusals):
        part(c)
    sys.exit(f"{c.failed} failed" if c.failed else 0)


