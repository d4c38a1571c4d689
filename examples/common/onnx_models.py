"""What the example scripts share: seeded weights, BatchNormalization statistics that keep activations alive, and
writing a model as .onnx and as ONNX's protobuf JSON with the weights beside it."""

import os

import numpy as np
import onnx
import onnxruntime as ort
from google.protobuf import json_format
from onnx import TensorProto, helper, numpy_helper


def session(model, threads=1):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def he_normal(rng, shape):
    """Weights that keep the variance of a ReLU network's activations: std = sqrt(2 / fan-in)."""
    fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    return (rng.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype(np.float32)


def set_initializer(model, name, array):
    for old in [i for i in model.graph.initializer if i.name == name]:
        model.graph.initializer.remove(old)
    model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))


def calibrate_batchnorm(model, feed, target_std=1.0):
    """Sets every BatchNormalization's mean and variance to what flows into it on `feed`, in one run: a copy of the model
    normalizes by the statistics of the batch itself and gives them out."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.node[:]
    del probe.graph.output[:]
    names = {}
    for index, node in enumerate(model.graph.node):
        if node.op_type != "BatchNormalization":
            probe.graph.node.append(node)
            continue
        x, scale, bias = node.input[:3]
        p = f"bn{index}_"
        axes = [0, 2, 3]
        probe.graph.node.extend([
            helper.make_node("ReduceMean", [x], [p + "mean"], axes=axes, keepdims=1),
            helper.make_node("Sub", [x, p + "mean"], [p + "centred"]),
            helper.make_node("Mul", [p + "centred", p + "centred"], [p + "square"]),
            helper.make_node("ReduceMean", [p + "square"], [p + "var"], axes=axes, keepdims=1),
            helper.make_node("Sqrt", [p + "var"], [p + "std"]),
            helper.make_node("Div", [p + "centred", p + "std"], [p + "unit"]),
            helper.make_node("Constant", [], [p + "shape"],
                             value=numpy_helper.from_array(np.array([1, -1, 1, 1], np.int64))),
            helper.make_node("Reshape", [scale, p + "shape"], [p + "scale"]),
            helper.make_node("Reshape", [bias, p + "shape"], [p + "bias"]),
            helper.make_node("Mul", [p + "unit", p + "scale"], [p + "scaled"]),
            helper.make_node("Add", [p + "scaled", p + "bias"], [node.output[0]]),
        ])
        names[index] = (p + "mean", p + "var")
        for out in names[index]:
            probe.graph.output.append(helper.make_tensor_value_info(out, TensorProto.FLOAT, None))
    if not names:
        return
    wanted = [name for pair in names.values() for name in pair]
    values = dict(zip(wanted, session(probe).run(wanted, feed)))
    for index, (mean, var) in names.items():
        node = model.graph.node[index]
        set_initializer(model, node.input[3], values[mean].reshape(-1).astype(np.float32))
        set_initializer(model, node.input[4], np.maximum(values[var].reshape(-1), 1e-6).astype(np.float32))


def write(model, folder, name, feed):
    """Writes name.onnx, name.json with name.bin, name_input.npz and name_expected.npz (ONNX Runtime's outputs)."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    onnx.checker.check_model(model)
    onnx.save(model, path + ".onnx")

    external = onnx.ModelProto()
    external.CopyFrom(model)
    blob = bytearray()
    for tensor in external.graph.initializer:
        data = numpy_helper.to_array(tensor)
        if data.nbytes < 64:
            continue
        blob.extend(b"\0" * (-len(blob) % 64))
        dims, dtype, tensor_name = list(tensor.dims), tensor.data_type, tensor.name
        tensor.Clear()
        tensor.name, tensor.data_type = tensor_name, dtype
        tensor.dims.extend(dims)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", name + ".bin"), ("offset", len(blob)), ("length", data.nbytes)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        blob.extend(np.ascontiguousarray(data).tobytes())
    with open(path + ".bin", "wb") as f:
        f.write(blob)
    with open(path + ".json", "w") as f:
        f.write(json_format.MessageToJson(external))

    outputs = [o.name for o in model.graph.output]
    expected = dict(zip(outputs, session(model).run(outputs, feed)))
    np.savez(path + "_input.npz", **feed)
    np.savez(path + "_expected.npz", **expected)
    for key, value in expected.items():
        print(f"{path}: {key} {list(value.shape)}, standard deviation {value.std():.3f}")
    return expected
