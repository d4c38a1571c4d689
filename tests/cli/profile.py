"""`nestor bench --profile` and `--trace`: where a model's time goes, and what ran when."""

import json
import os
import re

from harness import Harness

t = Harness()
DIGITS = ["bench", t.digits, "--dim", "batch=2", "--seconds", "0.02"]


def profile():
    out = t.succeeds("--profile --json", *DIGITS, "--threads", "1", "--profile", "--json").splitlines()
    shown = json.loads(out[-1])
    funcs = shown["funcs"]
    t.check(len(out) == 2 and shown["schedule"] == "default" and shown["runs"] >= 20, "one object more", "\n".join(out))
    t.check([f["median_us"] for f in funcs] == sorted((f["median_us"] for f in funcs), reverse=True), "the longest first", str(funcs))
    t.check(len({f["func"] for f in funcs}) == len(funcs), "a row for each function", str(funcs))
    for f in funcs:
        t.check(f["bound_by"] in ("operations", "bytes") and f["bound_us"] > 0 and f["bytes"] > 0 and f["nodes"],
                f"{f['func']} has what bounds it", str(f))
    total = sum(f["median_us"] for f in funcs)
    t.check(0.5 < total / shown["median_us"] < 2, "their times add up to a run's", f"{total} of {shown['median_us']}")
    bound = {f["func"]: f["bound_by"] for f in funcs}
    out = t.succeeds("a table", *DIGITS, "--threads", "1", "--profile")
    t.check("bound by" in out and all(name in out for name in bound), "with every function", out)
    for spec, by in ("MatMul(f32[256,256], f32[256,256])", "operations"), ("Add(f32[2000000], f32[2000000])", "bytes"):
        out = t.succeeds(f"profile of {spec}", "bench", spec, "--threads", "1", "--seconds", "0.02", "--profile", "--json")
        row = json.loads(out.splitlines()[-1])["funcs"][0]
        t.check(row["bound_by"] == by, f"{spec} is bound by {by}", str(row))
        t.check(row["operations"] == (2 * 256**3 if by == "operations" else 2000000), "by so many operations", str(row))


def inside(e, outer):
    return outer["ts"] - 1e-3 <= e["ts"] and e["ts"] + e["dur"] <= outer["ts"] + outer["dur"] + 1e-3


def check_trace(path, threads):
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    t.check(names == {i: f"worker {i}" if i else "caller" for i in range(threads)}, f"{path} names {threads} threads", str(names))
    spans = {kind: [e for e in events if e.get("cat") == kind] for kind in ("run", "call", "piece")}
    runs, calls, pieces = spans["run"], spans["call"], spans["piece"]
    t.check(len(runs) == 10 and len(calls) % 10 == 0 and len(calls) >= 10, f"{path} has ten runs of equal calls", str(len(calls)))
    t.check(all(e["ph"] == "X" and e["dur"] >= 0 and e["tid"] in names for k in spans.values() for e in k), "complete events")
    for row in (runs, calls):
        t.check(all(a["tid"] == 0 and a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in zip(row, row[1:])), "one after the other")
    per_run = len(calls) // 10
    t.check(all(inside(c, runs[i // per_run]) and c["args"]["call"] == i % per_run for i, c in enumerate(calls)),
            "calls lie in their runs, in order")
    covered = {}
    for p in pieces:
        at = [i for i, c in enumerate(calls) if inside(p, c) and c["args"]["call"] == p["args"]["call"]]
        if not t.check(len(at) == 1 and calls[at[0]]["name"] == p["name"], "a piece lies in its call", str(p)):
            return
        first, last = map(int, p["args"]["iterations"].split(" to "))
        covered.setdefault(at[0], []).append((first, last))
    t.check(all(sorted(i for a, b in c for i in range(a, b + 1)) == list(range(1 + max(b for _, b in c))) for c in covered.values()),
            "the pieces of a call are its loop")
    for thread in names:
        row = sorted((p["ts"], p["ts"] + p["dur"]) for p in pieces if p["tid"] == thread)
        t.check(all(a[1] <= b[0] + 1e-3 for a, b in zip(row, row[1:])), f"thread {thread} does one piece at a time")
    return pieces


def traces():
    t.succeeds("--trace", *DIGITS, "--threads", "1", "--trace", "one.json")
    check_trace("one.json", 1)
    t.succeeds("--trace with --json", "bench", "MatMul(f32[512,512], f32[512,512])", "--threads", "2", "--seconds", "0.02", "--trace",
               "two.json", "--profile", "--json")
    pieces = check_trace("two.json", 2)
    if len(os.sched_getaffinity(0)) > 1:
        t.check(pieces and len(pieces) > 10, "pieces of loops are in it")
    t.refuses("another ending", [*DIGITS, "--trace", "trace.txt"], ".json")
    t.refuses("beside others", [*DIGITS, "--trace", "a.json", "--beside", "onnxruntime"], "--trace", code=2)
    t.succeeds("an artifact", "compile", t.digits, "--dim", "batch=1", "-o", "d.so")
    for flag in (["--profile"], ["--trace", "a.json"]):
        t.refuses(f"an artifact with {flag[0]}", ["bench", "d.so", "--seconds", "0.01", *flag], "can't look into an artifact")


def open_sizes():
    report = t.succeeds("open sizes", "compile", t.digits, "--dim", "batch=~2", "--report", "-o", "open.so")
    counts = dict(re.findall(r"^  (\w+) +([\d.]+) MFLOP", report, re.M))
    two = t.succeeds("the usual size", "compile", t.digits, "--dim", "batch=2", "--report", "-o", "two.so")
    t.check(counts["conv2d_bias_relu_1"] in two and float(counts["conv2d_bias_relu_1"]) > 0, "what a function does at the usual size",
            report)
    for batch, known in (2, True), (3, False):
        shown = t.succeeds(f"bench at {batch}", "bench", "open.so", "--dim", f"batch={batch}", "--seconds", "0.01", "--json")
        t.check(('"gflops"' in shown) == known, f"bench at {batch}: a rate where operations were counted", shown)
    shown = t.succeeds("bench for people", "bench", "open.so", "--dim", "batch=3", "--seconds", "0.01")
    t.check("counted for f32[2,1,8,8] alone" in shown, "what was counted", shown)


profile()
traces()
open_sizes()
t.finish()
