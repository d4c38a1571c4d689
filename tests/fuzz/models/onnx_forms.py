"""From the shorthand to ONNX's messages, and from these to protobuf bytes and to protobuf's JSON mapping.

A message is a dict: field name to the list of its values, which are dicts, ints, floats, str or bytes. A value of
the wrong type is written as what it is, since mutations put such there.
"""

import base64
import struct

# Field numbers and the message type of fields that hold one (onnx.proto3).
FIELDS = {
    "Model": {"ir_version": 1, "graph": (7, "Graph"), "opset_import": (8, "OperatorSet"), "functions": (25, "Function")},
    "OperatorSet": {"domain": 1, "version": 2},
    "Function": {"name": 1, "input": 4, "output": 5, "node": (7, "Node"), "opset_import": (9, "OperatorSet"), "domain": 10},
    "Graph": {"node": (1, "Node"), "name": 2, "initializer": (5, "Tensor"), "input": (11, "ValueInfo"),
              "output": (12, "ValueInfo"), "value_info": (13, "ValueInfo")},
    "Node": {"input": 1, "output": 2, "name": 3, "op_type": 4, "attribute": (5, "Attribute"), "domain": 7},
    "Attribute": {"name": 1, "f": 2, "i": 3, "s": 4, "t": (5, "Tensor"), "g": (6, "Graph"), "floats": 7, "ints": 8,
                  "strings": 9, "type": 20},
    "Tensor": {"dims": 1, "data_type": 2, "float_data": 4, "int32_data": 5, "int64_data": 7, "name": 8, "raw_data": 9,
               "external_data": (13, "Entry"), "data_location": 14},
    "Entry": {"key": 1, "value": 2},
    "ValueInfo": {"name": 1, "type": (2, "Type")},
    "Type": {"tensor_type": (1, "TensorType")},
    "TensorType": {"elem_type": 1, "shape": (2, "Shape")},
    "Shape": {"dim": (1, "Dim")},
    "Dim": {"dim_value": 1, "dim_param": 2},
}
REPEATED = {"opset_import", "functions", "node", "initializer", "input", "output", "value_info", "attribute", "floats", "ints",
            "strings", "dims", "float_data", "int32_data", "int64_data", "external_data", "dim"}
DTYPES = {"f32": 1, "u8": 2, "i8": 3, "i16": 5, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "bf16": 16}
FLOAT, INT, STRING, TENSOR, FLOATS, INTS, STRINGS = 1, 2, 3, 4, 6, 7, 8


def _tensor(t, name):
    data = t["data"]
    while data and isinstance(data[0], list):
        data = [x for row in data for x in row]
    field = {"f32": "float_data", "i64": "int64_data"}.get(t["dtype"], "int32_data")
    convert = float if t["dtype"] == "f32" else int
    return {"dims": list(t["shape"]), "data_type": [DTYPES[t["dtype"]]], field: [convert(x) for x in data], "name": [name]}


def _attribute(name, value):
    out = {"name": [name]}
    if name == "to":
        value = DTYPES[value]
    if isinstance(value, list):
        kind = "strings" if value and isinstance(value[0], str) else "floats" if value and isinstance(value[0], float) else "ints"
        out[kind], out["type"] = list(value), [{"strings": STRINGS, "floats": FLOATS, "ints": INTS}[kind]]
    elif isinstance(value, str):
        out["s"], out["type"] = [value.encode()], [STRING]
    elif isinstance(value, float):
        out["f"], out["type"] = [value], [FLOAT]
    elif isinstance(value, dict):
        out["t"], out["type"] = [_tensor(value, "")], [TENSOR]
    else:
        out["i"], out["type"] = [int(value)], [INT]
    return out


def _value(v):
    if isinstance(v, str):
        return {"name": [v]}
    dims = [{"dim_param": [d]} if isinstance(d, str) else {"dim_value": [d]} for d in v["shape"]]
    return {"name": [v["name"]],
            "type": [{"tensor_type": [{"elem_type": [DTYPES[v["dtype"]]], "shape": [{"dim": dims}]}]}]}


def message(model):
    """The ModelProto of a shorthand model."""
    nodes = [{"op_type": [n["op"]], "name": [n["name"]], "input": list(n["inputs"]), "output": list(n["outputs"]),
              "attribute": [_attribute(k, v) for k, v in n["attrs"].items()]} for n in model["nodes"]]
    graph = {"name": ["g"], "node": nodes, "input": [_value(v) for v in model["inputs"]],
             "output": [_value(v) for v in model["outputs"]],
             "initializer": [_tensor(t, name) for name, t in model["weights"].items()]}
    return {"ir_version": [8], "opset_import": [{"domain": [""], "version": [model["opset"]]}], "graph": [graph]}


def _varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _single(value):
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf"))


def to_bytes(fields, kind="Model"):
    """Protobuf's wire format."""
    out = []
    for name, values in fields.items():
        known = FIELDS.get(kind, {}).get(name, 99)
        number, inner = known if isinstance(known, tuple) else (known, "")
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, dict):
                value = to_bytes(value, inner)
            if isinstance(value, str):
                value = value.encode("utf-8", "surrogateescape")
            if isinstance(value, bytes):
                out.append(_varint(number << 3 | 2) + _varint(len(value)) + value)
            elif isinstance(value, float):
                out.append(_varint(number << 3 | 5) + _single(value))
            elif isinstance(value, int):
                out.append(_varint(number << 3) + _varint(value))
    return b"".join(out)


def to_json(value):
    """Protobuf's JSON mapping, as something that json.dumps takes."""
    if isinstance(value, dict):
        out = {}
        for name, values in value.items():
            head, *tail = name.split("_")
            converted = [to_json(v) for v in values] if isinstance(values, list) else to_json(values)
            single = isinstance(values, list) and len(values) == 1 and name not in REPEATED
            out[head + "".join(t.capitalize() for t in tail)] = converted[0] if single else converted
        return out
    if isinstance(value, list):
        return [to_json(v) for v in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return value if abs(value) < float("inf") else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    return value
