"""CUDA targets as a user meets them without a device: what is emulated, what is made, and what says that it needs one. Where
the build has a stub of libcuda, the same on a device that it stands for.

    cuda.py NESTOR SOURCE WORK STUB_FOLDER
"""

import os
import shutil
import subprocess
import sys

from harness import Harness

t = Harness()
stub = sys.argv[4]
BATCH = (t.digits, "--dim", "batch=2")
A100 = ("--target", "cuda:sm_80")
IMAGE = ("--input", "image=random:1")

nvrtc = "NVRTC       not found" not in t.succeeds("doctor", "doctor")
no_device = not os.path.exists("/dev/nvidiactl")

# Emulated
t.succeeds("run on the CPU", "run", *BATCH, *IMAGE, "-o", "cpu.npz")
t.succeeds("run --emulate", "run", *BATCH, *A100, "--emulate", *IMAGE, "-o", "emulated.npz")
t.succeeds("what it gives is what the CPU gives", "verify", *BATCH, *IMAGE, "--expect", "emulated.npz", "--rtol", "1e-4")
out = t.succeeds("verify --emulate", "verify", *BATCH, *A100, "--emulate")
t.check("softmax: 20 elements agree" in out and "probability compared with the graph as read" in out, "compares all", out)
t.succeeds("verify --emulate, bit for bit", "verify", *BATCH, *A100, "--emulate", "--against", "lowered")
t.succeeds("no elements", "verify", "Relu(f32[0,4])", *A100, "--emulate")
t.succeeds("no kernels", "verify", "Identity(f32[3])", *A100, "--emulate")
t.refuses("--emulate of a CPU", ("run", *BATCH, *IMAGE, "--emulate"), "--emulate is for CUDA targets", "cuda:sm_80")
p = t.run("run", *BATCH, *A100, "--emulate", *IMAGE, env={"NESTOR_CXX": "/nowhere/c++"})
t.check(p.returncode == 1 and "/nowhere/c++ can't compile" in p.stderr and "NESTOR_CXX" in p.stderr,
        "without a compiler", p.stderr)

# Without a device
if no_device:
    t.refuses("run needs a device", ("run", *BATCH, *A100, *IMAGE), "no NVIDIA driver", "--emulate")
    t.refuses("verify needs a device", ("verify", *BATCH, *A100), "no NVIDIA driver", "--emulate")
    t.refuses("bench needs a device", ("bench", *BATCH, *A100), "no NVIDIA driver")
p = t.run("tune", *BATCH, *A100, "--db", "t.db")
t.check(p.returncode == 1 and "--emulate orders them by their price" in p.stderr, "CUDA isn't measured", p.stderr)

# What is made
t.refuses("several CPUs", ("compile", *BATCH, "--target", "native,x86-64-v3", "-o", "m.so"), "for CUDA only")
t.refuses("no such device", ("compile", *BATCH, "--target", "cuda:sm_80,sm_81", "-o", "m.so"), "cuda:sm_81")
t.succeeds("emit cuda", "compile", *BATCH, *A100, "-o", "m.cu")
source = open("m.cu").read()
t.check(source.count("__global__") == 6 and source.count("template <class T> __device__ inline T max_of") == 1,
        "one source for all functions", source)
if shutil.which("nvcc"):
    p = subprocess.run(["nvcc", "-arch=sm_90a", "-cubin", "m.cu", "-o", "m.cubin"], capture_output=True, text=True)
    t.check(p.returncode == 0, "nvcc takes it", p.stderr)
else:
    print("SKIPPED: no nvcc on this machine")
if nvrtc:
    t.succeeds("emit ptx", "compile", *BATCH, "--target", "cuda:sm_90a", "-o", "m.ptx")
    ptx = open("m.ptx").read()
    t.check(ptx.count(".version") == 1 and ptx.count(".entry") == 6 and ".target sm_90a" in ptx, "one module", ptx[:500])
    out = t.succeeds("an artifact", "compile", *BATCH, "--target", "cuda:sm_80,sm_90a", "-o", "m.so")
    t.check("m.h: the C interface" in out, "and its header", out)
    t.check("cuda:sm_80,sm_90a" in open("m.h").read(), "which says for what", open("m.h").read()[:300])
    t.succeeds("weights beside", "compile", *BATCH, *A100, "-o", "b.so", "--weights", "beside")
    t.check(os.path.exists("b.weights"), "are a file")
    t.succeeds("other forms", "compile", *BATCH, *A100, "-o", "f.so", "--emit", "archive,obj,header,ir,llvm,asm")
    with open("f.c", "w") as f:
        f.write("""#include <stdio.h>
#include "f.h"
int main(void) {
  char why[300] = "";
  struct f_options options = {.why = why, .why_bytes = sizeof why};
  struct f* made = f_create(&options);
  puts(made ? "made" : why);
  f_destroy(made);
  return 0;
}
""")
    for form in "f.a", "f.o":
        p = subprocess.run(f"cc -std=c11 -Wall -Wextra -Werror f.c {form} -o f && ./f", shell=True, capture_output=True, text=True)
        t.check(p.returncode == 0 and (p.stdout == "made\n" or "NVIDIA driver" in p.stdout or "device" in p.stdout),
                f"a program with {form}", p.stdout + p.stderr)
    if no_device:
        t.refuses("an artifact needs a device", ("run", "m.so", *IMAGE), "can't start m.so", "no NVIDIA driver")
else:
    print("SKIPPED: no NVRTC on this machine")

# On the stub's device, whose kernels are those of m.cu, emulated
if nvrtc and no_device:
    names = sorted({line.split("(")[0] for line in source.splitlines() if line.startswith("kernel")})
    with open("m.cpp", "w") as f:
        f.write("#define NESTOR_EMULATED\n")
        f.writelines(f'#include "src/emulate/{name}.h"\n' for name in ("emulation", "emulation_vectors"))
        f.write('static const char nestor_text[] = "";\n' + source)
        f.writelines(f"NESTOR_EMULATE({name}, {'true' if '__syncthreads' in source else 'false'})\n" for name in names)
    p = subprocess.run(["c++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-I" + t.source, "m.cpp", "-o", "kernels.so"],
                       capture_output=True, text=True)
    t.check(p.returncode == 0, "the kernels for the stub", p.stderr)
    device = {"LD_LIBRARY_PATH": stub, "NESTOR_STUB_KERNELS": os.path.abspath("kernels.so")}
    shown = t.succeeds("run on a device", "run", *BATCH, *A100, *IMAGE, env=device)
    for what, artifact in ("an artifact", "m.so"), ("one with weights beside it", "b.so"):
        t.check(t.succeeds(f"run {what} on a device", "run", artifact, *IMAGE, env=device) == shown, "the same", shown)
    out = t.succeeds("verify on a device", "verify", *BATCH, *A100, env=device)
    t.check("FAIL" not in out and "probability compared" in out, "compares all", out)
    out = t.succeeds("bench on a device", "bench", *BATCH, *A100, "--seconds", "0.05", env=device)
    t.check("an emulated device, FMA peak 128 GFLOP/s" in out, "names it", out)
    out = t.succeeds("bench of an artifact", "bench", "m.so", "--seconds", "0.05", env=device)
    t.check("an emulated device, FMA peak 128 GFLOP/s" in out, "names it", out)
    p = t.run("bench", *BATCH, *A100, "--profile", "--seconds", "0.05", env=device)
    t.check(p.returncode == 1 and "only the whole model is timed" in p.stderr, "functions aren't timed", p.stderr)
    p = t.run("run", *BATCH, "--target", "cuda:sm_90", *IMAGE, env=device)
    t.check(p.returncode == 1 and "GPU is sm_80, it can't run code for sm_90" in p.stderr, "another device", p.stderr)
    p = t.run("run", "m.so", *IMAGE, env={**device, "NESTOR_STUB_MEMORY": "1000"})
    t.check(p.returncode == 1 and "too little memory" in p.stderr, "too little memory", p.stderr)

t.finish()
