#!/usr/bin/env python3
"""What Python costs: `import nestor` and its first use beyond `import numpy`, in fresh processes that take turns; and a call of
a model beyond the same call by a C program. Run by the Python that has the package.

    PYTHONPATH=build/release/python build/venv/bin/python bench/python_times.py [--times N]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import nestor

CALLS = 100000
C_CALLER = """
#include "relu.h"
#include <stdio.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec * 1e-3; }
int main(void) {
  float x[8] = {0}, y[8];
  struct relu* model = relu_create(NULL);
  const struct relu_inputs in = {.x0 = x};
  const struct relu_outputs out = {.y = y};
  const double start = now();
  for (int i = 0; i < %d; ++i) if (relu_run(model, &in, &out) != 0) return 1;
  printf("%%f", (now() - start) / %d);
  return 0;
}
""" % (CALLS, CALLS)


def milliseconds(code):
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.monotonic() - start) * 1e3


def imports(times):
    codes = ["import numpy", "import numpy, nestor", "import numpy, nestor; nestor.load"]
    taken = {code: [] for code in codes}
    for code in codes:
        milliseconds(code)  # files are in memory from here on
    for _ in range(times):
        for code in codes:
            taken[code].append(milliseconds(code))
    alone, package, used = (statistics.median(taken[code]) for code in codes)
    print(f"import numpy                {alone:6.1f} ms, the median of {times} processes")
    print(f"import numpy, nestor        {package:6.1f} ms: {package - alone:.1f} ms more")
    print(f"and its first use           {used:6.1f} ms: {used - alone:.1f} ms more")


def microseconds(call):
    start = time.monotonic()
    for _ in range(CALLS):
        call()
    return (time.monotonic() - start) * 1e6 / CALLS


def calls(times):
    model = nestor.compile("Relu(f32[8])", threads=1)
    x, y = numpy.zeros(8, "float32"), numpy.empty(8, "float32")
    with tempfile.TemporaryDirectory() as folder:
        model.save(os.path.join(folder, "relu.so"))
        with open(os.path.join(folder, "caller.c"), "w") as f:
            f.write(C_CALLER)
        subprocess.run(["cc", "-O2", "caller.c", "relu.so", "-Wl,-rpath,$ORIGIN", "-o", "caller"], check=True, cwd=folder)
        rounds = [(float(subprocess.check_output([os.path.join(folder, "caller")])), microseconds(lambda: model(x)),
                   microseconds(lambda: model(x, out=y))) for _ in range(times)]
    c, new, given = (statistics.median(column) for column in zip(*rounds))
    print(f"relu_run(model, &in, &out)  {c:6.2f} us, the median of {times} rounds of {CALLS:,} calls")
    print(f"m(x)                        {new:6.2f} us: {new - c:.2f} us more")
    print(f"m(x, out=y)                 {given:6.2f} us: {given - c:.2f} us more")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    times = parser.parse_args().times
    imports(times)
    calls(times)


if __name__ == "__main__":
    main()
