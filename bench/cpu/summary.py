#!/usr/bin/env python3
"""What one run of bench_cpu comes to: per family the geometric mean of (best peer's time / ours) and the least, the five
works furthest behind, and works under 20 us apart, where a call costs as much as its work.

    summary.py cpu.json
"""

import json
import math
import sys

SHORT = 20  # us


def geomean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def line(name, works):
    if works:
        least = min(works, key=lambda w: w["x_best"])
        print(f"  {name:20} {len(works):4} works   geomean {geomean([w['x_best'] for w in works]):5.2f}   "
              f"least {least['x_best']:5.2f} ({least['name'].split('/iterations')[0]})")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    works = json.load(open(sys.argv[1]))["benchmarks"]
    failed = [w for w in works if w.get("error_occurred")]
    works = [w for w in works if not w.get("error_occurred")]
    beside = [w for w in works if w.get("x_best")]
    print("\nbest peer's time / ours (above 1 Nestor is faster)")
    long = [w for w in beside if w["us"] >= SHORT]
    for family in dict.fromkeys(w["label"].split(";")[0] for w in beside):
        line(family, [w for w in long if w["label"].split(";")[0] == family])
    line("all", long)
    line(f"under {SHORT} us", [w for w in beside if w["us"] < SHORT])
    beside_one = [w for w in works if "x_one_thread" in w]
    if beside_one:
        print("  beside one thread of ours (its time / ours):")
        one_us = lambda w: w["us"] * w["x_one_thread"]
        for name, some in ("200 us and more", [w for w in beside_one if one_us(w) >= 200]), (
                "shorter", [w for w in beside_one if one_us(w) < 200]):
            if some:
                least = min(some, key=lambda w: w["x_one_thread"])
                print(f"  {name:20} {len(some):4} works   geomean {geomean([w['x_one_thread'] for w in some]):5.2f}   "
                      f"least {least['x_one_thread']:5.2f} ({least['name'].split('/iterations')[0]})")
    print("  furthest behind:")
    for w in sorted(long, key=lambda w: w["x_best"])[:5]:
        print(f"    {w['x_best']:5.2f}  {w['name'].split('/iterations')[0]}")
    for what in ("schedule_ms", "compile_ms"):
        times = sorted(w[what] for w in works)
        if times:
            print(f"  {what.replace('_ms', ''):10} median {times[len(times) // 2]:7.2f} ms, most {times[-1]:7.2f} ms")
    for w in failed:
        print(f"  FAILED {w['name']}: {w['error_message']}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
