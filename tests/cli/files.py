"""Files that verbs write: what the ending of -o means, what is never replaced, what a signal or a full disk leaves (nothing)."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time

from harness import Harness, files_below

t = Harness()
DIGITS = [t.digits, "--dim", "batch=1", "--threads", "1"]
OPERATOR = "MatMul(f32[8,8], f32[8,8])"
CONV = "Conv(f32[1,64,56,56], f32[64,64,3,3])"
NEST = "func f(in X: f32[4], out Y: f32[4]) {\n  for i in 4 {\n    block B(v: S 4 = i) { Y[v] = X[v] + 1.0f32 }\n  }\n}\n"


def new_folder(name):
    shutil.rmtree(name, ignore_errors=True)
    os.mkdir(name)
    return name


def read(path):
    with open(path, "rb") as f:
        return f.read()


def endings():
    starts = {".so": b"\x7fELF", ".o": b"\x7fELF", ".a": b"!<arch>\n", ".ll": b"; ModuleID", ".s": b"\t.text", ".nest": b"func ", ".h": b"/*"}
    for ending, start in starts.items():
        folder = new_folder("ending")
        t.succeeds(f"compile -o m{ending}", "compile", OPERATOR, "-o", f"{folder}/m{ending}")
        wanted = {f"m{ending}"} | ({"m.h"} if ending in (".so", ".o", ".a") else set())
        made = set(os.listdir(folder))
        t.check(made == wanted and read(f"{folder}/m{ending}")[: len(start)] == start, f"-o m{ending} is one", str(made))
    t.check(os.access("ending/m.h", os.R_OK) and not os.access("ending/m.so", os.F_OK), "and nothing else")
    for name in ("m.dll", "m.npy", "m.dylib", "m.exe", "m", "m.SO", "m.so.1", "m.onnx"):
        t.refuses(f"compile -o {name}", ["compile", OPERATOR, "-o", name], name, "m.so")
    t.refuses("compile --emit obj -o m.npy", ["compile", OPERATOR, "-o", "m.npy", "--emit", "obj"], "m.npy")
    folder = new_folder("emit")
    t.succeeds("--emit", "compile", OPERATOR, "-o", f"{folder}/m", "--emit", "so,archive,obj,header,ir,llvm,asm")
    t.check(set(os.listdir(folder)) == {"m" + e for e in starts}, "every form", str(os.listdir(folder)))
    t.refuses("run -o out.npy", ["run", OPERATOR, "--input", "x0=zeros", "--input", "x1=zeros", "-o", "out.npy"], "out.npy", ".npz")
    t.refuses("inspect --html out.so", ["inspect", OPERATOR, "--html", "out.so"], "out.so", ".html")


def static_library():
    t.write("main.c", '#include <stdio.h>\n#include "lib/m.h"\nint main(void) {\n  float a[64] = {0}, b[64] = {0}, y[64];\n  a[0] = 2, b[0] = 3;\n'
            "  struct m* m = m_create(NULL);\n  const struct m_inputs in = {.x0 = a, .x1 = b};\n  const struct m_outputs out = {.y = y};\n"
            '  if (!m || m_run(m, &in, &out)) return 1;\n  m_destroy(m);\n  printf("%g\\n", y[0]);\n  return 0;\n}\n')
    for ending in (".a", ".o"):
        folder = new_folder("lib")
        t.succeeds(f"a program links m{ending}", "compile", OPERATOR, "-o", f"{folder}/m{ending}")
        p = subprocess.run(f"cc main.c lib/m{ending} -lm -o lib/main && lib/main", shell=True, capture_output=True, text=True)
        t.check(p.stdout == "6\n", f"and runs it ({ending})", p.stdout + p.stderr)
    folder = new_folder("lib")
    t.succeeds("weights lie beside an object, too", "compile", *DIGITS, "-o", f"{folder}/m.o", "--weights", "beside")
    t.check(set(os.listdir(folder)) == {"m.o", "m.h", "m.weights"}, "all three", str(os.listdir(folder)))


def never_replaced():
    for verb in (["compile", OPERATOR, "-o"], ["compile", OPERATOR, "--emit", "asm", "-o"]):
        t.succeeds(" ".join(verb) + " /dev/null", *verb, "/dev/null")
    t.check(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null is a device")
    t.refuses("a full device", ["compile", OPERATOR, "-o", "/dev/full"], "/dev/full", "No space left")
    p = subprocess.run([t.nestor, "compile", OPERATOR, "-o", "/dev/stdout"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    t.check(p.returncode == 0 and p.stdout[:4] == b"\x7fELF", "a shared object into a pipe", str(p.stderr))
    with open("redirected", "wb") as f:
        p = subprocess.run([t.nestor, "compile", OPERATOR, "-o", "/dev/stdout"], stdout=f, stderr=subprocess.PIPE)
        t.check(os.fstat(f.fileno()).st_ino == os.stat("redirected").st_ino, "a redirected output is the same file", str(p.stderr))
    t.check(read("redirected")[:4] == b"\x7fELF", "and has the bytes")

    os.mkfifo("pipe.so")
    reader = subprocess.Popen(["head", "-c", "4", "pipe.so"], stdout=subprocess.PIPE)
    p = t.run("compile", OPERATOR, "-o", "pipe.so")
    t.check(reader.communicate()[0] == b"\x7fELF" and stat.S_ISFIFO(os.stat("pipe.so").st_mode), "a FIFO is written to and stays one", p.stderr)
    t.check(not os.path.exists("pipe.h"), "nothing lies beside it")
    t.refuses("beside a FIFO", ["compile", *DIGITS, "-o", "pipe.so", "--weights", "beside"], "pipe.so")

    folder = new_folder("links")
    os.mkdir(f"{folder}/real")
    os.symlink("real/m.so", f"{folder}/m.so")
    t.succeeds("a link to nothing", "compile", OPERATOR, "-o", f"{folder}/m.so")
    t.check(os.path.islink(f"{folder}/m.so") and read(f"{folder}/real/m.so")[:4] == b"\x7fELF", "stays a link")
    os.symlink("m.npz", f"{folder}/m.npz")
    t.refuses("a link in a circle", ["run", OPERATOR, "--input", "x0=zeros", "--input", "x1=zeros", "-o", f"{folder}/m.npz"], "m.npz")
    os.mkdir("folder.so")
    t.refuses("a folder", ["compile", OPERATOR, "-o", "folder.so"], "folder.so", "directory")
    os.mkdir("other.h")
    t.refuses("a folder where the header goes", ["compile", OPERATOR, "-o", "other.so"], "other.h", "directory")

    nest = t.write("k.nest", NEST)
    t.refuses("the model itself", ["compile", nest, "-o", "k.so", "--emit", "ir"], "k.nest", "reads")
    t.check(open(nest).read() == NEST, "is as it was")
    t.succeeds("a database", "tune", OPERATOR, "--db", "t.db", "--trials", "1", "--time", "20s", "--workers", "1")
    t.refuses("the database itself", ["db", "t.db", "export", "t.db"], "t.db")
    t.succeeds("is as it was", "db", "t.db", "list")


def until_there(folder, p):
    while not os.listdir(folder) and p.poll() is None:
        time.sleep(0.001)


def signals():
    """At several moments: when the first file is there, and later."""
    whole = {"m.so", "m.h", "m.ll"}
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for delay in (0, 0.03, 0.1, 0.3):
            folder = new_folder("signalled")
            p = subprocess.Popen([t.nestor, "compile", *DIGITS, "-o", f"{folder}/m.so", "--emit", "so,header,llvm"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until_there(folder, p)
            time.sleep(delay)
            p.send_signal(which)
            code, left = p.wait(), set(os.listdir(folder))
            ok = (code == -which and left in (set(), whole)) or (code == 0 and left == whole)
            t.check(ok, f"{which.name} after {delay} s leaves all or nothing", f"exit {code}, left {sorted(left)}")
    folder = new_folder("signalled")
    os.mkfifo("waits.npz")
    p = subprocess.Popen([t.nestor, "run", *DIGITS, "--input", "image=zeros", "-o", "waits.npz"], stdout=subprocess.DEVNULL)
    time.sleep(1)
    p.terminate()
    t.check(p.wait() == -signal.SIGTERM, "a pipe that nobody reads can be waited for in vain")


def on_full_disk(what, size, *args):
    """Runs nestor in a name space of its own, where `full` is a small disk; gives the process and what is left."""
    folder = new_folder("full")
    script = f'mount -t tmpfs -o size={size} tmpfs {folder} && "$@"; code=$?; ls -A {folder} >left; exit $code'
    p = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", t.nestor, *args], capture_output=True, text=True)
    left = open("left").read().split()
    message = p.stderr.count("error:")
    t.check(p.returncode == 1 and message == 1 and ("No space left" in p.stderr or "full" in p.stderr) and not left,
            f"{what} on a disk of {size}", f"exit {p.returncode}, left {left}\n{p.stderr}")


def full_disk():
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        print("SKIPPED full disks: only root may mount one")
    else:
        for size in ("4k", "16k", "32k"):
            on_full_disk("compile", size, "compile", *DIGITS, "-o", "full/m.so")
        on_full_disk("weights beside", "24k", "compile", *DIGITS, "-o", "full/m.so", "--weights", "beside")
        on_full_disk("an archive", "16k", "compile", *DIGITS, "-o", "full/m.a")
        on_full_disk("run", "64k", "run", "Relu(f32[256,256])", "--input", "x0=zeros", "-o", "full/o.npz")
        on_full_disk("inspect --html", "16k", "inspect", OPERATOR, "--html", "full/p.html")
    folder = new_folder("limited")
    for args in (["compile", *DIGITS, "-o", f"{folder}/m.so"], ["compile", *DIGITS, "-o", f"{folder}/m.so", "--weights", "beside"],
                 ["run", "Relu(f32[256,256])", "--input", "x0=zeros", "-o", f"{folder}/o.npz"], ["inspect", OPERATOR, "--html", f"{folder}/p.html"]):
        p = subprocess.run(["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", t.nestor, *args], capture_output=True, text=True)
        t.check(p.returncode == 1 and "File too large" in p.stderr and not files_below(folder), "ulimit -f: " + args[0],
                f"exit {p.returncode}, left {files_below(folder)}\n{p.stderr}")


for part in (endings, static_library, never_replaced, signals, full_disk):
    part()
t.finish()
