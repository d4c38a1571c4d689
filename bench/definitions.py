#!/usr/bin/env python3
"""The library's definitions (schedules/library/*.sched), applied to operators as a user would, beside the naive nest.

    definitions.py NESTOR [--threads N] [--seconds S]
"""

import argparse
import json
import os
import subprocess
import tempfile

# Sizes with tails; the registers of AVX-512, which other machines have fewer of.
USES = [
    ("MatMul(f32[200,310], const f32[310,330])", "apply gemm_cpu(Y, B)"),
    ("Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])", "apply conv_cpu(Y, P, W)"),
    ("Softmax(f32[1536,128])", "apply softmax_rows(Y)"),
    ("Max(f32[1000,771], f32[1000,771])", "apply elementwise(Y)"),
    ("GlobalAveragePool(f32[8,64,56,56])", "apply row_reduction(Sum, nc, hw)"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nestor")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--seconds", default="0.5")
    args = parser.parse_args()
    for model, step in USES:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "use.sched")
            with open(path, "w") as f:
                f.write(step + "\n")
            out = subprocess.run([args.nestor, "bench", model, "--schedule", "naive", "--schedule", path, "--threads",
                                  args.threads, "--seconds", args.seconds, "--json"], capture_output=True, text=True)
        if out.returncode:
            raise SystemExit(f"{model}: {step}\n{out.stderr}")
        rows = [json.loads(line) for line in out.stdout.splitlines()]
        naive, fast = rows[0]["min_ms"], rows[1]["min_ms"]
        print(f"  {step:28} {model:62} {naive:10.3f} ms -> {fast:8.3f} ms  {naive / fast:8.1f} times")


if __name__ == "__main__":
    main()
