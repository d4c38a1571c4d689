#!/usr/bin/env python3
"""What one run of bench_cpu comes to: per family the geometric mean of (best peer's time / ours) and the least, the five
works furthest behind, and works under 20 us apart, where a call costs as much as its work.

    summary.py cpu.json [torch.json]

With what beside_torch.py wrote about the same works, PyTorch is one of the peers, and one table over all of them comes
first. Each ratio is of one process, in which both sides took turns. Beside PyTorch tensors lie row major, beside the
others in blocks of channels where a library has such a layout.
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
              f"least {least['x_best']:5.2f} ({name_of(least)})")


def name_of(work):
    return work["name"].split("/iterations")[0]


def join(works, torch):
    """PyTorch's ratio to each work that it did, and the best peer's anew."""
    beside = {row["name"]: row for row in torch["rows"]}
    for w in works:
        if row := beside.get(name_of(w)):
            w["x_PyTorch"] = row["x_torch"]
            if "x_best" not in w or row["x_torch"] < w["x_best"]:
                w.update(x_best=row["x_torch"], x_best_low=row["low"], x_best_high=row["high"])


def table(works, peers):
    print(f"{'work':32} {'us':>10} {'GFLOP/s':>8} {'bound':>7}" + "".join(f" {'x ' + p:>11}" for p in peers)
          + "   x best peer [95 %]")
    for w in works:
        ratios = "".join(f" {w['x_' + p]:11.2f}" if "x_" + p in w else f" {'-':>11}" for p in peers)
        best = f"{w['x_best']:5.2f} [{w['x_best_low']:5.2f}, {w['x_best_high']:5.2f}]" if "x_best" in w else "    -"
        print(f"{name_of(w):32} {w['us']:10.2f} {w['gflops']:8.1f} {100 * w['of_bound']:6.1f}%{ratios}   {best}")


def print_threads(works):
    if not works:
        return
    print("  beside one thread of ours (its time / ours):")
    one_us = lambda w: w["us"] * w["x_one_thread"]
    for name, some in ("200 us and more", [w for w in works if one_us(w) >= 200]), (
            "shorter", [w for w in works if one_us(w) < 200]):
        if some:
            least = min(some, key=lambda w: w["x_one_thread"])
            print(f"  {name:20} {len(some):4} works   geomean {geomean([w['x_one_thread'] for w in some]):5.2f}   "
                  f"least {least['x_one_thread']:5.2f} ({name_of(least)})")
    for counter, what in (("copy_x_one_thread", "that memory binds, as a share of what the threads bring a copy"),
                          ("apart_x_one_thread", "others, as a share of what the kernel for one thread brings on each of them at once")):
        share = lambda w: w["x_one_thread"] / w[counter]
        some = [w for w in works if counter in w and one_us(w) >= 200]
        if some:
            least = min(some, key=share)
            print(f"  of the long ones {len(some)} {what}: geomean {geomean(list(map(share, some))):5.2f}   "
                  f"least {share(least):5.2f} ({name_of(least)})")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    works = json.load(open(sys.argv[1]))["benchmarks"]
    failed = [w for w in works if w.get("error_occurred")]
    works = [w for w in works if not w.get("error_occurred")]
    if len(sys.argv) == 3:
        torch = json.load(open(sys.argv[2]))
        join(works, torch)
        print(f"beside oneDNN, OpenBLAS and PyTorch {torch['torch']}, {torch['threads']} thread(s); ratios are the peer's time / ours")
        table(works, ["oneDNN", "OpenBLAS", "PyTorch"])
    beside = [w for w in works if w.get("x_best")]
    print("\nbest peer's time / ours (above 1 Nestor is faster)")
    long = [w for w in beside if w["us"] >= SHORT]
    for family in dict.fromkeys(w["label"].split(";")[0] for w in beside):
        line(family, [w for w in long if w["label"].split(";")[0] == family])
    line("all", long)
    line(f"under {SHORT} us", [w for w in beside if w["us"] < SHORT])
    print_threads([w for w in works if "x_one_thread" in w])
    print("  furthest behind:")
    for w in sorted(long, key=lambda w: w["x_best"])[:5]:
        print(f"    {w['x_best']:5.2f}  {name_of(w)}")
    for what in ("schedule_ms", "compile_ms"):
        times = sorted(w[what] for w in works)
        if times:
            print(f"  {what.replace('_ms', ''):10} median {times[len(times) // 2]:7.2f} ms, most {times[-1]:7.2f} ms")
    for w in failed:
        print(f"  FAILED {w['name']}: {w['error_message']}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
