"""Runs operators whose sizes are open by Nestor: ONNX Runtime's own of contrib_cases.py, and the onnx package's cases.

usage: open_cases.py [NAME]      PYTHONPATH names the package; with NAME only cases that have it in their name

Each is compiled twice: with the first dimension of each input open, and with all. Equal sizes have one name. None may be
wrong; many are refused, since they need a size or a value when compiling, but no fewer than here work.
"""
import collections
import re
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from contrib_cases import cases, model
from node_cases import array, difference, is_plain
from onnx.backend.test.case.node import collect_testcases

import nestor

# Of ONNX Runtime's own, and of all.
LEAST_CONTRIB = {"first": 38, "all": 28}
LEAST_RIGHT = {"first": 1200, "all": 1030}
Tolerance = collections.namedtuple("Tolerance", "rtol atol")


def opened(original, only_first):
    m = onnx.ModelProto()
    m.CopyFrom(original)
    weights = {i.name for i in m.graph.initializer}
    for value in m.graph.input:
        if value.name not in weights and value.type.HasField("tensor_type"):
            for axis, d in enumerate(value.type.tensor_type.shape.dim):
                if axis == 0 or not only_first:
                    d.dim_param = f"n{d.dim_value}"
    for value in m.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return m


def given():
    """(name, model, inputs, outputs, tolerance)"""
    for op, inputs, weights, outputs, attrs in cases():
        m = model(op.strip(":"), inputs, weights, outputs, "" if op[0] == ":" else "com.microsoft", attrs)
        fed = {f"x{i}": v for i, v in enumerate(inputs) if v is not None and i not in weights}
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        yield f"contrib {op}", m, list(fed.values()), session.run(None, fed), Tolerance(2e-4, 2e-5)
    for case in collect_testcases(None):
        graph = case.model.graph
        if all(map(is_plain, [*graph.input, *graph.output])):
            inputs, wanted = ([array(v) for v in values] for values in case.data_sets[0])
            yield case.name, case.model, inputs, wanted, case


def main():
    warnings.simplefilter("ignore")
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    right, wrong, refused = collections.Counter(), [], collections.defaultdict(list)
    for name, m, inputs, wanted, tolerance in given():
        for which in ("first", "all") if only in name else ():
            try:
                compiled = nestor.compile(opened(m, which == "first"), threads=1)
                got = compiled(*inputs)
            except Exception as error:
                first = re.sub(r"^\S+: error: ", "", str(error).split("\n")[0])
                refused[re.sub(r" that makes `.*?`| \(opset.*?\)", "", first)].append(f"{name} ({which})")
                continue
            got = got if isinstance(got, (tuple, list)) else (got,)
            problems = [d for d in map(difference, got, wanted, [tolerance] * len(wanted)) if d]
            right[which] += not problems
            wrong += [f"{name} ({which}): {problems[0]}"] if problems else []
    for reason, names in sorted(refused.items(), key=lambda e: -len(e[1])):
        print(f"{len(names)} refused: {reason} ({', '.join(names if only else names[:2])})")
    print("\n".join(f"WRONG {w}" for w in wrong))
    print(f"right: {dict(right)}, {len(wrong)} wrong, {sum(map(len, refused.values()))} refused")
    least = {"": LEAST_RIGHT, "contrib": LEAST_CONTRIB}.get(only, {})
    sys.exit(bool(wrong) or any(right[w] < n for w, n in least.items()))


if __name__ == "__main__":
    main()
