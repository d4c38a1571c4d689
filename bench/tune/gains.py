#!/usr/bin/env python3
"""What tuning finds: functions that users wrote (the .nest files beside this one), each tuned from nothing on one thread; or
with --operators, plans of the family `any` alone for operators whose default schedules know their kind.

    gains.py NESTOR [--time 60s] [--trials N] [--seed S] [--only GLOB] [--operators]

A function's ratio is (the default's time / the best's) as the search measures both in turn at its end, 1 where there is no
gain beyond noise. An operator's is (the default's / the best plan's), each by its own measurement.
"""

import argparse
import fnmatch
import glob
import json
import math
import os
import sqlite3
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OPERATORS = {
    "matmul_512": "MatMul(f32[512,512], const f32[512,512])",
    "conv3x3_256@14": "Conv(f32[1,256,14,14], const f32[256,256,3,3]; pads=[1,1,1,1])",
    "depthwise_96@112": "Conv(f32[1,96,112,112], const f32[96,1,3,3]; pads=[1,1,1,1], group=96)",
    "layer_norm_128x768": "LayerNormalization(f32[128,768], f32[768], f32[768])",
    "softmax_1536x128": "Softmax(f32[1536,128])",
}


def tune(nestor, spec, db, args, flags):
    out = subprocess.run([nestor, "tune", spec, "--db", db, "--threads", "1", "--time", args.time, "--trials",
                          str(args.trials), "--seed", str(args.seed), "--json", *flags], capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(f"{spec}: {out.stderr}")
    return json.loads(out.stdout)


def best_plan(db):
    with sqlite3.connect(db) as rows:
        default, plan = (rows.execute(f"SELECT min(median_ns) FROM records WHERE outcome = 'ok' AND plan {sign} ''")
                         .fetchone()[0] for sign in ("=", "<>"))
    return default / 1e3, plan / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nestor")
    parser.add_argument("--time", default="60s")
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="*", metavar="GLOB")
    parser.add_argument("--operators", action="store_true")
    args = parser.parse_args()
    works = OPERATORS if args.operators else {
        os.path.basename(path)[:-5]: path for path in sorted(glob.glob(os.path.join(HERE, "*.nest")))}
    ratios = []
    for name, spec in works.items():
        if not fnmatch.fnmatch(name, args.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            db = os.path.join(folder, "t.db")
            result = tune(args.nestor, spec, db, args, ["--family", "any", "--exact-conv"] if args.operators else [])
            default, best = best_plan(db) if args.operators else (result["default_us"], result["best_us"])
        ratios.append(default / best)
        print(f"  {name:20} default {default:10.2f} us  best {best:10.2f} us  {ratios[-1]:5.2f}  {result['measured']:4} candidates"
              f"  {result['end']}", flush=True)
    print(f"{len(ratios)} works: geomean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
