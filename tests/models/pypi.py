#!/usr/bin/env python3
"""Compares the models inside packages of PyPI with ONNX Runtime: as they are, in f16 and quantized.

    pypi.py FOLDER [NAME]      only models and variants that have NAME in their name, such as `magika` or `.qdq`

It needs the network once: packages are downloaded into FOLDER and unpacked there. PYTHONPATH names the nestor package.
The variants need onnxconverter_common, sympy and packaging too. A variant that ONNX Runtime itself refuses isn't counted.

As it is, a model must agree to 1e-3 of the standard deviation of its results. A rounding error in a quantized model, or
in one of halves, changes other roundings behind it, so there two right results differ. They count as equal if ours is at
most twice as far from the f32 model's as ONNX Runtime's is, and no further from ONNX Runtime's than that. Where the
model itself is quantized already there is no such measure, and 2e-2 suffices.
"""
import glob
import logging
import os
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime as ort
from onnxruntime import quantization as q

import nestor

# Package, file, sizes of open dimensions; an input's unnamed dimension is INPUT.AXIS.
MODELS = {
    "basic_pitch": ("basic-pitch", "icassp_2022/nmp.onnx", {"unk__749": 1}),
    "ddddocr": ("ddddocr", "common.onnx", {"image_width": 160}),
    "ddddocr_det": ("ddddocr", "common_det.onnx", {}),
    "ddddocr_old": ("ddddocr", "common_old.onnx", {"image_width": 160}),
    "faster_whisper": ("faster-whisper", "silero_vad_v6.onnx", {"seq_len": 3}),
    # In f16, sums of its norm overflow. ONNX Runtime keeps them in f32; here each result has the type that the model says.
    "magika": ("magika", "standard_v3_3/model.onnx", {"unk__214": 2}),
    "nudenet": ("nudenet", "320n.onnx", {"batch": 1, "height": 320, "width": 320}),
    "rapidocr_det": ("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {
        "p2o.DynamicDimension.0": 1, "p2o.DynamicDimension.1": 160, "p2o.DynamicDimension.2": 224}),
    "rapidocr_rec": ("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", {
        "p2o.DynamicDimension.0": 1, "x.2": 48, "p2o.DynamicDimension.1": 160}),
    "rapidocr_cls": ("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x.0": 1, "x.2": 48, "x.3": 192}),
}


def fetched(folder, package, file):
    place = os.path.join(folder, package)
    if not os.path.isdir(place):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", place, package], check=True)
        for wheel in glob.glob(os.path.join(place, "*.whl")):
            zipfile.ZipFile(wheel).extractall(place)
    return glob.glob(os.path.join(place, "**", file), recursive=True)[0]


def feeds_of(path, dims, seed):
    """Random inputs; images have patches of one colour, as pictures do, and lines of strokes, as text has."""
    random = np.random.default_rng(seed)
    graph = onnx.load(path).graph
    feeds = {}
    for value in graph.input:
        if value.name in {i.name for i in graph.initializer}:
            continue
        tensor = value.type.tensor_type
        shape = [d.dim_value if d.dim_value > 0 else dims.get(d.dim_param) or dims[f"{value.name}.{k}"]
                 for k, d in enumerate(tensor.shape.dim)]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if np.issubdtype(dtype, np.integer):
            feeds[value.name] = random.integers(0, 256, shape).astype(dtype)
            continue
        x = random.standard_normal(shape)
        if len(shape) == 4:
            patches = random.uniform(-1, 1, [*shape[:2], -(-shape[2] // 16), -(-shape[3] // 8)])
            x = 0.1 * x + patches.repeat(16, 2).repeat(8, 3)[:, :, :shape[2], :shape[3]]
            for top in range(16, shape[2] - 20, 40):
                strokes = 1.0 - 2 * random.integers(0, 2, (8, (shape[3] - 40) // 2)).repeat(2, 0).repeat(2, 1)
                x[:, :, top - 4:top + 20, 16:-16] = 1
                x[:, :, top:top + 16, 20:20 + strokes.shape[1]] = strokes
        feeds[value.name] = x.astype(dtype)
    return feeds


SEEDS, CALIBRATION = 16, 3


def by_onnxruntime(path, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return stacked([session.run(None, f) for f in feeds])


def by_nestor(path, feeds, dims):
    model = nestor.compile(path, dims=dims, threads=1)
    runs = [model(*f.values()) for f in feeds]
    return stacked([r if isinstance(r, (tuple, list)) else [r] for r in runs])


def stacked(runs):
    return [np.stack(outputs) for outputs in zip(*runs)]


class Reader(q.CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def halves(source, _, to, keep):
    """The converter leaves casts to f32 whose results it declares as halves, and stale types; both are mended here."""
    from onnxconverter_common import float16
    model = float16.convert_float_to_float16(onnx.load(source), keep_io_types=keep)
    types = {v.name: v.type.tensor_type.elem_type for v in [*model.graph.value_info, *model.graph.output]}
    for node in model.graph.node:
        for a in node.attribute:
            if node.op_type == "Cast" and a.name == "to" and a.i == onnx.TensorProto.FLOAT:
                a.i = types.get(node.output[0], a.i)
    del model.graph.value_info[:]
    onnx.save(model, to)


def prepared(source, to):
    """Opset 13 has scales a channel."""
    path = to + ".prepared"
    q.shape_inference.quant_pre_process(source, path, skip_symbolic_shape=True)
    model = onnx.load(path)
    if any(o.domain == "" and o.version < 13 for o in model.opset_import):
        onnx.save(onnx.version_converter.convert_version(model, 13), path)
    return path


def static(source, dims, to, **options):
    feeds = [feeds_of(source, dims, seed) for seed in range(CALIBRATION)]
    q.quantize_static(prepared(source, to), to, Reader(feeds), **options)


def dynamic(source, _, to, **options):
    q.quantize_dynamic(prepared(source, to), to, **options)


VARIANTS = {
    "f16": (halves, {"keep": False}),
    "f16_inside": (halves, {"keep": True}),
    "qdq": (static, {"quant_format": q.QuantFormat.QDQ}),
    "qdq_signed": (static, {"quant_format": q.QuantFormat.QDQ, "activation_type": q.QuantType.QInt8, "per_channel": True}),
    "qdq_16": (static, {"quant_format": q.QuantFormat.QDQ, "activation_type": q.QuantType.QUInt16}),
    "qoperator": (static, {"quant_format": q.QuantFormat.QOperator}),
    "dynamic": (dynamic, {}),
    "dynamic_unsigned": (dynamic, {"weight_type": q.QuantType.QUInt8}),
}


def distance(one, other, measure):
    """The largest over outputs of the root mean square difference, in standard deviations of `measure`."""
    out = 0
    for a, b, m in zip(one, other, measure):
        a, b, deviation = np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(m, np.float64).std()
        if a.shape != b.shape:
            return np.inf
        out = max(out, float(np.sqrt(np.mean((a - b) ** 2)) / (deviation if deviation > 0 else 1)))
    return out


def quantizes(path):
    return any("QuantizeLinear" in n.op_type for n in onnx.load(path).graph.node)


def compared(name, path, dims, truth, most=1e-3):
    """Prints one line; whether the results agree, None where there is nothing to compare with."""
    try:
        feeds = [feeds_of(path, dims, seed) for seed in range(SEEDS)]
        wanted = by_onnxruntime(path, feeds)
    except Exception as error:
        print(f"{name}: ONNX Runtime refuses it: {str(error)[:120]}", flush=True)
        return None, None
    try:
        got = by_nestor(path, feeds, dims)
    except nestor.Error as error:
        print(f"{name}: REFUSED: {str(error)[:300]}", flush=True)
        return False, wanted
    apart = distance(got, wanted, truth or wanted)
    right = apart <= most
    shown = f"{apart:.1e} from ONNX Runtime's"
    if truth and not right:
        ours, theirs = distance(got, truth, truth), distance(wanted, truth, truth)
        right = apart <= 2 * theirs and ours <= 2 * theirs
        shown += f"; from the f32 model's {ours:.1e}, ONNX Runtime's {theirs:.1e}"
    print(f"{name}: {'agrees' if right else 'WRONG'}, {shown}", flush=True)
    return right, wanted


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    ort.set_default_logger_severity(4)
    folder, only = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    outcomes = {True: 0, False: 0, None: 0}
    for name, (package, file, dims) in MODELS.items():
        todo = [v for v in VARIANTS if only in f"{name}.{v}"]
        if only not in name and not todo:
            continue
        source = fetched(folder, package, file)
        most = 2e-2 if quantizes(source) else 1e-3
        right, truth = compared(name, source, dims, None, most)
        outcomes[right] += 1
        for variant in todo:
            make, options = VARIANTS[variant]
            path = os.path.join(folder, f"{name}.{variant}.onnx")
            try:
                if not os.path.exists(path):
                    make(source, dims, path, **options)
            except Exception as error:
                print(f"{name}.{variant}: its tool refuses it: {str(error)[:120]}", flush=True)
                outcomes[None] += 1
                continue
            outcomes[compared(f"{name}.{variant}", path, dims, truth, most)[0]] += 1
    print(f"{outcomes[True]} agree, {outcomes[False]} don't, {outcomes[None]} have nothing to compare with")
    sys.exit(outcomes[False] > 0)


if __name__ == "__main__":
    main()
