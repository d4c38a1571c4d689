#!/usr/bin/env python3
"""Times artifacts of one model, ONNX Runtime and, where it is installed, OpenVINO in one process, one call of each in
turn, so that drift of the machine hits all alike. Ratios are of calls that follow each other: their median, and the 95 %
interval of that median. Prints a table, or with --json one object.

With several threads a turn is as many calls as take 30 ms, after a pause and a call that don't count: each runtime's
threads spin for a while when it has returned, on cores that the next one wants. Its time is their median, and what is
said above and printed as of calls is of turns.

    side_by_side.py MODEL.onnx LABEL=m.so ... [--threads T] [--seconds S] [--peak GFLOPS] [--flops F] [--dim NAME=V]
                    [--tolerance T]

Artifacts are made by `nestor compile MODEL -o m.so`. Shapes and names come from the ONNX model.
"""

import argparse
import ctypes
import json
import math
import os
import statistics
import time

import numpy as np
import onnxruntime as ort

try:
    import openvino
except ImportError:
    openvino = None


class Artifact:
    def __init__(self, path, inputs, outputs, threads):
        name = os.path.splitext(os.path.basename(path))[0]
        self.library = ctypes.CDLL(os.path.abspath(path), mode=os.RTLD_LOCAL)
        create = getattr(self.library, name + "_create")
        create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

        class Options(ctypes.Structure):
            _fields_ = [("threads", ctypes.c_int32), ("reserved", ctypes.c_int32), ("parallel_for", ctypes.c_void_p),
                        ("host", ctypes.c_void_p), ("weights_path", ctypes.c_char_p), ("cpus", ctypes.c_void_p)]

        self.run_function = getattr(self.library, name + "_run")
        self.run_function.restype, self.run_function.argtypes = ctypes.c_int32, [ctypes.c_void_p] * 3
        self.instance = create(ctypes.byref(Options(threads, 0, None, None, None, None)))
        self.outputs = [aligned(np.empty(o.shape, o.dtype)) for o in outputs]
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


def drawn(value, dims, rng):
    """Data for an input: floats are normal; integers, as of tokens or of masks, 0 or 1."""
    shape = [int(dims.get(d, d)) for d in value.shape]
    if value.type == "tensor(float)":
        return aligned(rng.standard_normal(shape).astype(np.float32))
    types = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}
    if value.type not in types:
        raise SystemExit(f"{value.name} is a {value.type}; inputs are float, int64, int32 or bool")
    return aligned(rng.integers(0, 2, shape).astype(types[value.type]))


def openvino_runner(model, feed, threads):
    compiled = openvino.Core().compile_model(
        openvino.Core().read_model(model), "CPU",
        {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
         "NUM_STREAMS": 1})
    request = compiled.create_infer_request()
    request.set_tensors({name: openvino.Tensor(array, shared_memory=True) for name, array in feed.items()})
    return request.infer


def one_call(run):
    """The seconds of a call."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def calls_by_themselves(run):
    """The median of calls that no other runtime's threads disturb."""
    time.sleep(0.01)
    run()
    end, times = time.perf_counter() + 0.03, []
    while not times or time.perf_counter() < end:
        times.append(one_call(run))
    return statistics.median(times)


def paired(times, others):
    """Median of others/times, call by call, and its 95 % interval (of order statistics)."""
    ratios = sorted(o / t for t, o in zip(times, others))
    n = len(ratios)
    reach = math.ceil(0.98 * math.sqrt(n))  # 1.96 standard deviations of a count at p = 1/2
    return statistics.median(ratios), ratios[max(0, n // 2 - reach)], ratios[min(n - 1, n // 2 + reach)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("artifacts", nargs="+", metavar="LABEL=SO")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="of measuring, for each")
    parser.add_argument("--peak", type=float, default=0, help="FMA peak of these threads in GFLOP/s")
    parser.add_argument("--flops", type=float, default=0, help="floating-point operations of one run")
    parser.add_argument("--dim", action="append", default=[], help="value of a symbolic dimension")
    parser.add_argument("--tolerance", type=float, default=2e-3, help="of outputs, in parts of the largest of each")
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
    feed = {i.name: drawn(i, dims, rng) for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    expected = session.run(names, feed)

    runners = {}
    for spec in args.artifacts:
        label, path = spec.split("=", 1)
        runners[label] = Artifact(path, list(feed.values()), [aligned(e) for e in expected], args.threads)
        runners[label]()
        for got, want in zip(runners[label].outputs, expected):
            scale = max(float(np.abs(want).max()), 1e-6)
            if not np.allclose(got, want, rtol=0, atol=args.tolerance * scale):
                raise SystemExit(f"{label}: the outputs differ from ONNX Runtime's by {np.abs(got - want).max()}")
    peers = [f"ONNX Runtime {ort.__version__}"]
    runners[peers[0]] = lambda: session.run(names, feed)
    if openvino:
        peers.append("OpenVINO " + openvino.__version__.split("-")[0])
        runners[peers[1]] = openvino_runner(args.model, feed, args.threads)

    turn = one_call if args.threads == 1 else calls_by_themselves
    samples = {label: [] for label in runners}
    deadline = time.perf_counter() + args.seconds * len(runners)
    rounds = 0
    while rounds < 5 or time.perf_counter() < deadline:
        rounds += 1
        for label, run in runners.items():
            samples[label].append(turn(run))
    best = min(peers, key=lambda p: statistics.median(samples[p]))
    rows = []
    for label, times in samples.items():
        median = statistics.median(times)
        row = {"schedule": label, "median_ms": 1e3 * median, "min_ms": 1e3 * min(times), "runs": len(times)}
        row["x_best"], row["x_low"], row["x_high"] = paired(times, samples[best])
        row["percent_of_peak"] = 100 * args.flops / median / 1e9 / args.peak if args.peak and args.flops else None
        rows.append(row)
    if args.json:
        print(json.dumps({"model": args.model, "threads": args.threads, "ort_load_s": ort_load, "best": best,
                          "rows": rows}))
        return
    print(f"{os.path.basename(args.model)}, {args.threads} thread(s), interleaved, {rounds} rounds, "
          f"beside {best}, the fastest peer")
    for r in rows:
        peak = f"{r['percent_of_peak']:6.1f} % of peak" if r["percent_of_peak"] is not None else ""
        print(f"  {r['schedule']:<24} median {r['median_ms']:10.4f} ms  min {r['min_ms']:10.4f} ms  "
              f"{r['x_best']:6.2f} x its speed ({r['x_low']:.2f} to {r['x_high']:.2f}) {peak}")


if __name__ == "__main__":
    main()
