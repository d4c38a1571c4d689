"""Attention that a JSON graph of ours holds, in PyTorch and in ONNX Runtime: what bench/cpu/attention_works.py writes."""

import json

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper


def onnx_model(graph):
    """The same graph as ONNX; all values are f32."""
    def value(name, shape):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    weights = [numpy_helper.from_array(np.array(w["data"], np.float32).reshape(w["shape"]), name)
               for name, w in graph["weights"].items()]
    nodes = [helper.make_node(n["op"], n["inputs"], n["outputs"], **n.get("attrs", {})) for n in graph["nodes"]]
    inputs = [value(i["name"], i["shape"]) for i in graph["inputs"]]
    outputs = [value(name, None) for name in graph["outputs"]]
    model = helper.make_model(helper.make_graph(nodes, graph["name"], inputs, outputs, weights),
                              opset_imports=[helper.make_opsetid("", graph["opset"])])
    model.ir_version = 8
    return model


def runtime_call(graph, feeds, threads):
    """ONNX Runtime on it, tensors bound beforehand."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(onnx_model(graph).SerializeToString(), options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    for i, feed in zip(graph["inputs"], feeds):
        binding.bind_cpu_input(i["name"], feed)
    binding.bind_output(graph["outputs"][0], "cpu")
    return lambda: session.run_with_iobinding(binding)


def scale_of(graph):
    """By what the scores are multiplied altogether."""
    scale = 1.0
    for n in graph["nodes"]:
        for name in n["inputs"]:
            if n["op"] in ("Mul", "Div") and name in graph["weights"]:
                constant = graph["weights"][name]["data"][0]
                scale *= 1 / constant if n["op"] == "Div" else constant
    return scale


def torch_call(graph, feeds):
    """scaled_dot_product_attention; KeyError where the graph isn't attention."""
    by_name = {i["name"]: torch.from_numpy(feed) for i, feed in zip(graph["inputs"], feeds)}
    if not {"q", "k", "v"} <= by_name.keys() <= {"q", "k", "v", "mask"}:
        raise KeyError("no attention")
    turned = {n["inputs"][0] for n in graph["nodes"] if n["op"] == "Transpose" and n["attrs"]["perm"] != [0, 1, 3, 2]}
    q, k, v = (by_name[n].transpose(1, 2) if n in turned else by_name[n] for n in "qkv")
    scale, mask = scale_of(graph), by_name.get("mask")
    return lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def read(path):
    return json.load(open(path))
