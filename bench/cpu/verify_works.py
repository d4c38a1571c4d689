#!/usr/bin/env python3
"""Every work of a list is right: `nestor verify` holds its default kernel to the error bound of its operator, and
`nestor verify --prove` its schedule to the proof. What the benchmark runs with its tensors in blocks of channels is
looked at in both layouts.

    verify_works.py NESTOR WORKS.txt [--only GLOB] [--target T]
"""

import argparse
import concurrent.futures
import fnmatch
import os
import subprocess
import sys

BY_CHANNELS = ("Conv", "MaxPool", "AveragePool")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nestor")
    parser.add_argument("works")
    parser.add_argument("--only", default="*", metavar="GLOB")
    parser.add_argument("--target", default="native")
    args = parser.parse_args()
    count, runs = 0, []
    for line in open(args.works):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        _, name, spec = line.split(None, 2)
        if not fnmatch.fnmatch(name, args.only):
            continue
        count += 1
        if spec.endswith((".nest", ".json")):
            spec = os.path.join(os.path.dirname(args.works), spec)
        layouts = [[], ["--blocked-io"]] if spec.startswith(BY_CHANNELS) else [[]]
        runs += [(name, spec, layout + proof) for layout in layouts for proof in ([], ["--prove"])]

    def fails(run):
        name, spec, how = run
        ran = subprocess.run([args.nestor, "verify", spec, "--target", args.target, *how],
                             capture_output=True, text=True)
        if ran.returncode != 0:
            print(f"FAILED {name}: nestor verify '{spec}' {' '.join(how)}\n{ran.stdout}{ran.stderr}", flush=True)
        return ran.returncode != 0

    # Each runs its kernel on all cores, and is busy on one most of the time.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failed = sum(pool.map(fails, runs))
    print(f"{count} works, each within its error bound and with a proved schedule" if not failed else
          f"{failed} failures in {count} works")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
