#!/usr/bin/env python3
"""What `nestor bench --beside` starts: times artifacts of one ONNX model and other runtimes in one process, one call of
each in turn, so that drift of the machine hits all alike. Ratios are of calls that follow each other: their median, and
the 95 % interval of that median.

With several threads a turn is as many calls as take 30 ms, after a pause and a call that don't count: each runtime's
threads spin for a while when it has returned, on cores that the next one wants. Its time is their median, and what is
said above of calls is of turns.

    side_by_side.py --check PEER,PEER    versions of the peers, as JSON
    side_by_side.py JOB.json             the times, as JSON; JOB.json is written by src/cli/beside.cpp

Where something is at fault the JSON is {"error": ..., "hint": ..., "code": the exit code that nestor ends with}.
"""

import ctypes
import importlib
import json
import math
import os
import shutil
import statistics
import sys
import time


class Refusal(Exception):
    """What is said to the user: the error, what would work, and the exit code."""

    def __init__(self, error, hint="", code=1):
        super().__init__(error)
        self.told = {"error": error, "hint": hint, "code": code}


class Artifact:
    def __init__(self, path, inputs, outputs, threads, name=None):
        name = name or os.path.splitext(os.path.basename(path))[0]
        self.library = ctypes.CDLL(os.path.abspath(path), mode=os.RTLD_LOCAL)
        create = getattr(self.library, name + "_create")
        create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

        class Options(ctypes.Structure):
            _fields_ = [("threads", ctypes.c_int32), ("reserved", ctypes.c_int32), ("parallel_for", ctypes.c_void_p),
                        ("host", ctypes.c_void_p), ("weights_path", ctypes.c_char_p), ("cpus", ctypes.c_void_p)]

        self.run_function = getattr(self.library, name + "_run")
        self.run_function.restype, self.run_function.argtypes = ctypes.c_int32, [ctypes.c_void_p] * 3
        self.instance = create(ctypes.byref(Options(threads, 0, None, None, None, None)))
        self.outputs = [aligned(empty(o.shape, o.dtype)) for o in outputs]
        self.input_struct = (ctypes.c_void_p * len(inputs))(*[i.ctypes.data for i in inputs])
        self.output_struct = (ctypes.c_void_p * len(outputs))(*[o.ctypes.data for o in self.outputs])

    def __call__(self):
        if self.run_function(self.instance, self.input_struct, self.output_struct) != 0:
            raise RuntimeError("the artifact's run failed")

    def results(self):
        return self.outputs


def empty(shape, dtype):
    import numpy as np
    return np.empty(shape, dtype)


def aligned(array):
    """A copy that starts at a multiple of 64 bytes, as an artifact may ask."""
    import numpy as np
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class OnnxRuntime:
    title, package = "ONNX Runtime", "onnxruntime"

    def __init__(self, runtime, model, feed, outputs, threads):
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.feed, self.names = feed, outputs

    def __call__(self):
        self.last = self.session.run(self.names, self.feed)

    def results(self):
        return self.last


class OpenVino:
    title, package = "OpenVINO", "openvino"

    def __init__(self, openvino, model, feed, outputs, threads):
        core = openvino.Core()
        read = core.read_model(model)
        read.reshape({name: list(array.shape) for name, array in feed.items()})
        compiled = core.compile_model(read, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
            "NUM_STREAMS": 1})
        self.request = compiled.create_infer_request()
        self.request.set_tensors({name: openvino.Tensor(array, shared_memory=True) for name, array in feed.items()})
        self.names = outputs

    def __call__(self):
        self.request.infer()

    def results(self):
        return [self.request.get_tensor(name).data for name in self.names]


PEERS = {peer.package: peer for peer in (OnnxRuntime, OpenVino)}


def peer_called(name):
    """(the peer, its module)"""
    if name not in PEERS:
        raise Refusal(f"--beside knows no '{name}'", ", ".join(PEERS))
    peer = PEERS[name]
    try:
        importlib.import_module("numpy")
        return peer, importlib.import_module(peer.package)
    except ImportError as e:
        if e.name not in ("numpy", peer.package):
            raise Refusal(f"{peer.title} is there, but can't be loaded: {e}")
        raise Refusal(f"{peer.title} isn't installed for {sys.executable}",
                      f"{sys.executable} -m pip install {peer.package}\n"
                      "or name a Python that has it: NESTOR_PYTHON=FILE")


def version_of(name):
    peer, module = peer_called(name)
    return {"peer": name, "title": peer.title, "version": module.__version__.split("-")[0]}


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


def numpy_type(name):
    """f32 is float32."""
    if name == "bf16":
        raise Refusal("outputs of bf16 can't be compared: NumPy has no such type")
    return name if name == "bool" else f"{name[0]}{int(name[1:]) // 8}"


def difference(got, want):
    """The largest difference, in parts of the largest element; infinite where one has what isn't a number alone."""
    import numpy as np
    got, want = np.asarray(got).astype("float64"), np.asarray(want).astype("float64")
    if got.size == 0:
        return 0.0
    unlike = ~((got == want) | (np.isnan(got) & np.isnan(want)))
    if not unlike.any():
        return 0.0
    apart = np.abs(got - want)[unlike].max()
    scale = np.abs(want[np.isfinite(want)]).max(initial=1e-6)
    return float(apart / scale) if np.isfinite(apart) else math.inf


def compare(title, got, reference, want, names, tolerance):
    for name, ours, theirs in zip(names, got, want):
        if tuple(ours.shape) != tuple(theirs.shape):
            raise Refusal(f"output {name} is {list(ours.shape)} of {title} and {list(theirs.shape)} of {reference}", "", 3)
        if (apart := difference(ours, theirs)) > tolerance:
            raise Refusal(f"output {name} of {title} differs from {reference}'s by {apart:.2g} of its largest element, and "
                          f"--tolerance allows {tolerance:g}: nothing is timed",
                          "nestor verify MODEL says whether ours is right; quantized models need a larger --tolerance", 3)


def measure(job):
    import numpy as np
    held = np.load(job["inputs"]) if job["input_names"] else {}
    feed = {name: aligned(held[f"arr_{i}"]) for i, name in enumerate(job["input_names"])}
    runners, load_s = {}, {}
    for name in job["peers"]:
        peer, module = peer_called(name)
        begin = time.perf_counter()
        try:
            runners[name] = peer(module, job["model"], feed, job["output_names"], job["threads"])
            runners[name]()
        except Exception as e:  # each runtime has its own
            raise Refusal(f"{peer.title} doesn't run {job['model']}: {e}")
        load_s[name] = time.perf_counter() - begin
    like = [empty(o["shape"], numpy_type(o["dtype"])) for o in job["outputs"]]
    for a in job["artifacts"]:
        runners[a["label"]] = Artifact(a["path"], list(feed.values()), like, job["threads"], a["name"])
        runners[a["label"]]()
    shutil.rmtree(job["folder"])  # all of it is loaded: an end by Ctrl-C leaves nothing
    first = job["peers"][0]
    want = [np.array(a) for a in runners[first].results()]
    for label, run in runners.items():
        title = PEERS[label].title if label in PEERS else f"the {label} schedule"
        compare(title, run.results(), PEERS[first].title, want, job["output_names"], job["tolerance"])

    turn = one_call if job["threads"] == 1 else calls_by_themselves
    samples = {label: [] for label in runners}
    deadline = time.perf_counter() + job["seconds"] * len(runners)
    rounds = 0
    while rounds < 5 or time.perf_counter() < deadline:
        rounds += 1
        for label, run in runners.items():
            samples[label].append(turn(run))
    return {"rounds": rounds, "rows": [
        {"label": label, "median_ms": 1e3 * statistics.median(times), "min_ms": 1e3 * min(times),
         "p90_ms": 1e3 * float(np.quantile(times, 0.9)), "load_s": load_s.get(label),
         "beside": {peer: dict(zip(("ratio", "low", "high"), paired(times, samples[peer])))
                    for peer in job["peers"] if peer != label}}
        for label, times in samples.items()]}


def main(arguments):
    try:
        if arguments[0] == "--check":
            told = [version_of(name) for name in arguments[1].split(",")]
        else:
            with open(arguments[0]) as f:
                told = measure(json.load(f))
    except Refusal as e:
        told = e.told
    except KeyboardInterrupt:
        sys.exit(130)
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
