#!/usr/bin/env python3
"""Untuned matrix products of random sizes on one thread, as a share of the FMA peak measured in the same process.

    matmul_sizes.py NESTOR [--seed S] [--count N] [--low A] [--high B]
"""

import argparse
import json
import random
import statistics
import subprocess


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nestor")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--low", type=int, default=200)
    parser.add_argument("--high", type=int, default=1100)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    shares = []
    for _ in range(args.count):
        m, k, n = (rng.randint(args.low, args.high) for _ in range(3))
        out = subprocess.run([args.nestor, "bench", f"MatMul(f32[{m},{k}], const f32[{k},{n}])", "--threads", "1", "--seconds",
                              "0.5", "--json"], check=True, capture_output=True, text=True).stdout
        r = json.loads(out.splitlines()[0])
        shares.append(100 * r["gflops"] / r["peak_gflops"])
        print(f"  {m:5} x {k:5} x {n:5}   {r['median_ms']:9.3f} ms  {r['gflops']:7.1f} GFLOP/s  {shares[-1]:5.1f} % of the "
              f"peak ({r['peak_gflops']:.0f})   best run {100 * r['gflops'] * r['median_ms'] / r['min_ms'] / r['peak_gflops']:5.1f} %")
    print(f"  median {statistics.median(shares):.1f} %, least {min(shares):.1f} %")


if __name__ == "__main__":
    main()
