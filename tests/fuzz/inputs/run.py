"""Runs the targets of this folder on inputs that somebody else may have made, under the sanitizers.

run.py BIN WORK [--mutations N] [--minutes M] [--seed S] [--only TARGET ...]

BIN has what the preset `inputs` builds. First come the kept corpus (../corpus) and N mutations, each once; then M minutes of
libFuzzer, shared by the targets, which goes on from what earlier runs left in WORK. A finding is a file in WORK/findings, and
beside it a .txt with the command that replays it and what it said.
"""

import argparse
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models"))
import mutated_texts  # noqa: E402

SHARES = {"model": 800, "open_model": 400, "schedule_text": 500, "nest_text": 300, "operator_text": 200}  # of mutations; others 100
SECONDS, MEGABYTES = 100, 2048  # that one input may take, under sanitizers and on a busy machine
LIMITS = [f"-timeout={SECONDS}", f"-report_slow_units={SECONDS}", f"-rss_limit_mb={MEGABYTES}", f"-malloc_limit_mb={MEGABYTES}"]
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=64:detect_stack_use_after_return=0:handle_abort=1",
               "UBSAN_OPTIONS": "print_stacktrace=1", "NO_COLOR": "1", "ASAN_SYMBOLIZER_PATH": shutil.which("llvm-symbolizer-19") or ""}
MOST_TO_START = 300  # inputs that libFuzzer starts from, besides what it kept
MOST_FINDINGS = 20  # of one target, before the others have their turn


class Target:
    def __init__(self, name, kind, bin, work):
        self.name, self.kind, self.work = name, kind, work
        self.program = os.path.join(bin, "fuzz_" + name)
        self.kept = os.path.join(mutated_texts.CORPUS, name)
        self.findings = os.path.join(work, "findings", name + "-")

    def folder(self, name, clear=False):
        path = os.path.join(self.work, name, self.name)
        if clear:
            shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path, exist_ok=True)
        return path

    def write(self, folder, inputs):
        for i, content in enumerate(inputs):
            with open(os.path.join(folder, f"{i:05}"), "wb") as f:
                f.write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)

    def call(self, *args):
        return subprocess.run([self.program, "-artifact_prefix=" + self.findings, *LIMITS, *args], env=ENVIRONMENT, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")

    def replay(self, count, seed):
        """The kept corpus and `count` mutations: those that are a finding are taken out, and the rest goes on."""
        rng = random.Random(f"{self.name} {seed}")
        folder = self.folder("mutated", clear=True)
        self.write(folder, [*dict.fromkeys(self.kind.seeds), *(self.kind.mutation(rng) for _ in range(count))])
        for kept in os.listdir(self.kept) if os.path.isdir(self.kept) else []:
            shutil.copy(os.path.join(self.kept, kept), os.path.join(folder, "kept_" + kept))
        inputs, found = len(os.listdir(folder)), 0
        while found < MOST_FINDINGS:
            done = self.call("-runs=0", folder)
            if done.returncode == 0:
                break
            found += 1
            if not self.take_out(folder, done.stdout):
                print(done.stdout[-3000:])
                return inputs, found
        return inputs, found

    def take_out(self, folder, said):
        written = re.search(r"Test unit written to (\S+)", said)
        if not written:
            return False
        self.describe(written[1], said)
        with open(written[1], "rb") as f:
            wanted = f.read()
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                same = f.read() == wanted
            if same:
                os.remove(path)
        return True

    def describe(self, path, said=None):
        said = said or self.call(path).stdout
        start = next((m.start() for m in [re.search(r"^(==\d+==|.*runtime error|internal error|not an error of ours)", said, re.M)] if m), 0)
        with open(path + ".txt", "w") as f:
            f.write(f"{self.program} {path}\n\n{said[start:start + 20000]}")
        print(f"FOUND {path}\n    replay: {self.program} {path}\n    " + said[start:start + 300].replace("\n", "\n    "), flush=True)

    def fuzz(self, seconds, seed):
        """libFuzzer in one child after another, so that a finding doesn't end it."""
        corpus, start, rng = self.folder("corpus"), self.folder("start", clear=True), random.Random(seed)
        mutated = sorted(os.listdir(self.folder("mutated")))
        for name in rng.sample(mutated, min(len(mutated), MOST_TO_START)):
            shutil.copy(os.path.join(self.folder("mutated"), name), start)
        dictionary = os.path.join(self.work, self.name + ".dict")
        with open(dictionary, "w") as f:
            f.write("# words\n")
            for word in self.kind.words or ["NUMPY"]:
                f.write('"' + "".join(f"\\x{b:02x}" for b in word.encode("utf-8", "surrogateescape")[:60]) + '"\n')
        before = set(os.listdir(os.path.dirname(self.findings)))
        done = self.call(f"-max_total_time={seconds}", "-fork=1", "-ignore_crashes=1", "-ignore_timeouts=1", "-ignore_ooms=1", f"-seed={seed}",
                         "-dict=" + dictionary, "-max_len=16384", corpus, start)
        found = sorted(set(os.listdir(os.path.dirname(self.findings))) - before)
        found = [f for f in found if f.startswith(self.name + "-") and not f.endswith(".txt")]
        for name in found:
            self.describe(os.path.join(os.path.dirname(self.findings), name))
        if done.returncode != 0 and not found:
            print(done.stdout[-3000:])
        runs = re.findall(r"^#(\d+): cov: (\d+)", done.stdout, re.M)
        said = f"{runs[-1][0]} inputs, {runs[-1][1]} edges" if runs else done.stdout[-300:]
        return said, len(found) + (done.returncode != 0 and not found)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("bin")
    args.add_argument("work")
    args.add_argument("--mutations", type=int, default=2500)
    args.add_argument("--minutes", type=float, default=0)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--only", nargs="+")
    a = args.parse_args()
    if not os.path.isdir(a.bin):
        print(f"SKIPPED: {a.bin} isn't there; ./dev test builds it")
        return
    work = os.path.abspath(a.work)
    os.makedirs(os.path.join(work, "findings"), exist_ok=True)
    found = 0
    targets = [Target(name, kind, os.path.abspath(a.bin), work) for name, kind in mutated_texts.kinds().items() if name in (a.only or [name])]
    shares = {t.name: SHARES.get(t.name, 100) for t in targets}
    for t in targets:
        start = time.monotonic()
        inputs, bad = t.replay(a.mutations * shares[t.name] // sum(shares.values()), a.seed)
        found += bad
        print(f"{t.name}: {inputs} inputs in {time.monotonic() - start:.0f} s, {bad} findings", flush=True)
    for t in targets if a.minutes else []:
        said, bad = t.fuzz(max(int(a.minutes * 60 * shares[t.name] / sum(shares.values())), 5), a.seed)
        found += bad
        print(f"{t.name}: {said}, {bad} findings", flush=True)
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
