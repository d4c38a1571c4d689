"""An artifact for another processor says so where it starts, under an emulator of an old one."""

import platform
import shutil
import subprocess
import sys

from harness import Harness

t = Harness()

C = """#include <stdio.h>
#include "m.h"
int main(void) {
  char why[256] = "";
  struct m_options options = {.why = why, .why_bytes = sizeof why};
  float x[8] = {-1, 2}, y[8];
  struct m* model = m_create(&options);
  if (!model) return puts(why), 3;
  const struct m_inputs in = {x};
  const struct m_outputs out = {y};
  const int failed = m_run(model, &in, &out);
  m_destroy(model);
  return failed || y[0] != 0 || y[1] != 2;
}
"""


def starts(what, command, code, *needles):
    p = subprocess.run(command, capture_output=True, text=True, timeout=60)
    t.check(p.returncode == code and all(n in p.stdout for n in needles), what, f"exit {p.returncode}\n{p.stdout}{p.stderr}")


if platform.machine() != "x86_64" or not shutil.which("qemu-x86_64"):
    print("SKIPPED: needs qemu-x86_64 on x86-64")
    sys.exit(0)
t.write("main.c", C)
for target, cpu, missing in [("x86-64-v2", "Nehalem", ""), ("x86-64-v3", "Nehalem", "fma"), ("x86-64-v3", "Haswell", ""),
                             ("x86-64-v4", "Haswell", "avx512f"), ("znver4", "Haswell", "avx512f")]:
    t.succeeds(f"for {target}", "compile", "Relu(f32[8])", "--target", target, "-o", "m.a")
    subprocess.run(["cc", "main.c", "m.a", "-o", "main"], check=True)
    words = [f"this processor has no {missing}, which code for {target} uses"] if missing else []
    starts(f"code for {target} on a {cpu}", ["qemu-x86_64", "-cpu", cpu, "./main"], 3 if missing else 0, *words)

t.finish()
