"""Runs ONNX Runtime's own operators (domain com.microsoft) by Nestor and by ONNX Runtime: their results must agree."""
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import nestor

F = np.float32
RANDOM = np.random.default_rng(1)
TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "int32": TensorProto.INT32,
         "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "uint16": TensorProto.UINT16, "bool": TensorProto.BOOL}


def real(*shape):
    return RANDOM.standard_normal(shape).astype(F)


def model(op, inputs, weights, outputs, domain, attrs):
    """One node. Inputs in order: arrays, or None where one is omitted; those in `weights` are initializers."""
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{k}" if wanted else "" for k, wanted in enumerate(outputs)], domain=domain,
                            **attrs)
    values = [helper.make_tensor_value_info(n, TYPES[v.dtype.name], v.shape)
              for i, (n, v) in enumerate(zip(names, inputs)) if v is not None and i not in weights]
    made = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
    graph = helper.make_graph([node], op, values, made,
                              [numpy_helper.from_array(inputs[i], names[i]) for i in weights])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def cases():
    """(operator, inputs, which are weights, which outputs are wanted, attributes); a colon is ONNX's domain"""
    b, s, h, d = 2, 5, 2, 4
    x, skip, gamma, beta = real(b, s, 8), real(b, s, 8), real(8), real(8)
    yield "Gelu", [x], (), [1], {}
    yield "BiasGelu", [x, beta], (), [1], {}
    yield "FastGelu", [x], (), [1], {}
    yield "FastGelu", [x, beta], (), [1], {}
    yield "QuickGelu", [x], (), [1], {"alpha": 1.5}
    yield "FusedMatMul", [real(2, 3, 4), real(2, 5, 4)], (), [1], {"alpha": 0.5, "transB": 1}
    yield "FusedMatMul", [real(4, 3), real(4, 5)], (), [1], {"transA": 1}
    yield "SkipLayerNormalization", [x, skip, gamma, beta], (2, 3), [1], {"epsilon": 1e-5}
    yield "SkipLayerNormalization", [x, skip, gamma, beta, real(8)], (), [1, 0, 0, 1], {"epsilon": 1e-3}
    yield "SkipSimplifiedLayerNormalization", [x, skip, gamma], (2,), [1, 0, 0, 1], {"epsilon": 1e-5}
    yield "EmbedLayerNormalization", [np.array([[1, 2, 0]], np.int32), np.array([[0, 1, 1]], np.int32), real(4, 8),
                                      real(6, 8), real(2, 8), gamma, beta,
                                      np.array([[1, 1, 0]], np.int32)], (), [1, 1], {"epsilon": 1e-12}
    yield "FusedConv", [real(1, 3, 6, 6), real(4, 3, 3, 3), real(4)], (1, 2), [1], {"activation": "Relu",
                                                                                  "pads": [1, 1, 1, 1]}
    yield "FusedConv", [real(1, 3, 6, 6), real(4, 3, 3, 3)], (1,), [1], {"activation": "LeakyRelu",
                                                                       "activation_params": [0.2]}
    q, k, v = real(b, s, h * d), real(b, 7, h * d), real(b, 7, h * d)
    yield "MultiHeadAttention", [q, k, v], (), [1], {"num_heads": h}
    yield "MultiHeadAttention", [q, k, v, real(3 * h * d)], (), [1], {"num_heads": h, "scale": 0.3}
    mask = np.array([[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0, 0]], np.int32)
    yield "MultiHeadAttention", [q, k, v, None, mask, real(1, h, s, 7)], (), [1], {"num_heads": h}
    yield "MultiHeadAttention", [q, q, q], (), [1], {"num_heads": h, "unidirectional": 1}
    w, bias = real(8, 24), real(24)
    yield "Attention", [x, w, bias], (1, 2), [1], {"num_heads": h}
    yield "Attention", [x, w, bias, np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)], (1, 2), [1], {"num_heads": h}
    yield "Attention", [x, w, bias], (1, 2), [1], {"num_heads": h, "unidirectional": 1}
    turns = np.arange(8)[:, None] * np.ones(2)
    yield "RotaryEmbedding", [real(1, 2, s, d), np.arange(s)[None], np.cos(turns).astype(F),
                              np.sin(turns).astype(F)], (2, 3), [1], {}
    yield "RotaryEmbedding", [real(b, s, h * d), np.array([1]), np.cos(turns).astype(F),
                              np.sin(turns).astype(F)], (2, 3), [1], {"interleaved": 1}
    yield from grouped_queries()
    yield from of_bytes()
    yield from images()
    weights = RANDOM.integers(-99, 99, (8, 6)).astype(np.int8)
    yield "DynamicQuantizeMatMul", [x, weights, np.array(0.02, F), np.array(0, np.int8), real(6)], (1, 2, 3, 4), [1], {}
    for size, zeros in ((16, None), (32, RANDOM.integers(0, 255, 5 * 1).astype(np.uint8))):
        blocks = -(-48 // size)
        packed = RANDOM.integers(0, 255, (5, blocks, size // 2)).astype(np.uint8)
        yield ("MatMulNBits", [real(3, 48), packed, real(5 * blocks), zeros], tuple(i for i in (1, 2, 3) if i < 3 or
               zeros is not None), [1], {"K": 48, "N": 5, "bits": 4, "block_size": size})


def grouped_queries():
    """The first call, a later one with one word, with a window, caches of more words, packed and with turns."""
    heads, shared, width = 4, 2, 16
    turns = np.arange(16)[:, None] * np.ones(width // 2) / 3
    for words, before, room, window, rotary, packed in ((5, 0, 0, -1, 0, 0), (1, 4, 4, -1, 0, 0), (1, 4, 4, 3, 1, 0), (3, 2, 5, -1, 1, 1)):
        total, b = before + words, 1 if before and words > 1 else 2
        q, k, v = real(b, words, heads * width), real(b, words, shared * width), real(b, words, shared * width)
        if packed:
            q, k, v = np.concatenate([q, k, v], 2), None, None
        past = [real(b, shared, room, width) if room else None for _ in range(2)]
        places = [np.cos(turns).astype(F), np.sin(turns).astype(F)] if rotary else []
        lengths, size = np.full(b, total - 1, np.int32), np.array(total, np.int32)
        yield ("GroupQueryAttention", [q, k, v, *past, lengths, size, *places], (6,), [1, 1, 1], {
            "num_heads": heads, "kv_num_heads": shared, "do_rotary": rotary, "local_window_size": window})
    yield "GroupQueryAttention", [real(1, 3, 32), real(1, 3, 16), real(1, 3, 16), None, None, np.array([2], np.int32), np.array(
        3, np.int32)], (6,), [1, 1, 1], {"num_heads": 4, "kv_num_heads": 2, "softcap": 2.0, "scale": 0.7}
    yield "GroupQueryAttention", [real(1, 3, 32), real(1, 3, 16), real(1, 3, 16), None, None, np.array([2], np.int32), np.array(
        3, np.int32), None, None, None, None, real(4)], (6,), [1, 1, 1], {"num_heads": 4, "kv_num_heads": 2}


def of_bytes():
    def small(*shape, dtype=np.uint8):
        return RANDOM.integers(0, 120, shape).astype(dtype)

    step, zero = np.array(0.03, F), np.array(60, np.uint8)
    yield "MatMulIntegerToFloat", [small(3, 8), small(8, 5), step, np.full(5, 0.1, F), zero, small(5), real(5)], (1, 3, 5), [1], {}
    yield "QAttention", [small(2, 4, 8), small(8, 24, dtype=np.int8), real(24), step, step, None, zero, np.array(
        5, np.int8)], (1, 2), [1], {"num_heads": 2}
    yield "QAttention", [small(2, 4, 8), small(8, 24, dtype=np.int8), real(24), step, step, np.array([4, 2], np.int32), zero, np.array(
        5, np.int8)], (1, 2), [1], {"num_heads": 2}
    yield "QLinearWhere", [RANDOM.integers(0, 2, (3, 4)).astype(bool), small(3, 4), step, zero, small(4), step, zero, np.array(
        0.05, F), zero], (2, 3, 5, 6, 7, 8), [1], {}
    for last in (0, 1):
        x = small(1, 6, 6, 3) if last else small(1, 3, 6, 6)
        yield "QLinearConv", [x, step, zero, small(4, 3, 3, 3, dtype=np.int8), step, np.array(0, np.int8), np.array(0.5, F), zero], (
            1, 2, 3, 4, 5, 6, 7), [1], {"channels_last": last, "pads": [1, 1, 1, 1]}
    yield "QuantizeLinear", [real(3, 4), np.array(0.001, F), np.array(7, np.uint16)], (1, 2), [1], {}
    yield "DequantizeLinear", [small(3, 4, dtype=np.uint16), np.array(0.001, F), np.array(7, np.uint16)], (1, 2), [1], {}


def images():
    yield "NhwcMaxPool", [RANDOM.integers(0, 99, (1, 6, 6, 3)).astype(np.uint8)], (), [1], {"kernel_shape": [2, 2], "strides": [2, 2]}
    regions = np.array([[0.5, 1, 6, 7.2], [3, 0, 9, 4], [-2, -3, 30, 12]], F)
    for mode, ratio, turn in (("avg", 0, "half_pixel"), ("avg", 2, "output_half_pixel"), ("max", 3, "half_pixel")):
        yield ":RoiAlign", [real(2, 3, 9, 11), regions, np.array([1, 0, 1])], (), [1], {
            "output_height": 3, "output_width": 2, "sampling_ratio": ratio, "mode": mode, "spatial_scale": 0.9,
            "coordinate_transformation_mode": turn}
    yield ":MaxRoiPool", [real(2, 3, 9, 11), np.array([[1, 0, 1, 6, 7], [0, 3, 0, 9, 4]], F)], (), [1], {
        "pooled_shape": [3, 2], "spatial_scale": 0.9}


def without_onnxruntime():
    """Those that it has for other machines only: (operator, inputs, attributes, the result)."""
    x, w, bias, gamma, beta, skip = real(1, 6, 6, 4), real(8, 4, 3, 3), real(8), real(4), real(4), real(1, 6, 6, 4)
    session = onnxruntime.InferenceSession(model("Conv", [x.transpose(0, 3, 1, 2), w, bias], (1, 2), [1], "", {}).SerializeToString())
    conv = session.run(None, {"x0": x.transpose(0, 3, 1, 2)})[0].transpose(0, 2, 3, 1)
    yield "NhwcConv", [x, w, bias], {}, conv
    yield "NhwcFusedConv", [x, w, bias], {"activation": "Relu"}, np.maximum(conv, 0)

    def normed(v):
        groups = v.reshape(1, 36, 2, 2)
        mean, deviation = groups.mean((1, 3), keepdims=True), np.sqrt(groups.var((1, 3), keepdims=True) + 1e-5)
        return ((groups - mean) / deviation).reshape(v.shape) * gamma + beta
    y = normed(x)
    yield "GroupNorm", [x, gamma, beta], {"groups": 2, "activation": 1}, y / (1 + np.exp(-y))
    yield "SkipGroupNorm", [x, gamma, beta, skip, bias[:4]], {"groups": 2}, normed(x + skip + bias[:4])
    rows = np.exp(real(3, 4) + (shift := real(1, 4)))
    yield "BiasSoftmax", [np.log(rows) - shift, shift], {"axis": 1, "is_inner_broadcast": 1}, rows / rows.sum(1, keepdims=True)


def refusals():
    """(operator, domain, inputs, which are weights, attributes, what the refusal says): sizes that don't fit."""
    own = "com.microsoft"
    signal, ones = real(1, 8, 1), np.ones((4, 2), F)
    yield "DFT", "", [signal, np.zeros(0, np.int64)], (1,), {}, "it must be one number"
    yield "DFT", "", [signal, np.array(2**62)], (1,), {}, "the transform's length is"
    yield "STFT", "", [signal, np.array(4), np.array(1, F)], (1, 2), {}, "it needs 1 dimensions"
    yield "MatMulNBits", own, [real(1, 16), np.zeros((1, 1, 8), np.uint8), np.ones(1, F)], (1, 2), {
        "K": 2**60, "N": 2**60, "bits": 4, "block_size": 16}, "which isn't what K, N"
    yield "RotaryEmbedding", own, [real(4, 4), np.array([0]), ones, ones], (1, 2, 3), {}, "the cosines are"
    yield "Attention", own, [real(1, 4, 4), np.array(1, F)], (1,), {"num_heads": 1}, "it needs 2 dimensions"
    yield "QuickGelu", own, [], (), {}, "input 0 is missing"


def main():
    warnings.simplefilter("ignore")
    failed = 0
    for op, domain, inputs, weights, attrs, words in refusals():
        try:
            nestor.compile(model(op, inputs, weights, [1], domain, attrs), threads=1)
            said = "it was compiled"
        except nestor.Error as error:
            said = str(error)
        failed += words not in said
        print(f"{op} is refused: {words}" if words in said else f"{op} FAILED: {said[:400]}")
    for op, inputs, attrs, wanted in without_onnxruntime():
        got = nestor.compile(model(op, inputs, (), [1], "com.microsoft", attrs), threads=1)(*inputs)
        right = np.allclose(got, wanted, 2e-4, 2e-5)
        failed += not right
        print(f"{op} {attrs}: agrees" if right else f"{op} {attrs} FAILED")
    for op, inputs, weights, outputs, attrs in cases():
        m = model(op.strip(":"), inputs, weights, outputs, "" if op[0] == ":" else "com.microsoft", attrs)
        fed = {f"x{i}": v for i, v in enumerate(inputs) if v is not None and i not in weights}
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
            wanted = session.run(None, fed)
            got = nestor.compile(m, threads=1)(*fed.values())
            for a, b in zip(got if isinstance(got, (tuple, list)) else [got], wanted):
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
            print(f"{op} {attrs}: agrees")
        except Exception as error:
            failed += 1
            print(f"{op} {attrs} FAILED: {str(error)[:400]}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
