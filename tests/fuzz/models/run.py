"""Damaged models and schedules: whatever a field or a word holds, nestor ends with exit code 0, 1 or 2, within a limit of
memory and time.

run.py NESTOR WORK [--count N] [--seed S] [--jobs J]. What breaks the rule is kept in WORK with its command.
"""

import argparse
import collections
import concurrent.futures
import os
import random
import resource
import shutil
import subprocess
import time

import mutated_texts
from mutations import mutated
from seeds import SEEDS

MEMORY, SECONDS = 1 << 30, 10
GRACE = 60  # seconds that a busy machine may take longer; the limit itself is the program's own
LIMITS = ["--max-memory", "1G", "--time-limit", f"{SECONDS}s", "--threads", "1"]
VERBS = [["compile", "-o", "out.so"], ["run"], ["run"], ["verify"], ["inspect", "--stage", "graph"]]
SCHEDULE_VERBS = [["verify"], ["verify", "--no-proof"], ["inspect", "--stage", "asm"], ["inspect", "--steps"]]
SCHEDULES = mutated_texts.kinds()["schedule_text"]


class Run:
    def __init__(self, nestor, work, seed):
        self.seed, rng = seed, random.Random(seed)
        if rng.random() < 0.2:
            self.damage_schedule(nestor, work, rng)
        else:
            self.damage_model(nestor, work, rng)
        self.go()

    def write(self, path, content):
        with open(os.path.join(self.folder, path), "wb") as f:
            f.write(content)
        return path

    def damage_schedule(self, nestor, work, rng):
        self.folder = os.path.join(work, f"schedule_{self.seed}")
        os.makedirs(self.folder)
        func, _, steps = SCHEDULES.mutation(rng).partition(mutated_texts.BETWEEN.encode())
        verb = rng.choice(SCHEDULE_VERBS)
        self.command = [nestor, verb[0], self.write("f.nest", func), "--schedule", self.write("m.sched", steps), *verb[1:], *LIMITS]

    def damage_model(self, nestor, work, rng):
        self.name, form, content = mutated(rng)
        self.folder = os.path.join(work, f"{self.name}_{self.seed}")
        os.makedirs(self.folder)
        path = self.write("model." + form, content)
        verb = rng.choice(VERBS)
        self.command = [nestor, verb[0], path, *verb[1:], *LIMITS]
        if verb[0] == "run":
            self.command += inputs_of(self.name)
        if self.name == "attention":
            self.command += ["--dim", "batch=2"]

    def go(self):
        """In a process of its own, whose peak memory is known at its end."""
        errors = os.path.join(self.folder, "stderr")
        start = time.monotonic()
        with open(errors, "wb") as err:
            p = subprocess.Popen(self.command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
            killer = None
            while True:
                pid, status, usage = os.wait4(p.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() - start > SECONDS + GRACE and not killer:
                    killer = p.kill() or True
                time.sleep(0.002)
        p.returncode = os.waitstatus_to_exitcode(status)
        self.seconds, self.peak, self.code = time.monotonic() - start, usage.ru_maxrss * 1024, p.returncode
        with open(errors, "rb") as f:
            self.message = f.read().decode(errors="replace")

    def verdict(self):
        if self.code not in (0, 1, 2):
            return f"exit {self.code}"
        if self.code == 1 and "error" not in self.message:
            return "no message"
        if self.peak > MEMORY:
            return f"{self.peak >> 20} MiB"
        return "" if self.seconds < SECONDS + GRACE else f"{self.seconds:.0f} s"

    def limited(self):
        """Whether a limit of the command line ended it: allowed, and worth a look."""
        return next((flag for flag in ("--max-memory", "--time-limit") if self.code == 1 and flag in self.message), "")


def inputs_of(name):
    return [arg for v in SEEDS[name]()["inputs"] for arg in ("--input", v["name"] + "=" + ("zeros" if v["dtype"] == "i64" else "random:1"))]


def main():
    args = argparse.ArgumentParser()
    args.add_argument("nestor")
    args.add_argument("work")
    args.add_argument("--count", type=int, default=200)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--jobs", type=int, default=2)
    a = args.parse_args()
    shutil.rmtree(a.work, ignore_errors=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seen, broken = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        runs = pool.map(lambda seed: Run(os.path.abspath(a.nestor), a.work, seed), range(a.seed, a.seed + a.count))
        for run in runs:
            verdict = run.verdict()
            seen[verdict or run.limited() or f"exit {run.code}"] += 1
            if not verdict and not run.limited():
                shutil.rmtree(run.folder)
                continue
            broken += bool(verdict)
            print(f"{verdict or run.limited()}: {run.folder}: {' '.join(run.command)}\n    " +
                  run.message.strip()[-300:].replace("\n", "\n    "), flush=True)
    print(", ".join(f"{count} {what}" for what, count in seen.most_common()))
    raise SystemExit(1 if broken or seen["exit 0"] < a.count // 50 else 0)


if __name__ == "__main__":
    main()
