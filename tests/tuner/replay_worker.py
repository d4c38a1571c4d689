"""A worker that answers as a log says, `nestor db export`'s: each schedule's results in their order, the last one from then on.

Usage: replay_worker.py LOG
"""
import json
import sys
import time

log = {}
for line in open(sys.argv[1]):
    record = json.loads(line)
    log.setdefault(record["trace"], []).append(record)
for line in sys.stdin:
    job = json.loads(line)
    results = log.get(job["trace"])
    if not results:  # another stream
        print(json.dumps({"id": job["id"], "outcome": "illegal", "detail": "it isn't in the log", "samples_ns": []}), flush=True)
        continue
    record = results.pop(0) if len(results) > 1 else results[0]
    time.sleep(max(record["samples_ns"], default=0) / 1e9)  # a time longer than it took isn't believed
    kept = {key: record[key] for key in ("outcome", "detail", "samples_ns", "error", "version", "host")}
    print(json.dumps({"id": job["id"], "compile_ms": 0.0, **kept}), flush=True)
