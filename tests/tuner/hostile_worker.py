"""A worker that doesn't keep to the protocol, in a way of one's choice. Usage: hostile_worker.py MODE"""
import json
import os
import sys
import time

mode = sys.argv[1]
out = sys.stdout.buffer

OUTRIGHT = {"none": "null", "text": '"fast"', "object": "{}", "deep": "[" * 100000 + "]" * 100000}


def write(data):
    try:
        out.write(data if isinstance(data, bytes) else data.encode())
        out.flush()
    except BrokenPipeError:  # killed in the middle
        os._exit(1)


def put(answer, **changes):
    answer = {**answer, **changes}
    write(json.dumps({k: v for k, v in answer.items() if v is not ...}) + "\n")


def misbehave(job, right):
    samples = {"negative": [-5.0], "zero": [0.0], "tiny": [1e-300], "huge": [1e308], "nan": [float("nan")],
               "infinite": [float("inf")], "hour": [3.6e12], "one_bad": [1000.0, -1.0, 1000.0], "no_samples": [],
               "null_sample": [None], "text_sample": ["1"], "nested_sample": [[1.0]], "scalar_samples": 5.0,
               "missing_samples": ..., "many_samples": [1.0] * 20000}
    if mode in samples:
        put(right, samples_ns=samples[mode])
    elif mode.startswith("id_"):
        put(right, id={"id_other": job["id"] + 1, "id_text": str(job["id"]), "id_missing": ..., "id_negative": -1,
                       "id_float": job["id"] + 0.5, "id_huge": 10**30}[mode])
    elif mode == "lies":  # about all that isn't its to say
        put(right, trace="parallel Y.k\n", func="func other() {}", target="zzz", threads=77, seed=5, workload="w",
            median_ns=1e-9, stored=True)
    elif mode in OUTRIGHT:
        write(OUTRIGHT[mode] + "\n")
    elif mode == "outcome":
        put(right, outcome="great")
    elif mode == "error_nan":
        put(right, error=float("nan"))
    elif mode == "compile_negative":
        put(right, compile_ms=-1)
    elif mode == "detail_list":
        put(right, detail=["x"])
    elif mode == "controls":
        put(right, outcome="illegal", detail="\x1b[2J\nsecond line\x9b", host="a\tb")
    elif mode == "surrogate":
        write(json.dumps({**right, "host": "@"}).replace("@", "\\ud800") + "\n")
    elif mode == "garbage":
        write(b"\x00\xff hello\n")
    elif mode == "empty_line":
        write("\n")
    elif mode == "two_lines":
        write((json.dumps(right) + "\n") * 2)
    elif mode == "late_line":  # which comes when the next job has been given
        put(right)
        time.sleep(0.2)
        put(right, samples_ns=[1.0])
    elif mode == "endless_line":
        while True:
            write("x" * 65536)
    elif mode == "half_a_line":
        write(json.dumps(right)[:30])
        time.sleep(1000)
    elif mode == "drip":
        for c in json.dumps(right) + " " * 1000:
            write(c)
            time.sleep(0.01)
    elif mode == "silent":
        time.sleep(1000)
    elif mode == "exit":
        sys.exit(3)
    elif mode == "kill":
        os.kill(os.getpid(), 9)
    elif mode == "close":
        os.close(1)
        time.sleep(1000)
    elif mode == "orphan":
        os.system("sleep 1000 &")
        put(right)
    else:
        assert mode == "right", mode
        put(right)


if mode == "never_reads":
    time.sleep(1000)
for line in sys.stdin:
    job = json.loads(line)
    misbehave(job, {"id": job["id"], "outcome": "ok", "detail": "", "samples_ns": [1500.0, 1000.0, 2000.0],
                    "compile_ms": 0.001, "error": 0.5, "version": "1", "host": "h"})
