#!/usr/bin/env python3
"""Untuned operators beside PyTorch on one set of data, in one process, in turn: median ratios and their 95 % intervals.
Attention, a graph in a file beside the list, is also set beside ONNX Runtime on the same graph.

    beside_torch.py NESTOR WORKS.txt [--only GLOB] [--threads T] [--seconds S] [--json FILE]

WORKS.txt is a list as bench/cpu/works.txt. PyTorch runs eagerly under inference_mode, writes into tensors that are there
already where its operators can, and otherwise into memory that the process keeps (see keep_memory). Values of `const`
operands are each side's own.
"""

import argparse
import ctypes
import fnmatch
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time


def keep_memory():
    """glibc gives large blocks back to the system at once, and every call would pay for new pages: not here."""
    if "MALLOC_MMAP_MAX_" not in os.environ:
        os.environ.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_=str(1 << 40), MALLOC_TOP_PAD_=str(1 << 28))
        os.execv(sys.executable, [sys.executable, *sys.argv])


keep_memory()

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from side_by_side import Artifact, aligned, paired  # noqa: E402

SHORT = 20  # us


def works_of(path):
    for line in open(path):
        line = line.strip()
        if line and not line.startswith("#"):
            yield line.split(None, 2)


class Spec:
    """`Op@v(const f32[2,3]{...}, ...; a=1, b=[2,3])`"""

    def __init__(self, text):
        parsed = re.fullmatch(r"(\w+)(?:@\d+)?\((.*)\)", text)
        if not parsed:
            raise KeyError("no operator")
        self.op, inner = parsed.groups()
        inner, _, attributes = inner.partition(";")
        self.operands = re.findall(r"(const )?(\w+)\[([\d,]*)\](?:\{([^}]*)\})?", inner)
        places = re.findall(r"(const )?(?:\w+\[[\d,]*\](\{)?|_(?![\w\[]))", inner)
        self.drawn = [f"x{i}" for i, (const, values) in enumerate(places) if const and not values]
        self.attributes = {k: json.loads(v) for k, v in re.findall(r"(\w+)=(\[[^\]]*\]|-?[\d.]+)", attributes)}
        self.tensors = []
        for const, kind, dims, values in self.operands:
            shape = [int(d) for d in dims.split(",") if d]
            if values:
                self.tensors.append([int(v) for v in values.split(",")])
            elif kind != "f32":
                raise KeyError(f"{kind} operands")
            else:
                self.tensors.append(torch.randn(shape))

    def inputs(self):
        """What an artifact is given: operands that are neither const nor written out."""
        return [t for t, (const, _, _, values) in zip(self.tensors, self.operands) if not const and not values]


def torch_call(s):
    """A function that computes the operator; KeyError where PyTorch has no one operator for it."""
    x, more, a = s.tensors[0], s.tensors[1:], s.attributes
    pads = a.get("pads", [0, 0, 0, 0])
    rank = x.dim()

    def into(shape, f):
        out = torch.empty(shape)
        return lambda: f(out)

    if s.op == "MatMul":
        return into((*x.shape[:-1], more[0].shape[-1]), lambda out: torch.matmul(x, more[0], out=out))
    if s.op == "Conv":
        n = rank - 2
        pads = a.get("pads", [0] * 2 * n)
        conv, bias = (F.conv1d, F.conv2d, F.conv3d)[n - 1], more[1] if len(more) > 1 else None
        rest = a.get("dilations", 1), a.get("group", 1)
        if pads[:n] == pads[n:]:
            return lambda: conv(x, more[0], bias, a.get("strides", 1), pads[:n], *rest)
        padded = [p for d in reversed(range(n)) for p in (pads[d], pads[d + n])]  # it has no asymmetric ones itself
        return lambda: conv(F.pad(x, padded), more[0], bias, a.get("strides", 1), 0, *rest)
    if s.op == "ConvTranspose":
        n = rank - 2
        pads = a.get("pads", [0] * 2 * n)
        if pads[:n] != pads[n:] or not {"output_shape", "auto_pad"}.isdisjoint(a):
            raise KeyError("paddings that PyTorch has not")
        f, bias = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1], more[1] if len(more) > 1 else None
        return lambda: f(x, more[0], bias, a.get("strides", 1), pads[:n], a.get("output_padding", 0), a.get("group", 1),
                         a.get("dilations", 1))
    if s.op == "Softmax":
        return into(x.shape, lambda out: torch.softmax(x, a.get("axis", -1), out=out))
    if s.op == "LayerNormalization":
        return lambda: F.layer_norm(x, x.shape[-1:], *more)
    if s.op == "Gelu":
        return lambda: F.gelu(x)
    if s.op in ("ReduceSum", "ReduceMean", "ReduceMax"):
        f = {"ReduceSum": torch.sum, "ReduceMean": torch.mean, "ReduceMax": torch.amax}[s.op]
        axes = more[0] if more else a["axes"]
        return into([1 if d in axes else n for d, n in enumerate(x.shape)],
                    lambda out: f(x, axes, keepdim=True, out=out))
    if s.op == "Transpose":
        turned = x.permute(a["perm"])
        return into(turned.shape, lambda out: out.copy_(turned))
    if s.op in ("MaxPool", "AveragePool") and rank == 4 and pads[:2] == pads[2:]:
        f = F.max_pool2d if s.op == "MaxPool" else F.avg_pool2d
        return lambda: f(x, a["kernel_shape"], a.get("strides", 1), pads[:2])
    if s.op == "Concat":
        shape = list(x.shape)
        shape[a["axis"]] = sum(t.shape[a["axis"]] for t in s.tensors)
        return into(shape, lambda out: torch.cat(s.tensors, a["axis"], out=out))
    if s.op == "Pad":
        before, after = more[0][:rank], more[0][rank:]
        return lambda: F.pad(x, [n for d in reversed(range(rank)) for n in (before[d], after[d])])
    if s.op == "Slice":
        starts, ends, axes = more
        view = x
        for start, end, axis in zip(starts, ends, axes):
            view = view.narrow(axis, start, end - start)
        return into(view.shape, lambda out: out.copy_(view))
    if s.op == "Add":
        return into(torch.broadcast_shapes(x.shape, more[0].shape), lambda out: torch.add(x, more[0], out=out))
    raise KeyError(s.op)


class Contest:
    """A work's artifact and its peers, calls by name, on the same data."""

    def __init__(self, nestor, text, folder, threads, beside):
        if text.endswith(".json"):
            import attention  # it needs more packages than the rest
            text = os.path.join(beside, text)
            graph = attention.read(text)
            self.feeds = [aligned(np.random.standard_normal(i["shape"]).astype(np.float32)) for i in graph["inputs"]]
            self.peers = {"PyTorch": attention.torch_call(graph, self.feeds),
                          "ONNX Runtime": attention.runtime_call(graph, self.feeds, threads)}
            self.comparable = True
            drawn = []
        else:
            spec = Spec(text)
            drawn = [word for name in spec.drawn for word in ("--const", name + "=random:1")]
            self.feeds = [aligned(t.numpy()) for t in spec.inputs()]
            self.peers = {"PyTorch": torch_call(spec)}
            self.comparable = not any(const and not values for const, _, _, values in spec.operands)
        path = os.path.join(folder, "work.so")
        subprocess.run([nestor, "compile", text, *drawn, "--threads", str(threads), "--name", "work", "-o", path], check=True,
                       stdout=subprocess.DEVNULL)
        wanted = self.peers["PyTorch"]().numpy()
        self.run = Artifact(path, self.feeds, [wanted], threads)
        self.run()
        if self.comparable:
            np.testing.assert_allclose(self.run.outputs[0].reshape(wanted.shape), wanted, rtol=2e-3, atol=2e-3, err_msg=text)


def measure(a, b, seconds):
    """Times of calls of a and b in turn, several calls at once where they are short."""
    for f in (a, b):
        f()
    begin = time.perf_counter()
    a()
    calls = max(1, int(100e-6 / max(time.perf_counter() - begin, 1e-7)))
    times, deadline = ([], []), time.perf_counter() + seconds
    while len(times[0]) < 15 or time.perf_counter() < deadline:
        for i in (0, 1) if len(times[0]) % 2 else (1, 0):
            f, begin = (a, b)[i], time.perf_counter()
            for _ in range(calls):
                f()
            times[i].append((time.perf_counter() - begin) / calls)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nestor")
    parser.add_argument("works")
    parser.add_argument("--only", default="*", metavar="GLOB")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, for each work")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    print(f"beside PyTorch {torch.__version__}, {args.threads} thread(s); above 1 Nestor is faster")
    rows, skipped = [], []
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        for n, (family, name, text) in enumerate(works_of(args.works)):
            if not fnmatch.fnmatch(name, args.only):
                continue
            home = os.path.join(folder, str(n))
            os.mkdir(home)
            try:
                contest = Contest(args.nestor, text, home, args.threads, os.path.dirname(os.path.abspath(args.works)))
            except (KeyError, AttributeError) as e:
                skipped.append(f"{name} ({e})")
                continue
            times = {peer: measure(contest.run, call, args.seconds) for peer, call in contest.peers.items()}
            ratios = {peer: paired(*both) for peer, both in times.items()}
            us, peer_us = (1e6 * sorted(t)[len(t) // 2] for t in times["PyTorch"])
            ratio, low, high = min(ratios.values())
            rows.append({"family": family, "name": name, "us": us, "peer_us": peer_us, "x_torch": ratios["PyTorch"][0],
                         "x_best": ratio, "low": low, "high": high})
            others = "".join(f"  {r:.2f} ({a:.2f} to {b:.2f}) {p}" for p, (r, a, b) in ratios.items() if p != "PyTorch")
            r, a, b = ratios["PyTorch"]
            print(f"  {family:9} {name:24} {us:10.1f} us  {r:6.2f} ({a:.2f} to {b:.2f}){others}", flush=True)
    for what, some in (("all", [r for r in rows if r["us"] >= SHORT]), (f"under {SHORT} us", [r for r in rows if r["us"] < SHORT])):
        if some:
            mean = math.exp(sum(math.log(r["x_best"]) for r in some) / len(some))
            least = min(some, key=lambda r: r["x_best"])
            print(f"  {what}: {len(some)} works, geomean {mean:.2f}, least {least['x_best']:.2f} ({least['name']})")
    if skipped:
        print("  not compared: " + ", ".join(skipped))
    if args.json:
        json.dump({"torch": torch.__version__, "threads": args.threads, "rows": rows}, open(args.json, "w"))


if __name__ == "__main__":
    main()
