"""Writes the models of the onnx package's own tests into a folder, with inputs and expected outputs as JSON lines:
the node cases made of several nodes or that become several, and the models exported from PyTorch at old opsets.

usage: export_onnx_models.py OUT.jsonl FOLDER
"""
import glob
import json
import os
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ops"))
from export_onnx_cases import Skip, tensor  # noqa: E402


# In smaller operators, as a graph is built: with those inputs that are known then.
SPELLED_OUT = {"Attention": [], "GRU": [], "LSTM": [], "NonZero": [0], "RNN": [], "RotaryEmbedding": [], "TopK": [1]}


def read(path):
    proto = onnx.TensorProto()
    with open(path, "rb") as f:
        proto.ParseFromString(f.read())
    try:
        return tensor(numpy_helper.to_array(proto))
    except (ValueError, TypeError) as e:
        raise Skip("type") from e


def models():
    """(name, model, inputs, outputs, rtol, atol); tensors as JSON."""
    for case in sorted(load_model_tests(kind="node"), key=lambda c: c.name):
        nodes = case.model.graph.node
        if len(nodes) == 1 and not case.model.graph.initializer and nodes[0].op_type not in SPELLED_OUT:
            continue  # tests/ops has these
        try:
            values, outputs = case.data_sets[0]
            known = SPELLED_OUT.get(nodes[0].op_type, []) if len(nodes) == 1 else []
            for i in known:
                case.model.graph.initializer.append(numpy_helper.from_array(values[i], case.model.graph.input[i].name))
            inputs = [tensor(t) for i, t in enumerate(values) if i not in known]
            outputs = [tensor(t) for t in outputs]
            yield case.name, case.model, inputs, outputs, case.rtol, case.atol
        except (Skip, ValueError, AttributeError):
            yield case.name, None, None, None, 0, 0
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    for kind in ("pytorch-operator", "pytorch-converted", "simple"):
        for folder in sorted(glob.glob(f"{data}/{kind}/*")):
            name = f"{kind}/{os.path.basename(folder)}"
            try:
                count = [len(glob.glob(f"{folder}/test_data_set_0/{k}_*.pb")) for k in ("input", "output")]
                inputs, outputs = ([read(f"{folder}/test_data_set_0/{k}_{i}.pb") for i in range(n)]
                                   for k, n in zip(("input", "output"), count))
                yield name, onnx.load(f"{folder}/model.onnx"), inputs, outputs, 1e-3, 1e-6
            except Skip:
                yield name, None, None, None, 0, 0


def main():
    warnings.simplefilter("ignore")
    skipped = 0
    os.makedirs(sys.argv[2], exist_ok=True)
    with open(sys.argv[1], "w") as out:
        for name, model, inputs, outputs, rtol, atol in models():
            if model is None:
                skipped += 1
                continue
            path = os.path.join(os.path.abspath(sys.argv[2]), name.replace("/", "_") + ".onnx")
            onnx.save(model, path)
            initialized = {t.name for t in model.graph.initializer}
            names = [v.name for v in model.graph.input if v.name not in initialized]
            out.write(json.dumps({"name": name, "path": path, "inputs": dict(zip(names, inputs)), "rtol": rtol,
                                  "atol": atol, "outputs": dict(zip((v.name for v in model.graph.output), outputs)),
                                  "ops": sorted({n.op_type for n in model.graph.node})}) + "\n")
        out.write(json.dumps({"skipped": skipped}) + "\n")


main()
