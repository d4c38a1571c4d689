"""Writes the single-node cases of the onnx package as JSON lines, which onnx_cases_test.cpp runs.

usage: export_onnx_cases.py OUT.jsonl

A line has the node (op, domain, opset, attributes) and its tensors as hexadecimal bytes. Cases of several nodes and of
element types without a name of ours (strings, complex, float8 ...) are left out; the last line counts them.
"""
import json
import sys
import warnings

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "int16": "i16",
          "int8": "i8", "uint8": "u8", "bool": "bool"}


class Skip(Exception):
    pass


def tensor(array):
    array = np.asarray(array)
    if array.dtype.name not in DTYPES:
        raise Skip(array.dtype.name)
    return {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape), "data": array.tobytes().hex()}


def attribute(a):
    if a.type == AttributeProto.TENSOR:
        return {"tensor": tensor(numpy_helper.to_array(a.t))}
    for kind, name in ((AttributeProto.INT, "int"), (AttributeProto.FLOAT, "float"), (AttributeProto.INTS, "ints"),
                       (AttributeProto.FLOATS, "floats")):
        if a.type == kind:
            value = onnx.helper.get_attribute_value(a)
            return {name: list(value) if name.endswith("s") else value}
    if a.type == AttributeProto.STRING:
        return {"string": a.s.decode()}
    raise Skip("attribute")


def export(case):
    graph = case.model.graph
    if len(graph.node) != 1 or graph.initializer:
        raise Skip("nodes")
    if any(not v.type.HasField("tensor_type") for v in list(graph.input) + list(graph.output)):
        raise Skip("type")
    node = graph.node[0]
    opset = next((o.version for o in case.model.opset_import if o.domain == node.domain), 0)
    inputs, outputs = case.data_sets[0]
    fed = {v.name: tensor(t) for v, t in zip(graph.input, inputs)}
    expected = {v.name: tensor(t) for v, t in zip(graph.output, outputs)}
    return {"name": case.name, "op": node.op_type, "domain": node.domain, "opset": opset, "rtol": case.rtol,
            "atol": case.atol, "attrs": {a.name: attribute(a) for a in node.attribute},
            "inputs": [fed.get(n) for n in node.input], "outputs": [expected.get(n) for n in node.output]}


def main():
    warnings.simplefilter("ignore")
    skipped = 0
    with open(sys.argv[1], "w") as out:
        for case in sorted(load_model_tests(kind="node"), key=lambda c: c.name):
            try:
                out.write(json.dumps(export(case)) + "\n")
            except Skip:
                skipped += 1
        out.write(json.dumps({"skipped": skipped}) + "\n")


if __name__ == "__main__":
    main()
