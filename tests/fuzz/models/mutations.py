"""Mutations of a model by its structure: fields, names, shapes, attributes and nodes, not bytes.

All of them work on plain dicts and lists, so that the shorthand and ONNX's messages share them. Each takes a random
generator, so that a seed names a model.
"""

import copy
import json
import os
import re

from onnx_forms import message, to_bytes, to_json
from seeds import SEEDS

INTEGERS = [0, 1, -1, 2, 3, 5, 7, 16, 63, 64, 65, 100, 255, 256, 1000, 4096, 65536, 2**20, 2**31 - 1, 2**31, -2**31, 2**40,
            2**62, 2**63 - 1, -2**63]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 1e30, 3.4e38, float("inf"), float("-inf"), float("nan")]
STRINGS = ["", "x", "y", "nowhere", "a/b.c:0", "\u00e9\u4e2d", "\udcff\udcfe", "n" * 3000, "int main(){}", "..", "NaN", "%s%n", "\0"]
OPERATORS = """Abs Acos Add And ArgMax ArgMin Attention AveragePool BatchNormalization BitShift Cast CastLike Ceil Celu Clip
Col2Im Compress Concat Constant ConstantOfShape Conv ConvInteger ConvTranspose CumSum DepthToSpace DequantizeLinear Det Div
Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu
Gemm GlobalAveragePool GlobalMaxPool Greater GridSample GroupNormalization HardSigmoid Hardmax Identity If
InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less Log LogSoftmax Loop LpNormalization LpPool MatMul
MatMulInteger Max MaxPool MaxUnpool Mean MeanVarianceNormalization Min Mish Mod Mul Neg NonMaxSuppression NonZero Not OneHot Or
PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum
ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign
RotaryEmbedding Round Scan ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Size Slice Softmax Softplus Softsign
SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where
Xor""".split()
ATTRIBUTES = {
    "axis": INTEGERS, "axes": "ints", "perm": "ints", "keepdims": [0, 1, 2], "kernel_shape": "ints", "strides": "ints",
    "pads": "ints", "dilations": "ints", "group": INTEGERS, "epsilon": FLOATS, "alpha": FLOATS, "beta": FLOATS, "transA": [0, 1],
    "transB": [0, 1, 2], "to": INTEGERS, "mode": ["linear", "cubic", "nearest", "constant", "reflect", "edge", "wrap", "DCR", "CRD"],
    "auto_pad": ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"], "ceil_mode": [0, 1], "count_include_pad": [0, 1],
    "blocksize": INTEGERS, "num_heads": INTEGERS, "q_num_heads": INTEGERS, "kv_num_heads": INTEGERS,
    "direction": ["forward", "reverse", "bidirectional"], "hidden_size": INTEGERS, "largest": [0, 1], "sorted": [0, 1],
    "exclusive": [0, 1], "reverse": [0, 1], "upper": [0, 1], "batch_dims": INTEGERS, "noop_with_empty_axes": [0, 1],
    "equation": ["ij,jk->ik", "...ij->...ji", "ii->i", "ij,ij->", "i" * 60 + "->i", "ij->", "->"], "fmod": [0, 1], "start": INTEGERS,
    "end": INTEGERS, "num_outputs": INTEGERS, "allowzero": [0, 1], "value_ints": "ints", "block_size": INTEGERS,
    "output_padding": "ints", "output_shape": "ints", "size": INTEGERS, "p": INTEGERS, "num_groups": INTEGERS, "antialias": [0, 1],
    "layout": [0, 1], "linear_before_reset": [0, 1], "select_last_index": [0, 1], "approximate": ["none", "tanh"], "clip": FLOATS,
    "coordinate_transformation_mode": ["align_corners", "asymmetric", "pytorch_half_pixel", "tf_crop_and_resize"],
    "reduction": ["none", "add", "mul", "max", "min"], "training_mode": [0, 1], "align_corners": [0, 1], "storage_order": [0, 1],
    "activations": ["Sigmoid"]}



def known_attributes():
    """Those of each operator, of all its opsets: from the table that the importer checks them against."""
    table = os.path.join(os.path.dirname(__file__), "../../../src/ops/attributes.cpp")
    known = {}
    with open(table) as f:
        for op, names in re.findall(r'\{"(\w+)", \d+,\s*"([^"]*)"', f.read()):
            known.setdefault(op, set()).update(names.split())
    return known


KNOWN = known_attributes()


def slots(value, into=None):
    """Each place in the tree, as (container, key); of long lists of data a few."""
    into = [] if into is None else into
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if isinstance(value, list) and len(value) > 12 and not isinstance(value[0], (dict, str)):
        keys = keys[:3] + keys[-2:]
    for key in keys:
        into.append((value, key))
        if isinstance(value[key], (dict, list)):
            slots(value[key], into)
    return into


def integer(rng):
    return rng.choice(INTEGERS) if rng.random() < 0.7 else rng.randrange(-4, 12)


def integers(rng):
    return [integer(rng) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 4, 4, 6, 70]))]


class Mutator:
    """Changes `model`, in the shorthand or as a message, in place."""

    def __init__(self, rng, model):
        self.rng, self.model, self.onnx = rng, model, "graph" in model
        self.last = None  # the node that was changed

    def graph(self):
        """Its lists, by their name in the shorthand; whatever earlier mutations left of them."""
        if not self.onnx:
            return self.model
        graphs = self.model.get("graph")
        return graphs[0] if isinstance(graphs, list) and graphs and isinstance(graphs[0], dict) else {}

    def nodes(self):
        found = self.graph().get("node" if self.onnx else "nodes", [])
        return [n for n in found if isinstance(n, dict)] if isinstance(found, list) else []

    def lists(self, node):
        names = ("input", "output") if self.onnx else ("inputs", "outputs")
        return [node[k] for k in names if isinstance(node.get(k), list)]

    def names(self):
        found = [v for n in self.nodes() for names in self.lists(n) for v in names if isinstance(v, str)]
        return found or ["x"]

    def run(self, count):
        kinds = {self.scalar: 3, self.rewire: 4, self.operator: 2, self.attribute: 8, self.node: 6, self.remove: 1, self.repeat: 1,
                 self.splice: 1, self.swap: 1, self.retype: 1, self.dtype: 1, self.dimension: 6, self.value: 4, self.opset: 1}
        for _ in range(count):
            self.rng.choices(list(kinds), list(kinds.values()))[0]()
        if self.rng.random() < 0.6:
            self.focus()

    def focus(self):
        """The model ends at one node: what comes behind would be refused for what doesn't fit any more."""
        def read_by(node):
            return [v for v in self.lists(node)[0] if isinstance(v, str)] if len(self.lists(node)) == 2 else []

        nodes = [n for n in self.nodes() if len(self.lists(n)) == 2 and self.lists(n)[1]]
        if not nodes:
            return
        end = self.last if any(n is self.last for n in nodes) and self.rng.random() < 0.8 else self.rng.choice(nodes)
        made = {v: n for n in nodes for v in self.lists(n)[1] if isinstance(v, str)}
        kept, waiting = [], [end]
        while waiting:
            node = waiting.pop()
            if not any(n is node for n in kept):
                kept.append(node)
                waiting += [made[v] for v in read_by(node) if v in made]
        outputs = [v for v in self.lists(end)[1] if isinstance(v, str) and v]
        self.graph()["node" if self.onnx else "nodes"] = kept[::-1]
        self.graph()["output" if self.onnx else "outputs"] = [{"name": [v]} for v in outputs] if self.onnx else outputs

    def scalar(self):
        """One number or string is another."""
        places = [(c, k) for c, k in slots(self.model) if not isinstance(c[k], (dict, list))]
        if places:
            container, key = self.rng.choice(places)
            container[key] = self.like(container[key])

    def like(self, value):
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return value + self.rng.choice([-1, 1, 2]) if self.rng.random() < 0.3 else integer(self.rng)
        if isinstance(value, float):
            return self.rng.choice(FLOATS)
        if isinstance(value, bytes):
            cut = self.rng.randrange(len(value) + 1)
            return self.rng.choice([b"", value[:cut], value + b"\xff", value * 3, b"SAME_UPPER", b"linear"])
        return self.rng.choice(STRINGS) if self.rng.random() < 0.5 else self.rng.choice(self.names())

    def rewire(self):
        """A node reads or makes another value, or one more."""
        lists = [names for n in self.nodes() for names in self.lists(n)]
        if not lists:
            return
        names, other = self.rng.choice(lists), self.rng.choice(self.names() + [""])
        if names and self.rng.random() < 0.7:
            names[self.rng.randrange(len(names))] = other
        else:
            names.append(other)

    def operator(self):
        if self.nodes():
            self.last, op = self.rng.choice(self.nodes()), self.rng.choice(OPERATORS)
            self.last["op_type" if self.onnx else "op"] = [op] if self.onnx else op

    def attribute_value(self, name):
        choices = ATTRIBUTES[name]
        return integers(self.rng) if choices == "ints" else self.rng.choice(choices)

    def set_attribute(self, node, name):
        value = self.attribute_value(name)
        if not self.onnx:
            if isinstance(node.setdefault("attrs", {}), dict):
                node["attrs"][name] = value
            return
        field, kind = {int: ("i", 2), float: ("f", 1), str: ("s", 3), list: ("ints", 7)}[type(value)]
        values = value if isinstance(value, list) else [value.encode() if isinstance(value, str) else value]
        if isinstance(node.setdefault("attribute", []), list):
            node["attribute"].append({"name": [name], field: values, "type": [kind]})

    def operator_of(self, node):
        op = node.get("op_type" if self.onnx else "op")
        op = op[0] if isinstance(op, list) and op else op
        return op if isinstance(op, str) else ""

    def fitting_attribute(self, node):
        """Mostly one that the operator has."""
        known = sorted(KNOWN.get(self.operator_of(node), set()) & set(ATTRIBUTES))
        return self.rng.choice(known) if known and self.rng.random() < 0.95 else self.rng.choice(list(ATTRIBUTES))

    def attribute(self):
        """A node has an attribute, or another value of one."""
        nodes = [n for n in self.nodes() if KNOWN.get(self.operator_of(n))]
        if nodes:
            self.last = node = self.rng.choice(nodes)
            name = self.fitting_attribute(node)
            if self.onnx and isinstance(node.get("attribute"), list):
                node["attribute"] = [a for a in node["attribute"] if not isinstance(a, dict) or a.get("name") != [name]]
            self.set_attribute(node, name)

    def node(self):
        """A new node between a value and those who read it, or beside them as an output of the graph."""
        if not self.nodes():
            return
        old, new = self.rng.choice(self.names()), f"new{self.rng.randrange(1000)}"
        inputs = [old] + [self.rng.choice(self.names()) for _ in range(self.rng.choice([0, 0, 1, 1, 2, 3]))]
        op, outputs = self.rng.choice(OPERATORS), [new] + [f"{new}_{i}" for i in range(self.rng.choice([0, 0, 0, 1, 2]))]
        if self.onnx:
            node = {"op_type": [op], "name": [new], "input": inputs, "output": outputs}
        else:
            node = {"op": op, "name": new, "inputs": inputs, "outputs": outputs}
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            self.set_attribute(node, self.fitting_attribute(node))
        if self.rng.random() < 0.5:
            for other in self.nodes():
                names = other.get("input" if self.onnx else "inputs")
                if isinstance(names, list):
                    names[:] = [new if n == old else n for n in names]
        elif isinstance(self.graph().get("output" if self.onnx else "outputs"), list):
            self.graph()["output" if self.onnx else "outputs"].append({"name": [new]} if self.onnx else new)
        self.graph()["node" if self.onnx else "nodes"].append(node)
        self.last = node

    def remove(self):
        container, key = self.rng.choice(slots(self.model))
        del container[key]

    def repeat(self):
        places = [(c, k) for c, k in slots(self.model) if isinstance(c, list)]
        if places:
            container, key = self.rng.choice(places)
            count = self.rng.choice([1, 1, 2, 100, 3000])
            container[key:key] = [copy.deepcopy(container[key]) for _ in range(min(count, 100000 // (1 + len(str(container[key])))))]

    def splice(self):
        """A part is replaced by one that stands elsewhere under the same name."""
        container, key = self.rng.choice(slots(self.model))
        others = [c[k] for c, k in slots(self.model) if k == key or isinstance(key, int) and isinstance(k, int)]
        container[key] = copy.deepcopy(self.rng.choice(others))

    def swap(self):
        places = [c for c, _ in slots(self.model) if isinstance(c, list) and len(c) > 1]
        if places:
            values = self.rng.choice(places)
            i, j = self.rng.randrange(len(values)), self.rng.randrange(len(values))
            values[i], values[j] = values[j], values[i]

    def retype(self):
        """Something of another type stands there: a list in a list, an object for a number."""
        container, key = self.rng.choice(slots(self.model))
        value = container[key]
        container[key] = self.rng.choice([[value], [value, [value]], {}, [], None, "text", 1, 1.5, True, 10**30, [[[[value]]]]])

    def dtype(self):
        places = [(c, k) for c, k in slots(self.model) if k in ("dtype", "data_type", "elem_type")]
        if places:
            container, key = self.rng.choice(places)
            if self.onnx:
                container[key] = [self.rng.randrange(25)]
            else:
                container[key] = self.rng.choice(["f16", "f64", "bf16", "i8", "u8", "i16", "i32", "i64", "bool", "f32", "u64"])

    def weights(self):
        """Tensors with their data, as (tensor, name of its shape, name of its data)."""
        names = ("dims", ("float_data", "int64_data", "int32_data")) if self.onnx else ("shape", ("data",))
        return [(c[k], names[0], d) for c, k in slots(self.model) if isinstance(c[k], dict) and isinstance(c[k].get(names[0]), list)
                for d in names[1] if isinstance(c[k].get(d), list)]

    def dimension(self):
        """A tensor or an input has another size, or a dimension more or less; data is mostly made to fit."""
        if self.rng.random() < 0.5 and self.weights():
            tensor, dims, data = self.rng.choice(self.weights())
            self.resize(tensor[dims])
            count = 1
            for d in tensor[dims]:
                count *= d if isinstance(d, int) else 1
            if tensor[data] and 0 <= count <= 50000 and self.rng.random() < 0.9:
                tensor[data] = (tensor[data] * count)[:count]
            return
        places = [c[k] for c, k in slots(self.graph().get("input" if self.onnx else "inputs", []))
                  if k in ("shape", "dim") and isinstance(c[k], list)]
        if places:
            self.resize(self.rng.choice(places))

    def resize(self, shape):
        size = integer(self.rng) if self.rng.random() < 0.5 else self.rng.randrange(9)
        size = {"dim_value": [size]} if any(isinstance(d, dict) for d in shape) else size
        if shape and self.rng.random() < 0.7:
            shape[self.rng.randrange(len(shape))] = size
        elif shape and self.rng.random() < 0.5:
            del shape[self.rng.randrange(len(shape))]
        else:
            shape.insert(self.rng.randrange(len(shape) + 1), size)

    def value(self):
        """An element of a weight: an axis, a bound, a scale."""
        full = [w for w in self.weights() if w[0][w[2]]]
        if full:
            tensor, _, data = self.rng.choice(full)
            data = tensor[data]
            at = self.rng.randrange(len(data))
            data[at] = self.like(data[at]) if not isinstance(data[at], list) else data[at]

    def opset(self):
        version = self.rng.choice([1, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 1000, -1])
        self.model["opset_import" if self.onnx else "opset"] = [{"version": [version]}] if self.onnx else version


def mutated(rng):
    """A model that isn't quite one: what it came from, how its file ends, and the file's bytes."""
    name, form = rng.choice(list(SEEDS)), rng.choice(["shorthand.json", "json", "onnx"])
    model = SEEDS[name]()
    if form != "shorthand.json":
        model = message(model)
    Mutator(rng, model).run(rng.choice([1, 1, 1, 1, 2, 2, 3, 5]))
    if form == "onnx":
        return name, form, to_bytes(model)
    text = json.dumps(to_json(model) if form == "json" else model, default=lambda b: b.decode("latin-1"))
    return name, form, text.encode("utf-8", "surrogateescape")
