#!/usr/bin/env python3
"""Random ONNX graphs by Nestor and by ONNX Runtime without its optimizer: both must agree.

    run.py [--count N] [--seed S] [--out FOLDER] [--nodes N] [--open]        PYTHONPATH names the nestor package

A graph is grown node by node (operators.py); ONNX Runtime runs each new node alone, and one that it refuses, or whose
result isn't finite, is dropped. So every value is known, and a failure can be shrunk: nodes become inputs as long as it
fails in the same way. What is left is written to FOLDER as SEED.onnx, with its inputs beside it in SEED.npz.

With --open two sizes of the inputs stay open. The graph is compiled once and run at several sizes; a node is kept if
ONNX Runtime runs it at all of them.
"""
import argparse
import os
import subprocess
import sys
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

import nestor
from operators import FLOATS, INTS, MAKERS, SMOOTH, Maker

OPSETS = [13, 15, 17, 18, 20, 21]
JUMPING = {"Floor", "Ceil", "Round", "Sign", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "ArgMax", "ArgMin", "TopK"}
EXACT = {"Identity", "Neg", "Abs", "Relu", "Max", "Min", "Where", "Clip", "Pad", "Slice", "Gather", "GatherElements", "GatherND", "Concat",
         "Split", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Tile", "Expand", "DepthToSpace", "SpaceToDepth",
         "Trilu", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Shape", "Size", "Cast", "Dropout", "OneHot",
         "ScatterElements", "DequantizeLinear"} | JUMPING
NEEDS_A_SIZE, CONDITION = "dims=", " must hold"  # in an error
WITHIN_ORT = "within ONNX Runtime"  # the last line of a process that it ends: some operators without elements do
TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "float64": 1e-9}


class Value:
    def __init__(self, name, array, exact, subgraph=None):
        self.name, self.array, self.exact, self.dtype = name, np.asarray(array), exact, np.asarray(array).dtype


# What the open sizes are: first while a graph grows, then in further runs. No fixed size is one of the first two.
# Two graphs of three have a run without samples, for which operators must be kept that ONNX Runtime takes without any.
OPENS = [{"n": [5, 1, 2, 8, 17], "m": [7, 3, 1, 16, 7]},
         {"n": [5, 1, 2, 8, 0], "m": [7, 3, 1, 16, 7]},
         {"n": [5, 1, 2, 8, 17], "m": [7, 3, 1, 0, 7]}]


class Graph:
    """Nodes with the values they make; initializers and inputs by name. `open`: sizes by name, of all runs; with it
    `more` are values at further sizes."""

    def __init__(self, opset, open=None):
        self.opset, self.nodes, self.weights, self.inputs, self.values = opset, [], {}, {}, {}
        self.open = open or {}
        self.more = [{} for _ in self.open["n"][1:]] if open else []

    def all_values(self):
        return [self.values, *self.more]

    def shape(self, name):
        """Numbers, and names of sizes that stay open."""
        shapes = [v[name].shape for v in self.all_values()]
        names = {tuple(sizes[:len(shapes)]): n for n, sizes in self.open.items()}
        return [axis[0] if len(set(axis)) == 1 else names.get(axis, f"{name}_{k}") for k, axis in enumerate(zip(*shapes))]

    def info(self, name):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(self.values[name].dtype), self.shape(name))

    def model(self, outputs=None):
        read = {i for n in self.nodes for i in reads_of(n)}
        made = [o for n in self.nodes for o in n.output if o]
        outputs = outputs or [o for o in made if o not in read]
        graph = helper.make_graph(self.nodes, "g", [self.info(k) for k in self.inputs], [self.info(o) for o in outputs],
                                  [numpy_helper.from_array(v, k) for k, v in self.weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)


def info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def reads_of(node):
    inner = [a.g for a in node.attribute if a.HasField("g")]
    return [i for i in node.input if i] + [i for g in inner for n in g.node for i in reads_of(n)]


def run_ort(model, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    if all(np.asarray(a).size for a in feeds.values()):
        return session.run(None, feeds)
    print(WITHIN_ORT, flush=True)
    made = session.run(None, feeds)
    print("out of it", flush=True)
    return made


# ---- Growing

def array_of(random, dtype, shape):
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2, shape).astype(bool) if dtype == np.bool_ else random.integers(0, 100, shape).astype(dtype)


def grow(seed, nodes, is_open):
    random = np.random.default_rng(seed)
    graph = Graph(int(random.choice(OPSETS)), OPENS[seed % len(OPENS)] if is_open else None)
    pool = []
    bases = {sizes[0]: sizes for sizes in graph.open.values()}
    sizes = [1, 2, 3, 4, 8, 16, 17] if is_open else [1, 2, 3, 4, 5, 7, 8, 16, 17]
    for k in range(3 + int(random.integers(4))):
        rank = int(random.choice([0, 1, 2, 2, 3, 3, 4, 4]))
        shape = [int(random.choice(sizes if rank < 4 else [1, 2, 3, 4, 8, 9])) for _ in range(rank)]
        dtype = (FLOATS + [np.float32] * 6 + INTS + [np.bool_])[int(random.integers(len(FLOATS) + 7 + len(INTS)))]
        name = f"x{k}"
        if is_open and k < 4:
            shape = [int(random.choice(list(bases))) if random.integers(3) == 0 else n for n in shape]
        graph.inputs[name] = graph.values[name] = array_of(random, dtype, shape)
        for run, values in enumerate(graph.more):
            values[name] = array_of(random, dtype, [bases[n][run + 1] if n in bases else n for n in shape])
        pool.append(Value(name, graph.inputs[name], True))
    maker = Maker(random, pool, graph.opset)
    tries = 0
    while len(graph.nodes) < nodes and tries < 20 * nodes:
        tries += 1
        try:
            op, inputs, attrs = getattr(maker, MAKERS[int(random.integers(len(MAKERS)))])()
        except LookupError:
            continue
        add(graph, pool, random, op, inputs, attrs)
    return graph


def add(graph, pool, random, op, inputs, attrs):
    attrs = dict(attrs)
    count, k = attrs.pop("outputs", 1), len(graph.nodes)
    names, weights = [], {}
    for i, v in enumerate(inputs):
        names.append("" if v is None else v.name if isinstance(v, Value) else f"w{k}_{i}")
        if isinstance(v, np.ndarray):
            weights[names[-1]] = v
    while names and not names[-1]:
        names.pop()
    if op == "TopK":
        count = 2
    node = helper.make_node(op, names, [f"v{k}_{j}" for j in range(count)], f"n{k}", **attrs)
    if op in SMOOTH and random.integers(8) == 0:
        node = inside(random, node, graph, weights)
    runs = []
    for values in graph.all_values():
        known = {n: values[n] for n in reads_of(node) if n in values}
        made = run_alone(graph.opset, node, weights, known, values is not graph.values)
        if made is None or (runs and any(a.ndim != b.ndim or a.dtype != b.dtype for a, b in zip(made, runs[0]))):
            return
        runs.append(made)
    graph.nodes.append(node)
    graph.weights.update(weights)
    sources = [v for v in inputs if isinstance(v, Value)]
    for values, made in zip(graph.all_values(), runs):
        values.update(zip(node.output, made))
    for name, array in zip(node.output, runs[0]):
        integers = array.dtype.kind in "iub" and op not in ("Cast",)
        exact = (op in EXACT or integers) and all(v.exact for v in sources)
        pool.append(Value(name, array, exact))


def run_alone(opset, node, weights, known, may_be_empty):
    """What the node makes of known values; None where ONNX Runtime refuses it, or the result is of no use here."""
    alone = Graph(opset)
    alone.nodes, alone.weights, alone.inputs = [node], weights, known
    alone.values = dict(known)
    try:
        alone.values.update({o: np.zeros(0, np.float32) for o in node.output})
        model = alone.model()
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=o) for o in node.output)
        made = run_ort(model, known)
    except Exception:
        return None
    if node.op_type == "ReduceMean" and made[0].size and any(a.size == 0 for a in known.values()):
        return None  # the mean of nothing is NaN here and in NumPy, 0 in ONNX Runtime
    for array in made:
        if array.dtype.kind not in "fiub" or array.size > 20000 or (array.size == 0 and not may_be_empty) or array.ndim > 5:
            return None
        if array.dtype.kind == "f" and not (np.isfinite(array).all() and np.abs(array).max(initial=0) < 1000):
            return None
        if array.dtype.kind in "iu" and np.abs(array.astype(np.float64)).max(initial=0) > 1e6:
            return None
    return made


def inside(random, node, graph, weights):
    """The node in a branch of an If, or as the body of a Loop that runs once or more."""
    x = node.input[0]
    kind, name = int(random.integers(2)), node.output[0]
    inner = helper.make_node(node.op_type, [x if kind == 0 else "state"], [name + "_inner"])
    inner.attribute.extend(node.attribute)
    of = info_like(graph, x, name + "_inner")
    if kind == 0:
        weights["if_" + name] = np.array(bool(random.integers(2)))
        other = helper.make_node("Neg", [x], [name + "_other"])
        branches = [helper.make_graph([inner], "a", [], [of]), helper.make_graph([other], "b", [], [info_like(graph, x, name + "_other")])]
        return helper.make_node("If", ["if_" + name], [name], node.name, then_branch=branches[0], else_branch=branches[1])
    weights["trips_" + name] = np.array(1 + int(random.integers(3)), np.int64)
    step = helper.make_graph([helper.make_node("Identity", ["go"], ["on"]), inner], "body",
                             [info("i", np.array(0, np.int64)), info("go", np.array(True)), info_like(graph, x, "state")],
                             [info("on", np.array(True)), of])
    return helper.make_node("Loop", ["trips_" + name, "", x], [name], node.name, body=step)


def info_like(graph, x, name):
    out = graph.info(x)
    out.name = name
    return out


# ---- Comparing

def difference(got, wanted):
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    x, y = got.astype(np.float64), wanted.astype(np.float64)
    allowed = TOLERANCE.get(wanted.dtype.name, 0) * max(1.0, np.abs(y).max(initial=0))
    with np.errstate(all="ignore"):
        bad = ~((np.abs(x - y) <= allowed) | (np.isnan(x) & np.isnan(y)) | (x == y))
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {bad.size} elements differ, at {list(at)} {got[at]} instead of {wanted[at]}"


def problem_of(graph):
    """(kind, sentence): how Nestor's results differ from ONNX Runtime's; None where they don't."""
    model = graph.model()
    compiled = None
    for values in graph.all_values():
        feeds = {k: values[k] for k in graph.inputs}
        try:
            wanted = run_ort(model, feeds)
        except Exception:
            continue
        try:
            compiled = compiled or nestor.compile(model, threads=1, dims=dims_of(graph))
            got = compiled(*feeds.values())
        except nestor.Error as error:
            if graph.more and compiled and CONDITION in str(error):
                count("runs refused by a condition on sizes")
                continue
            if graph.more and not compiled and NEEDS_A_SIZE in str(error):
                count("graphs refused for want of a size")
                return None
            return "refused", str(error)[:600] + at(graph, feeds)
        for name, a, b in zip([o.name for o in model.graph.output], got if isinstance(got, (tuple, list)) else [got], wanted):
            if found := difference(np.asarray(a), b):
                return "wrong", f"{name}: {found}" + at(graph, feeds)
        count("runs compared")
    return None


def dims_of(graph):
    """What the open sizes usually are: as the graph grew."""
    return {n: f"0..64~{values.shape[k]}" for name, values in graph.inputs.items() for k, n in enumerate(graph.shape(name))
            if isinstance(n, str)}


COUNTS = {}


def count(what):
    COUNTS[what] = COUNTS.get(what, 0) + 1


def at(graph, feeds):
    return " at " + " ".join(f"{k}{list(v.shape)}" for k, v in feeds.items()) if graph.more else ""


def pruned(graph, without):
    """The graph with the results of a node as inputs, and without what nothing reads any more."""
    out = Graph(graph.opset)
    out.open, out.more = graph.open, graph.more
    out.values, out.inputs, out.weights = graph.values, dict(graph.inputs), dict(graph.weights)
    out.nodes = [n for n in graph.nodes if n is not without]
    out.inputs.update({o: graph.values[o] for o in without.output})
    return tidy(out)


def tidy(graph):
    read = {i for n in graph.nodes for i in reads_of(n)}
    graph.inputs = {k: v for k, v in graph.inputs.items() if k in read}
    graph.weights = {k: v for k, v in graph.weights.items() if k in read}
    return graph


def shrunk(graph, kind):
    small = True
    while small:
        small = False
        for node in list(graph.nodes):
            if len(graph.nodes) == 1 or node not in graph.nodes:
                continue
            less = pruned(graph, node)
            found = problem_of(less)
            if found and found[0] == kind:
                graph, small = less, True
    return graph


def check(seed, args):
    graph = tidy(grow(seed, args.nodes, args.open))
    if not graph.nodes:
        return True
    found = problem_of(graph)
    if not found:
        return True
    least = shrunk(graph, found[0])
    found = problem_of(least) or found
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, f"{seed}.onnx")
    onnx.save(least.model(), path)
    np.savez(path[:-5] + ".npz", **least.inputs)
    print(f"seed {seed}: {found[0].upper()} {path}: {' '.join(n.op_type for n in least.nodes)}: {found[1]}", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--open", action="store_true", help="sizes stay open")
    parser.add_argument("--out", default="failures")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        warnings.simplefilter("ignore")
        for seed in range(args.seed, args.seed + args.count):
            print(f"done {seed} {int(check(seed, args))}", flush=True)
        for what, times in COUNTS.items():
            print(f"count {times} {what}")
        return
    # A child process for some graphs each, so that one which ends it is a failure of that graph alone.
    failed, seed, end = 0, args.seed, args.seed + args.count
    while seed < end:
        number = min(50, end - seed)
        child = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", "--seed", str(seed), "--count", str(number),
                                "--nodes", str(args.nodes), "--out", args.out] + ["--open"] * args.open, capture_output=True, text=True, check=False)
        lines = child.stdout.splitlines()
        for line in lines:
            if line.startswith("count "):
                _, times, what = line.split(" ", 2)
                COUNTS[what] = COUNTS.get(what, 0) + int(times)
            elif not line.startswith(("done ", WITHIN_ORT, "out of it")):
                print(line)
        outcomes = [line.split() for line in lines if line.startswith("done ")]
        failed += sum(o[2] == "0" for o in outcomes)
        seed += len(outcomes)
        if len(outcomes) < number and lines and lines[-1] == WITHIN_ORT:
            count("graphs at which ONNX Runtime ends the process")
            seed += 1
        elif len(outcomes) < number:
            print(f"seed {seed}: the process ended with {child.returncode}\n{child.stderr[-2000:]}", flush=True)
            failed += 1
            seed += 1
    print(f"{args.count} random models, {failed} failed; " + ", ".join(f"{times} {what}" for what, times in COUNTS.items()))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
