#!/usr/bin/env python3
"""How long compiling whole models takes, and how much memory, by one nestor or several beside each other, which take turns.

    compile_models.py NESTOR [NESTOR ...] --models MODEL [MODEL ...] [--times N] [ARG ...]        ARGs go to `nestor compile`
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

MB = 1 << 20


def measure(command):
    """Seconds, those of the CPUs, and the peak in MB of a command that runs as the only child of a process."""
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds, used = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / MB


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nestor", nargs="+")
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--times", type=int, default=5)
    args, others = parser.parse_known_args()
    print(f"{'model':<20} {'file':>8}  {'median s':>9} {'CPU s':>9} {'peak':>9}  {'artifact':>9}  nestor")
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "m.so")
            runs = {nestor: [] for nestor in args.nestor}
            sizes = {}
            for _ in range(args.times):
                for nestor in args.nestor:
                    command = [nestor, "compile", model, "--threads", "1", "-o", target, *others]
                    alone = subprocess.run([sys.executable, __file__, "--one", *command], check=True, capture_output=True,
                                           text=True)
                    runs[nestor].append([float(word) for word in alone.stdout.split()])
                    sizes[nestor] = os.path.getsize(target) / MB
        for nestor, figures in runs.items():
            seconds, of_cpus, peaks = zip(*figures)
            print(f"{os.path.basename(model):<20} {os.path.getsize(model) / MB:5.0f} MB  {statistics.median(seconds):9.2f} "
                  f"{statistics.median(of_cpus):9.2f} {max(peaks):6.0f} MB  {sizes[nestor]:6.0f} MB  {nestor}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(*measure(sys.argv[2:]))
    else:
        main()
