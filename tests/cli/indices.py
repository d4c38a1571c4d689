"""Indices out of range: clamped, or with --check-indices an error of `run` and a code of the artifact's run."""

import struct
import subprocess

from harness import Harness, npy

t = Harness()


def i64(name, values, shape):
    t.write(name, npy("<i8", shape, struct.pack(f"<{len(values)}q", *values)))


def model(op, shape, attrs=None, updates=None, before=None):
    """op(x[5,4], i[shape], updates); `before`: the indices go through that first."""
    nodes, index = [], "i"
    if before:
        nodes.append({"op": before, "name": "b", "inputs": ["i", "zero"], "outputs": ["j"]})
        index = "j"
    inputs = [{"name": "x", "dtype": "f32", "shape": [5, 4]}, {"name": "i", "dtype": "i64", "shape": shape}]
    if updates:
        inputs.append({"name": "u", "dtype": "f32", "shape": updates})
    nodes.append({"op": op, "name": "pick", "inputs": ["x", index] + (["u"] if updates else []), "outputs": ["y"], "attrs": attrs or {}})
    m = {"opset": 17, "inputs": inputs, "outputs": ["y"], "nodes": nodes}
    if before:
        m["weights"] = {"zero": {"dtype": "i64", "shape": [1], "data": [0]}}
    return m


CASES = [  # what, its model, indices in range and beyond
    ("Gather", model("Gather", [3], {"axis": 0}), [3], [0, 4, -5], [[0, 5, 1], [0, -6, 1]]),
    ("Gather along the last axis", model("Gather", [2], {"axis": -1}), [2], [3, -4], [[0, 4]]),
    ("Gather of a sum", model("Gather", [3], before="Add"), [3], [0, 4, -5], [[0, 5, 1]]),
    ("GatherElements", model("GatherElements", [2, 4], {"axis": 0}), [2, 4], [0, 1, 2, 3, 4, -1, -5, 0], [[0] * 7 + [5]]),
    ("GatherND", model("GatherND", [2, 2]), [2, 2], [4, 3, -5, -4], [[0, 4, 0, 0], [5, 0, 0, 0], [0, 0, 0, -5]]),
    ("ScatterND", model("ScatterND", [2, 1], updates=[2, 4]), [2, 1], [4, -5], [[0, 5], [-6, 0]]),
    ("ScatterElements", model("ScatterElements", [2, 4], {"axis": 0}, [2, 4]), [2, 4], [0, 1, 2, 3, 4, -1, -5, 0], [[0] * 7 + [5]]),
]


def runs():
    for what, m, shape, good, beyond in CASES:
        path = t.write("m.json", m)
        inputs = ["--input", "x=random:1", "--input", "i=@i.npy"] + (["--input", "u=random:2"] if len(m["inputs"]) == 3 else [])
        i64("i.npy", good, shape)
        plain = t.succeeds(f"{what} in range", "run", path, *inputs)
        for schedule in ("default", "naive"):
            checked = t.succeeds(f"{what} in range, checked, {schedule}", "run", path, *inputs, "--check-indices", "--schedule", schedule)
            t.check(checked == plain, "gives the same", checked)
        t.succeeds(f"{what} compiled", "compile", path, "-o", "m.so", "--check-indices")
        t.check(t.succeeds(f"{what}, the artifact", "run", "m.so", *inputs) == plain, "gives the same")
        t.succeeds("and the function verifies", "verify", path, "--check-indices")
        for values in beyond:
            i64("i.npy", values, shape)
            t.succeeds(f"{what} of {values} is clamped", "run", path, *inputs)
            t.refuses(f"{what} of {values}", ["run", path, *inputs, "--check-indices"], m["nodes"][-1]["op"], "`pick`", "out of range")
            t.refuses("the artifact", ["run", "m.so", *inputs], "m.so", "out of range")


def code():
    t.write("m.json", model("Gather", [1]))
    t.succeeds("for a program", "compile", "m.json", "-o", "m.so", "--check-indices")
    t.write("main.c", '#include <stdio.h>\n#include "m.h"\nint main(void) {\n  static float x[20], y[4];\n  int64_t i = 0;\n  struct m* m = m_create(NULL);\n'
            "  const struct m_inputs in = {.x = x, .i = &i};\n  const struct m_outputs out = {.y = y};\n"
            '  for (i = 3; i < 6; ++i) printf("%d ", m_run(m, &in, &out));\n  printf("%d\\n", M_BAD_INDEX);\n  m_destroy(m);\n  return 0;\n}\n')
    p = subprocess.run("cc -Wall -Werror main.c ./m.so -Wl,-rpath,. -o main && ./main", shell=True, capture_output=True, text=True)
    t.check(p.stdout == "0 0 2 2\n", "the code that m_run returns", p.stdout + p.stderr)


for part in (runs, code):
    part()
t.finish()
