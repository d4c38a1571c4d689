#!/usr/bin/env python3
"""Compiles models with open sizes once each, without a --dim, and runs them at random sizes beside ONNX Runtime.

    open_sizes.py FOLDER [NAME]      the models that open_exports.py wrote to FOLDER, and those of rapidocr

PYTHONPATH names the nestor package. The first sizes are all 1 where the model takes that, or its least ones; the second
has an empty batch, but for models with an LSTM, at which ONNX Runtime aborts. Sizes that it refuses aren't counted; a model
must leave 28 of 30, but for exports that hold the sizes they were made with. It needs the network once, for rapidocr.
"""
import glob
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from pypi import fetched

import nestor

COUNT = 30
RAPIDOCR = {
    "rapidocr_det": "ch_PP-OCRv4_det_infer.onnx",
    "rapidocr_rec": "ch_PP-OCRv4_rec_infer.onnx",
    "rapidocr_cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
}
HOLD_SIZES = {"encoder_layers.old"}
# From, to, and what it is a multiple of, by what the size's name contains; of some models others.
RANGES = {"batch": (1, 5, 1), "seq": (1, 40, 1), "height": (33, 80, 1), "width": (33, 120, 1), "x0.1": (1, 40, 1)}
OF_MODELS = {
    "unet.": {"height": (4, 64, 4), "width": (4, 64, 4)},
    "unet_resized": {"height": (4, 64, 1), "width": (4, 64, 1)},
    "recogniser": {"width": (4, 160, 1)},
    "rapidocr_det": {"DynamicDimension.0": (1, 2, 1), "DynamicDimension": (32, 160, 32)},
    "rapidocr_rec": {"DynamicDimension.0": (1, 3, 1), "x.2": (48, 48, 1), "DynamicDimension": (16, 200, 1)},
    "rapidocr_cls": {"x.0": (1, 3, 1), "x.2": (48, 48, 1), "x.3": (192, 192, 1)},
}


def range_of(model, size):
    ranges = {}
    for name, of_model in OF_MODELS.items():
        if model.startswith(name):
            ranges = of_model
    return next(r for table in (ranges, RANGES) for name, r in table.items() if name in size)


def open_inputs(path):
    """(name, type, shape), open sizes by name, or INPUT.AXIS."""
    graph = onnx.load(path).graph
    weights = {i.name for i in graph.initializer}
    for value in graph.input:
        if value.name not in weights:
            tensor = value.type.tensor_type
            shape = [d.dim_value if d.dim_value > 0 else d.dim_param if d.dim_param not in ("", "?") else f"{value.name}.{k}"
                     for k, d in enumerate(tensor.shape.dim)]
            yield value.name, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type), shape


def aborts_on_empty(path):
    return any(node.op_type in ("LSTM", "GRU", "RNN") for node in onnx.load(path).graph.node)


def drawn(model, names, random, run, empty):
    sizes = {}
    for name in names:
        least, most, step = range_of(model, name)
        sizes[name] = least if run == 0 else int(random.integers(least // step, most // step + 1)) * step
    if run == 1 and empty:
        for name in names[:1]:  # the batch
            sizes[name] = 0
    return sizes


def feeds_of(inputs, sizes, random):
    feeds = {}
    for name, dtype, shape in inputs:
        shape = [sizes[s] if isinstance(s, str) else s for s in shape]
        is_mask = "1" in name
        feeds[name] = (random.integers(0, 100, shape) if np.issubdtype(dtype, np.integer) else random.standard_normal(shape)).astype(dtype)
        if np.issubdtype(dtype, np.integer) and is_mask:  # every text has a word
            feeds[name] = random.integers(0, 2, shape)
            feeds[name][..., :1] = 1
    return feeds


def apart(got, want):
    """The largest difference, by the largest number; the shapes must be equal."""
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if want.size == 0:
        return 0.0
    if not (np.isfinite(got) == np.isfinite(want)).all():
        return "not finite elsewhere"
    where = np.isfinite(want)
    return float(np.abs(got[where] - want[where]).max(initial=0) / max(1, np.abs(want[where]).max(initial=0)))


def check(name, path):
    """Whether the model agrees at all sizes that ONNX Runtime takes."""
    inputs = list(open_inputs(path))
    names = list(dict.fromkeys(s for _, _, shape in inputs for s in shape if isinstance(s, str)))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    try:
        model = nestor.compile(path, threads=1)
    except nestor.Error as error:
        print(f"{name}: REFUSED: {error}", flush=True)
        return False
    empty = not aborts_on_empty(path)
    random, worst, wrong, taken = np.random.default_rng(1), 0.0, [], 0
    for run in range(COUNT):
        sizes = drawn(name, names, random, run, empty)
        feeds = feeds_of(inputs, sizes, random)
        try:
            want = session.run(None, feeds)
        except Exception:
            continue
        taken += 1
        try:
            got = model(*feeds.values())
        except (nestor.Error, ValueError) as error:
            wrong.append(f"{sizes}: {str(error)[:200]}")
            continue
        got = got if isinstance(got, tuple) else (got,)
        for a, b in zip(got, want):
            difference = apart(np.asarray(a), b)
            if isinstance(difference, str) or difference > 1e-4:
                wrong.append(f"{sizes}: {difference}")
            else:
                worst = max(worst, difference)
    shown = f"{worst:.0e} from ONNX Runtime's at {taken} sizes"
    print(f"{name}: {f'WRONG at {len(wrong)} of {taken}' if wrong else 'agrees'}, {shown}" + "".join("\n    " + w for w in wrong[:4]), flush=True)
    return not wrong and (taken >= COUNT - 2 or name in HOLD_SIZES)


def main():
    ort.set_default_logger_severity(4)
    folder, only = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    paths = {os.path.basename(p)[:-5]: p for p in sorted(glob.glob(os.path.join(folder, "*.onnx")))}
    outcomes = [check(name, path) for name, path in paths.items() if only in name]
    outcomes += [check(name, fetched(folder, "rapidocr-onnxruntime", file)) for name, file in RAPIDOCR.items() if only in name]
    print(f"{outcomes.count(True)} agree, {outcomes.count(False)} don't")
    sys.exit(not all(outcomes))


if __name__ == "__main__":
    main()
