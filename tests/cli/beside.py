"""`nestor bench --beside`: ours and other runtimes on the same inputs, compared, then timed in turns."""

import json
import os
import subprocess

from harness import Harness

t = Harness()
python = os.path.join(t.source, "build/venv/bin/python")
ONNX = os.path.join(t.source, "examples/digits/digits.onnx")
MODEL = [ONNX, "--dim", "batch=4", "--threads", "1", "--seconds", "0.05"]


def has(module):
    return subprocess.run([python, "-c", "import " + module], capture_output=True).returncode == 0


def refusals():
    for python_used, words in (("python3 -S", ("isn't installed for", "pip install onnxruntime", "NESTOR_PYTHON=")),
                               ("/no/python", ("doesn't start", "NESTOR_PYTHON="))):
        os.environ["NESTOR_PYTHON"] = python_used
        t.refuses(f"no peer for {python_used}", ["bench", *MODEL, "--beside", "onnxruntime"], *words)
    os.environ["NESTOR_PYTHON"] = "python3 -S"
    t.refuses("no such peer", ["bench", *MODEL, "--beside", "tvm"], "'tvm'", "onnxruntime, openvino")
    t.refuses("another kind of file", ["bench", t.digits, "--dim", "batch=1", "--beside", "onnxruntime"], "needs a .onnx")
    t.refuses("with --const", ["bench", *MODEL, "--beside", "onnxruntime", "--const", "a=1"], "--const")
    t.refuses("for CUDA", ["bench", *MODEL, "--beside", "onnxruntime", "--target", "cuda:sm_80"], "--target native")
    t.refuses("with a back end", ["bench", *MODEL, "--beside", "onnxruntime", "--backend", "halide"], "--backend", code=2)


def times(peers):
    out = t.succeeds("times", "bench", *MODEL, "--beside", ",".join(peers), "--schedule", "naive", "default", "--json")
    rows = {r.get("schedule") or r["peer"]: r for r in map(json.loads, out.splitlines())}
    t.check(list(rows) == ["naive", "default", *peers], "ours come first, then the peers", out)
    for label, row in rows.items():
        t.check(0 < row["min_ms"] <= row["median_ms"] <= row["p90_ms"] and row["runs"] >= 5, f"{label} has times", out)
        t.check(set(row["beside"]) == set(peers) - {label}, f"{label} has a ratio beside each other peer", out)
        for ratio in row["beside"].values():
            t.check(0 < ratio["low"] <= ratio["ratio"] <= ratio["high"], f"the interval of {label} holds its median", str(ratio))
    t.check(all(rows[p]["version"][0].isdigit() for p in peers), "versions of the peers", out)
    shown = t.succeeds("a table", "bench", *MODEL, "--beside", ",".join(peers))
    t.check("x ONNX Runtime" in shown and " to " in shown and "FMA peak" in shown, "with ratios and intervals", shown)


refusals()
if not has("onnxruntime"):
    print("no onnxruntime in build/venv: nothing is timed (./dev setup installs it)")
    t.finish()
os.environ["NESTOR_PYTHON"] = python
times([p for p in ("onnxruntime", "openvino") if has(p)])
t.refuses("outputs that differ", ["bench", *MODEL, "--beside", "onnxruntime", "--tolerance", "0"], "of the default schedule differs",
          "nothing is timed", code=3)
left = [f for f in os.listdir(os.environ.get("TMPDIR", "/tmp")) if f.startswith("nestor-beside-")]
t.check(not left, "no folder is left behind", str(left))
t.finish()
