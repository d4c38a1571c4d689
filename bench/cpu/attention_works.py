#!/usr/bin/env python3
"""Writes attention of many shapes, as exporters write it: graphs in FOLDER, and FOLDER/works.txt, a list as works.txt.

    attention_works.py FOLDER

A name is HEADSxQUERIESxSIZE, with KEYS behind a colon where they are of another number, and what stands out: `div`, the
scores divided by a constant; `split`, both operands multiplied by the root of the scale; `mask`, one of keys added;
`causal`, one of queries and keys; `guard`, weights of NaN set to 0, as PyTorch's exporter writes it; `bshd`, operands
transposed from [batch, sequence, heads, size].
"""

import json
import math
import os
import sys

# heads, queries, keys, size, form
WORKS = [(12, 128, 128, 64, ""), (12, 512, 512, 64, ""), (8, 64, 64, 64, ""), (16, 256, 256, 128, ""),
         (8, 1024, 1024, 64, ""), (8, 77, 77, 64, ""), (12, 197, 197, 64, ""), (6, 101, 203, 40, ""),
         (16, 1, 384, 64, ""), (16, 3, 384, 64, ""), (4, 384, 384, 32, ""), (5, 300, 300, 80, ""), (12, 128, 128, 64, "div mask"),
         (12, 197, 197, 64, "split"), (8, 256, 256, 64, "split causal"), (12, 384, 384, 64, "bshd div mask"),
         (12, 128, 128, 64, "bshd split causal guard")]


def graph(heads, queries, keys, size, form):
    """One attention of a batch of 1 in the JSON that Nestor reads."""
    words, nodes, weights = form.split(), [], {}

    def node(op, inputs, output, **attrs):
        nodes.append({"op": op, "inputs": inputs, "outputs": [output], "attrs": attrs})
        return output

    def number(name, value):
        weights[name] = {"dtype": "f32", "shape": [], "data": [value]}
        return name

    bshd = "bshd" in words
    shapes = {n: [1, s, heads, size] if bshd else [1, heads, s, size] for n, s in (("q", queries), ("k", keys), ("v", keys))}
    q, v = (node("Transpose", [n], n + "h", perm=[0, 2, 1, 3]) if bshd else n for n in "qv")
    kt = node("Transpose", ["k"], "kt", perm=[0, 2, 3, 1] if bshd else [0, 1, 3, 2])
    scale = 1 / math.sqrt(size)
    if "split" in words:
        root = number("root", math.sqrt(scale))
        q, kt = node("Mul", [q, root], "qs"), node("Mul", [kt, root], "ks")
    s = node("MatMul", [q, kt], "s")
    if "div" in words:
        s = node("Div", [s, number("divisor", 1 / scale)], "t")
    elif "split" not in words:
        s = node("Mul", [s, number("scale", scale)], "t")
    if "mask" in words or "causal" in words:
        shapes["mask"] = [1, 1, queries if "causal" in words else 1, keys]
        s = node("Add", [s, "mask"], "m")
    p = node("Softmax", [s], "p", axis=-1)
    if "guard" in words:
        p = node("Where", [node("IsNaN", [p], "n"), number("zero", 0), p], "w")
    node("MatMul", [p, v], "y")
    inputs = [{"name": n, "dtype": "f32", "shape": shape} for n, shape in shapes.items()]
    return {"name": "attention", "opset": 17, "inputs": inputs, "outputs": ["y"], "nodes": nodes, "weights": weights}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "works.txt"), "w") as works:
        for heads, queries, keys, size, form in WORKS:
            lengths = f"{queries}" if queries == keys else f"{queries}:{keys}"
            name = "_".join([f"{heads}x{lengths}x{size}", *form.split()])
            file = f"attention_{name.replace(':', '-')}.json"
            json.dump(graph(heads, queries, keys, size, form), open(os.path.join(folder, file), "w"), indent=1)
            print(f"attention {name} {file}", file=works)


if __name__ == "__main__":
    main()
