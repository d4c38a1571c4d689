"""Runs nestor as a process and counts what isn't as it should be.

Every call is checked for what no call may do: die by a signal, hang, or answer 70 ("a bug in Nestor").
"""

import json
import os
import shutil
import struct
import subprocess
import sys


class Harness:
    def __init__(self):
        self.nestor, self.source, self.work = sys.argv[1:4]
        self.digits = os.path.join(self.source, "examples/digits/digits.json")
        self.failed = 0
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        os.chdir(self.work)

    def check(self, ok, what, shown=""):
        print(f"{'ok  ' if ok else 'FAIL'} {what}", flush=True)
        if not ok:
            self.failed += 1
            print("     " + shown.strip()[-2000:].replace("\n", "\n     "), flush=True)
        return ok

    def run(self, *args, env=None, timeout=300):
        try:
            p = subprocess.run([self.nestor, *args], capture_output=True, text=True, timeout=timeout,
                               env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            self.check(False, "hangs: nestor " + " ".join(args))
            return subprocess.CompletedProcess(args, -1, "", "")
        if p.returncode < 0 or p.returncode == 70:
            self.check(False, f"crashes ({p.returncode}): nestor " + " ".join(args), p.stderr)
        return p

    def succeeds(self, what, *args, **kw):
        p = self.run(*args, **kw)
        self.check(p.returncode == 0, what, f"nestor {' '.join(args)}\nexit {p.returncode}\n{p.stdout}{p.stderr}")
        return p.stdout

    def refuses(self, what, args, *needles, code=1):
        """One message, with all needles in it; the folder holds no new file afterwards."""
        before = files_below(".")
        p = self.run(*args)
        new = files_below(".") - before
        missing = [n for n in needles if n not in p.stderr]
        errors = sum(line.startswith("error") or ": error" in line for line in p.stderr.splitlines())
        ok = p.returncode == code and not missing and not new and (code != 1 or errors == 1)
        self.check(ok, what, f"nestor {' '.join(args)}\nexit {p.returncode}, lacks {missing}, left {sorted(new)}, "
                             f"{errors} messages\n{p.stdout[-500:]}{p.stderr}")

    def write(self, name, content):
        mode = "wb" if isinstance(content, bytes) else "w"
        with open(name, mode) as f:
            f.write(content if isinstance(content, (bytes, str)) else json.dumps(content))
        return name

    def finish(self):
        print(f"{self.failed} failed")
        sys.exit(1 if self.failed else 0)


def files_below(folder):
    return {os.path.join(at, f) for at, _, names in os.walk(folder) for f in names}


def npy(dtype, shape, data=b""):
    """The bytes of an .npy file: dtype as NumPy writes it, '<f4'."""
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data
