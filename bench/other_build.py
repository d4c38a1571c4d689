#!/usr/bin/env python3
"""Is a change without a price? Every work of a list by this build and by another one, whole processes in turns on one
thread. A work's ratio is (the other's time / ours) by the least times of all rounds; `pairs` are the ratios of single
rounds from the least to the largest, so a ratio below 1 whose pairs lie on both sides of it is noise.

    other_build.py NESTOR OTHER [--works WORKS.txt] [--only GLOB] [--rounds N] [--seconds S] [--json FILE]
"""

import argparse
import fnmatch
import json
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def time_of(nestor, spec, seconds):
    """The least time of one process, in ms; None where it refuses the work."""
    out = subprocess.run([nestor, "bench", spec, "--threads", "1", "--seconds", str(seconds), "--json"],
                         capture_output=True, text=True)
    return json.loads(out.stdout.splitlines()[0])["min_ms"] if out.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nestor")
    parser.add_argument("other")
    parser.add_argument("--works", default=os.path.join(HERE, "cpu", "works.txt"))
    parser.add_argument("--only", default="*", metavar="GLOB", help="works by name")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of one process")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    rows = []
    for line in open(args.works):
        if not line.strip() or line.startswith("#"):
            continue
        family, name, spec = line.strip().split(None, 2)
        if not fnmatch.fnmatch(name, args.only):
            continue
        if spec.endswith((".nest", ".json")):
            spec = os.path.join(os.path.dirname(args.works), spec)
        rounds = []
        for i in range(args.rounds):
            order = [args.nestor, args.other][:: 1 if i % 2 == 0 else -1]
            times = {n: time_of(n, spec, args.seconds) for n in order}
            rounds.append((times[args.nestor], times[args.other]))
        if any(t is None for pair in rounds for t in pair):
            print(f"  {name:24} refused by {'this build' if rounds[0][0] is None else 'the other one'}", flush=True)
            continue
        ours, other = (min(pair[side] for pair in rounds) for side in (0, 1))
        pairs = sorted(b / a for a, b in rounds)
        rows.append({"family": family, "name": name, "ms": ours, "other_ms": other, "x": other / ours, "pairs": pairs})
        print(f"  {name:24} {ours:10.4f} ms, the other {other:10.4f} ms   {other / ours:5.2f}   "
              f"pairs {pairs[0]:.2f} to {pairs[-1]:.2f}", flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)
    if not rows:
        sys.exit("no work was timed")
    least = min(rows, key=lambda r: r["x"])
    print(f"{len(rows)} works: geomean {math.exp(sum(math.log(r['x']) for r in rows) / len(rows)):.3f}, "
          f"least {least['x']:.2f} ({least['name']})")


if __name__ == "__main__":
    main()
