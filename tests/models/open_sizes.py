#!/usr/bin/env python3
"""Compiles models with open sizes once each, without a --dim, and runs them at random sizes beside ONNX Runtime.

    open_sizes.py FOLDER [NAME]      the models that open_exports.py or open_zoo.py wrote to FOLDER, and those of rapidocr and silero-vad

PYTHONPATH names the nestor package. The first sizes are all 1 (or the least step), the second has an empty batch, and later each is drawn:
often 0 or 1. A model with an LSTM gets no 0, at which ONNX Runtime aborts. It draws until ONNX Runtime has taken 30. Images that are
smaller than a window aren't counted: PyTorch refuses them, the standard says that nothing is left, ONNX Runtime gives an element.
It needs the network once, for the packages.
"""
import glob
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from pypi import fetched, quantizes

import nestor

COUNT, MOST_DRAWN = 30, 600
OF_PACKAGES = {
    "rapidocr_det": ("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx"),
    "rapidocr_rec": ("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx"),
    "rapidocr_cls": ("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    "faster_whisper": ("faster-whisper", "silero_vad_v6.onnx"),
    "ddddocr": ("ddddocr", "common.onnx"),
    "ddddocr_old": ("ddddocr", "common_old.onnx"),
    "magika": ("magika", "standard_v3_3/model.onnx"),
    "nudenet": ("nudenet", "320n.onnx"),
    "basic_pitch": ("basic-pitch", "icassp_2022/nmp.onnx"),
    "silero": ("silero-vad", "silero_vad.onnx"),
    "silero_16k": ("silero-vad", "silero_vad_16k_op15.onnx"),
    "silero_sequence": ("silero-vad", "silero_vad_16k_sequence.onnx"),
    "silero_half": ("silero-vad", "silero_vad_half.onnx"),
    "silero_ifless": ("silero-vad", "silero_vad_op18_ifless.onnx"),
}
# The old exporter of encoder_layers writes the length that it saw into the file.
HOLD_SIZES = {"encoder_layers.old"}
# From, to, and what it is a multiple of, by what the size's name contains; of some models others.
RANGES = {"batch": (0, 5, 1), "past": (0, 20, 1), "src": (1, 20, 1), "samples": (400, 2000, 1), "seq": (0, 40, 1), "height": (0, 80, 1), "width": (0, 120, 1), "x0.1": (0, 40, 1), "unk": (0, 4, 1)}
SUMS = {"total": ("past", "seq")}
OF_MODELS = {
    "center_crop": {"height": (32, 80, 1), "width": (32, 80, 1)},
    "gpt2.new": {"batch": (1, 5, 1)},  # it divides what there is by `seq`, of which ONNX Runtime says 0 / 0 = 1
    "densenet": {"height": (32, 130, 1), "width": (32, 130, 1)},
    "retrieval": {"n": (0, 20, 1), "m": (4, 20, 1)},
    "segformer": {"height": (32, 160, 32), "width": (32, 160, 32)},
    "spectrum": {"samples": (64, 800, 1)},
    "squeezenet": {"height": (32, 130, 1), "width": (32, 130, 1)},
    "swin_v2": {"height": (32, 128, 32), "width": (32, 128, 32)},
    "vit_images": {"height": (16, 96, 8), "width": (16, 96, 8)},
    "unet.": {"height": (0, 64, 4), "width": (0, 64, 4)},
    "rapidocr_rec": {"DynamicDimension.0": (0, 3, 1), "x.2": (33, 96, 1), "DynamicDimension": (5, 200, 1)},
    "rapidocr_cls": {"x.0": (0, 3, 1), "x.2": (33, 96, 1), "x.3": (3, 192, 1)},
    "rapidocr_det": {"DynamicDimension.0": (0, 2, 1), "DynamicDimension": (0, 160, 32)},
    "ddddocr": {"width": (0, 320, 1)},
    "nudenet": {"batch": (0, 2, 1), "": (0, 320, 32)},
    "silero": {"input.0": (1, 4, 1), "state": (1, 4, 1), "batch": (1, 4, 1), "input.1": (576, 1600, 1), "sequence_length": (1, 9, 1), "sequence": (576, 1600, 1)},
}
VALUES = {"sr": 16000}
TOLERANCES = {"basic_pitch": 1e-3, "spectrum.old": 1e-3, "spectrum.new": 1e-3}  # they take logarithms of small sums
NO_WINDOW = "a window fits into the padded input"


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
    """The first are all 1, the second on no samples, each of the others is often 0 or 1."""
    sizes = {}
    for name in names:
        if name in SUMS:
            continue
        least, most, step = range_of(model, name)
        any_size = int(random.integers(-(-least // step), most // step + 1)) * step
        small = int(random.integers(0, 2)) * step
        sizes[name] = step if run == 0 else small if random.random() < 0.2 else any_size
        if run == 1 and name == names[0]:
            sizes[name] = 0
        if not empty:
            sizes[name] = max(sizes[name], 1)
        sizes[name] = max(sizes[name], least)
    return sizes | {name: sum(sizes[of] for of in parts) for name, parts in SUMS.items() if name in names}


def feeds_of(inputs, sizes, random):
    feeds = {}
    for name, dtype, shape in inputs:
        shape = [sizes[s] if isinstance(s, str) else s for s in shape]
        if name in VALUES:
            feeds[name] = np.full(shape, VALUES[name], dtype)
            continue
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
    most = 2e-2 if quantizes(path) else TOLERANCES.get(name, 1e-4)  # pypi.py says why
    random, worst, wrong, taken, zeros, ones = np.random.default_rng(1), 0.0, [], 0, 0, 0
    for run in range(MOST_DRAWN):
        if taken == COUNT:
            break
        sizes = drawn(name, names, random, run, empty)
        feeds = feeds_of(inputs, sizes, random)
        try:
            want = session.run(None, feeds)
        except Exception:
            continue
        try:
            got = model(*feeds.values())
        except (nestor.Error, ValueError) as error:
            if NO_WINDOW in str(error):
                continue
            got = str(error)[:200]
        taken += 1
        zeros, ones = zeros + (0 in sizes.values()), ones + (1 in sizes.values())
        if isinstance(got, str):
            wrong.append(f"{sizes}: {got}")
            continue
        got = got if isinstance(got, tuple) else (got,)
        for a, b in zip(got, want):
            difference = apart(np.asarray(a), b)
            if isinstance(difference, str) or difference > most:
                wrong.append(f"{sizes}: {difference}")
            else:
                worst = max(worst, difference)
    shown = f"{worst:.0e} from ONNX Runtime's at {taken} sizes, {zeros} with a 0, {ones} with a 1"
    print(f"{name}: {f'WRONG at {len(wrong)} of {taken}' if wrong else 'agrees'}, {shown}" + "".join("\n    " + w for w in wrong[:4]), flush=True)
    return not wrong and (taken == COUNT or name in HOLD_SIZES)


def main():
    ort.set_default_logger_severity(4)
    folder, only = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    paths = {os.path.basename(p)[:-5]: p for p in sorted(glob.glob(os.path.join(folder, "*.onnx")))}
    outcomes = [check(name, path) for name, path in paths.items() if only in name]
    outcomes += [check(name, fetched(folder, *place)) for name, place in OF_PACKAGES.items() if only in name]
    print(f"{outcomes.count(True)} agree, {outcomes.count(False)} don't")
    sys.exit(not all(outcomes))


if __name__ == "__main__":
    main()
