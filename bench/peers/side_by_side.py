#!/usr/bin/env python3
"""Times artifacts of one model and ONNX Runtime in one process, one call of each in turn, so that drift of the machine
hits all alike. Prints a table, or with --json one object.

    side_by_side.py MODEL.onnx LABEL=m.so ... [--threads T] [--seconds S] [--peak GFLOPS] [--flops F] [--dim NAME=V]

Artifacts are made by `nestor compile MODEL -o m.so`. Shapes and names come from the ONNX model.
"""

import argparse
import ctypes
import json
import os
import statistics
import time

import numpy as np
import onnxruntime as ort


class Artifact:
    def __init__(self, path, inputs, outputs, threads):
        name = os.path.splitext(os.path.basename(path))[0]
        self.library = ctypes.CDLL(os.path.abspath(path), mode=os.RTLD_LOCAL)
        create = getattr(self.library, name + "_create")
        create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

        class Options(ctypes.Structure):
            _fields_ = [("threads", ctypes.c_int32), ("reserved", ctypes.c_int32), ("parallel_for", ctypes.c_void_p),
                        ("host", ctypes.c_void_p), ("weights_path", ctypes.c_char_p)]

        self.run_function = getattr(self.library, name + "_run")
        self.run_function.restype, self.run_function.argtypes = ctypes.c_int32, [ctypes.c_void_p] * 3
        self.instance = create(ctypes.byref(Options(threads, 0, None, None, None)))
        self.outputs = [np.empty(o.shape, o.dtype) for o in outputs]
        self.input_struct = (ctypes.c_void_p * len(inputs))(*[i.ctypes.data for i in inputs])
        self.output_struct = (ctypes.c_void_p * len(outputs))(*[o.ctypes.data for o in self.outputs])

    def __call__(self):
        if self.run_function(self.instance, self.input_struct, self.output_struct) != 0:
            raise RuntimeError("the artifact's run failed")


def aligned(array):
    """A copy that starts at a multiple of 64 bytes, as an artifact may ask."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("artifacts", nargs="+", metavar="LABEL=SO")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="of measuring, for each")
    parser.add_argument("--peak", type=float, default=0, help="FMA peak of these threads in GFLOP/s")
    parser.add_argument("--flops", type=float, default=0, help="floating-point operations of one run")
    parser.add_argument("--dim", action="append", default=[], help="value of a symbolic dimension")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    options = ort.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    start = time.perf_counter()
    session = ort.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    ort_load = time.perf_counter() - start
    dims = dict(d.split("=") for d in args.dim)
    rng = np.random.default_rng(0)
    feed = {}
    for i in session.get_inputs():
        shape = [int(dims.get(d, d)) for d in i.shape]
        feed[i.name] = aligned(rng.standard_normal(shape).astype(np.float32))
    names = [o.name for o in session.get_outputs()]
    expected = session.run(names, feed)

    runners = {}
    for spec in args.artifacts:
        label, path = spec.split("=", 1)
        runners[label] = Artifact(path, list(feed.values()), [aligned(e) for e in expected], args.threads)
        runners[label]()
        for got, want in zip(runners[label].outputs, expected):
            scale = max(float(np.abs(want).max()), 1e-6)
            if not np.allclose(got, want, rtol=0, atol=2e-3 * scale):
                raise SystemExit(f"{label}: the outputs differ from ONNX Runtime's by {np.abs(got - want).max()}")
    runners[f"ONNX Runtime {ort.__version__}"] = lambda: session.run(names, feed)

    samples = {label: [] for label in runners}
    deadline = time.perf_counter() + args.seconds * len(runners)
    rounds = 0
    while rounds < 5 or time.perf_counter() < deadline:
        rounds += 1
        for label, run in runners.items():
            begin = time.perf_counter()
            run()
            samples[label].append(time.perf_counter() - begin)
    rows = []
    reference = statistics.median(list(samples.values())[-1])
    for label, times in samples.items():
        median = statistics.median(times)
        rows.append({"schedule": label, "median_ms": 1e3 * median, "min_ms": 1e3 * min(times), "runs": len(times),
                     "ratio_to_ort": median / reference,
                     "percent_of_peak": 100 * args.flops / median / 1e9 / args.peak if args.peak and args.flops else None})
    if args.json:
        print(json.dumps({"model": args.model, "threads": args.threads, "ort_load_s": ort_load, "rows": rows}))
        return
    print(f"{os.path.basename(args.model)}, {args.threads} thread(s), interleaved, {rounds} rounds")
    for r in rows:
        peak = f"{r['percent_of_peak']:6.1f} % of peak" if r["percent_of_peak"] is not None else ""
        print(f"  {r['schedule']:<24} median {r['median_ms']:10.4f} ms  min {r['min_ms']:10.4f} ms  "
              f"{r['ratio_to_ort']:7.2f} x ONNX Runtime's time {peak}")


if __name__ == "__main__":
    main()
