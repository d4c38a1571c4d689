#!/usr/bin/env python3
"""Random ONNX graphs by Nestor and by ONNX Runtime without its optimizer: both must agree.

    run.py [--count N] [--seed S] [--out FOLDER] [--nodes N]        PYTHONPATH names the nestor package

A graph is grown node by node (operators.py); ONNX Runtime runs each new node alone, and one that it refuses, or whose
result isn't finite, is dropped. So every value is known, and a failure can be shrunk: nodes become inputs as long as it
fails in the same way. What is left is written to FOLDER as SEED.onnx, with its inputs beside it in SEED.npz.
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
TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "float64": 1e-9}


class Value:
    def __init__(self, name, array, exact, subgraph=None):
        self.name, self.array, self.exact, self.dtype = name, np.asarray(array), exact, np.asarray(array).dtype


class Graph:
    """Nodes with the values they make; initializers and inputs by name."""

    def __init__(self, opset):
        self.opset, self.nodes, self.weights, self.inputs, self.values = opset, [], {}, {}, {}

    def model(self, outputs=None):
        read = {i for n in self.nodes for i in reads_of(n)}
        made = [o for n in self.nodes for o in n.output if o]
        outputs = outputs or [o for o in made if o not in read]
        graph = helper.make_graph(self.nodes, "g", [info(k, v) for k, v in self.inputs.items()],
                                  [info(o, self.values[o]) for o in outputs],
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
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


# ---- Growing

def array_of(random, dtype, shape):
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2, shape).astype(bool) if dtype == np.bool_ else random.integers(0, 100, shape).astype(dtype)


def grow(seed, nodes):
    random = np.random.default_rng(seed)
    graph = Graph(int(random.choice(OPSETS)))
    pool = []
    for k in range(3 + int(random.integers(4))):
        rank = int(random.choice([0, 1, 2, 2, 3, 3, 4, 4]))
        shape = [int(random.choice([1, 2, 3, 4, 5, 7, 8, 16, 17] if rank < 4 else [1, 2, 3, 4, 8, 9])) for _ in range(rank)]
        dtype = (FLOATS + [np.float32] * 6 + INTS + [np.bool_])[int(random.integers(len(FLOATS) + 7 + len(INTS)))]
        name = f"x{k}"
        graph.inputs[name] = graph.values[name] = array_of(random, dtype, shape)
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
    alone = Graph(graph.opset)
    alone.nodes = [node]
    alone.weights = weights
    known = {n: graph.values[n] for n in reads_of(node) if n in graph.values}
    alone.inputs = known
    try:
        alone.values = {o: np.zeros(0, np.float32) for o in node.output}
        model = alone.model()
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=o) for o in node.output)
        made = run_ort(model, known)
    except Exception:
        return
    for array in made:
        if array.dtype.kind not in "fiub" or array.size > 20000 or array.size == 0 or array.ndim > 5:
            return
        if array.dtype.kind == "f" and not (np.isfinite(array).all() and np.abs(array).max(initial=0) < 1000):
            return
        if array.dtype.kind in "iu" and np.abs(array.astype(np.float64)).max(initial=0) > 1e6:
            return
    graph.nodes.append(node)
    graph.weights.update(weights)
    sources = [v for v in inputs if isinstance(v, Value)]
    for name, array in zip(node.output, made):
        integers = array.dtype.kind in "iub" and op not in ("Cast",)
        exact = (op in EXACT or integers) and all(v.exact for v in sources)
        graph.values[name] = array
        pool.append(Value(name, array, exact))


def inside(random, node, graph, weights):
    """The node in a branch of an If, or as the body of a Loop that runs once or more."""
    x = node.input[0]
    kind, name = int(random.integers(2)), node.output[0]
    inner = helper.make_node(node.op_type, [x if kind == 0 else "state"], [name + "_inner"])
    inner.attribute.extend(node.attribute)
    of = info(name + "_inner", graph.values[x])
    if kind == 0:
        weights["if_" + name] = np.array(bool(random.integers(2)))
        other = helper.make_node("Neg", [x], [name + "_other"])
        branches = [helper.make_graph([inner], "a", [], [of]), helper.make_graph([other], "b", [], [info(name + "_other", graph.values[x])])]
        return helper.make_node("If", ["if_" + name], [name], node.name, then_branch=branches[0], else_branch=branches[1])
    weights["trips_" + name] = np.array(1 + int(random.integers(3)), np.int64)
    step = helper.make_graph([helper.make_node("Identity", ["go"], ["on"]), inner], "body",
                             [info("i", np.array(0, np.int64)), info("go", np.array(True)), info("state", graph.values[x])],
                             [info("on", np.array(True)), of])
    return helper.make_node("Loop", ["trips_" + name, "", x], [name], node.name, body=step)


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
    feeds = {k: v for k, v in graph.inputs.items()}
    try:
        wanted = run_ort(model, feeds)
    except Exception:
        return None
    try:
        got = nestor.compile(model, threads=1)(*feeds.values())
    except nestor.Error as error:
        return "refused", str(error)[:600]
    for name, a, b in zip([o.name for o in model.graph.output], got if isinstance(got, (tuple, list)) else [got], wanted):
        if found := difference(np.asarray(a), b):
            return "wrong", f"{name}: {found}"
    return None


def pruned(graph, without):
    """The graph with the results of a node as inputs, and without what nothing reads any more."""
    out = Graph(graph.opset)
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
    graph = tidy(grow(seed, args.nodes))
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
    parser.add_argument("--out", default="failures")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        warnings.simplefilter("ignore")
        for seed in range(args.seed, args.seed + args.count):
            print(f"done {seed} {int(check(seed, args))}", flush=True)
        return
    # A child process for some graphs each, so that one which ends it is a failure of that graph alone.
    failed, seed, end = 0, args.seed, args.seed + args.count
    while seed < end:
        count = min(50, end - seed)
        child = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", "--seed", str(seed), "--count", str(count),
                                "--nodes", str(args.nodes), "--out", args.out], capture_output=True, text=True, check=False)
        lines = child.stdout.splitlines()
        print("\n".join(line for line in lines if not line.startswith("done ")), end="\n" if len(lines) > count else "")
        outcomes = [line.split() for line in lines if line.startswith("done ")]
        failed += sum(o[2] == "0" for o in outcomes)
        seed += len(outcomes)
        if len(outcomes) < count:
            print(f"seed {seed}: the process ended with {child.returncode}\n{child.stderr[-2000:]}", flush=True)
            failed += 1
            seed += 1
    print(f"{args.count} random models, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
