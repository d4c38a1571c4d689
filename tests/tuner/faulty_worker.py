"""A worker whose times are a function of the schedule, and some of whose answers are at fault.

Usage: faulty_worker.py SHARE [FAULT,...] [SECONDS] [DEFAULT]: SHARE of the jobs, from 0 to 1, meet one of the faults (all
where none is given); each job takes SECONDS, those of the default schedule DEFAULT.
"""
import hashlib
import json
import os
import re
import sys
import time

BEST = {"a": 13, "b": 7, "c": 17}
FAULTS = ["crash", "hang", "nan", "wrong", "garbage", "kill", "lie", "one_ns", "other_id", "other_trace"]


def true_ns(trace):
    """What the schedule takes: the decisions of search_test.py's space; any other schedule takes longest."""
    decisions = dict(re.findall(r"(\w) = sample_choice \[.*\] -> (\d+)", trace))
    if set(decisions) != set(BEST):
        return 40000.0
    far = {name: abs(int(decisions[name]) - best) for name, best in BEST.items()}
    return 20000.0 + 400 * far["a"] + 150 * far["b"] + 60 * far["c"]


def answer(job, fault):
    put = {"id": job["id"], "outcome": "ok", "samples_ns": [true_ns(job["trace"])] * 3, "compile_ms": 0.0, "error": 0.1,
           "host": fault or "honest"}
    if fault == "crash":
        os.abort()
    if fault == "kill":
        os.kill(os.getpid(), 9)
    if fault == "hang":
        time.sleep(1000)
    if fault == "garbage":
        return "\0 hello"
    if fault == "wrong":
        put.update(outcome="wrong_result", detail="element 3 of Y is 1.0, should be 2.0", samples_ns=[])
    if fault in ("lie", "one_ns"):
        put["samples_ns"] = [1000.0 if fault == "lie" else 1.0]
    if fault == "nan":
        put["samples_ns"] = [float("nan")]
    if fault == "other_id":
        put["id"] += 1
    if fault == "other_trace":  # which isn't the worker's to say
        put.update(trace="parallel Y.i\n", median_ns=1.0)
    return json.dumps(put)


def main():
    share = float(sys.argv[1])
    faults = sys.argv[2].split(",") if len(sys.argv) > 2 and sys.argv[2] else FAULTS
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0
    default_seconds = float(sys.argv[4]) if len(sys.argv) > 4 else seconds
    for line in sys.stdin:
        job = json.loads(line)
        # Drawn for each job anew, the same in each run.
        drawn = int(hashlib.sha256(f"{job['seed']} {job['id']}".encode()).hexdigest(), 16)
        fault = faults[drawn // 1000 % len(faults)] if drawn % 1000 < 1000 * share else ""
        time.sleep(seconds if "a = sample_choice" in job["trace"] else default_seconds)
        sys.stdout.write(answer(job, fault) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
