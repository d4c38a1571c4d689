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
         "uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


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
    """(operator, inputs, which are weights, which outputs are wanted, attributes)"""
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
    weights = RANDOM.integers(-99, 99, (8, 6)).astype(np.int8)
    yield "DynamicQuantizeMatMul", [x, weights, np.array(0.02, F), np.array(0, np.int8), real(6)], (1, 2, 3, 4), [1], {}
    for size, zeros in ((16, None), (32, RANDOM.integers(0, 255, 5 * 1).astype(np.uint8))):
        blocks = -(-48 // size)
        packed = RANDOM.integers(0, 255, (5, blocks, size // 2)).astype(np.uint8)
        yield ("MatMulNBits", [real(3, 48), packed, real(5 * blocks), zeros], tuple(i for i in (1, 2, 3) if i < 3 or
               zeros is not None), [1], {"K": 48, "N": 5, "bits": 4, "block_size": size})


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
    for op, inputs, weights, outputs, attrs in cases():
        m = model(op, inputs, weights, outputs, "com.microsoft", attrs)
        fed = {f"x{i}": v for i, v in enumerate(inputs) if v is not None and i not in weights}
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        wanted = session.run(None, fed)
        try:
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
