"""Inputs of each target to start from, and mutations of them: of texts by their tokens and lines, of a database by its cells.

Models have mutations of their own (mutations.py).
"""

import glob
import io
import os
import re
import sqlite3
import struct
import warnings
import zipfile

from mutations import FLOATS, INTEGERS, OPERATORS, STRINGS, mutated

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT, CORPUS = os.path.join(HERE, "../../.."), os.path.join(HERE, "../corpus")

warnings.filterwarnings("ignore", "Duplicate name")  # of archives that have one
BETWEEN = "\n---\n"  # a function and its schedule
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|\d+(?:\.\d+)?|\s+|.', re.S)
FUNC = """func f(in A: f32[12,10], const B: f32[10,16], out Y: f32[12,16]) {
  for i in 12, j in 16, k in 10 {
    block Y(vi: S 12 = i, vj: S 16 = j, vk: R 10 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
}
"""
TRACE = "j0 j1 = split Y.j [_, 8] tail=peel\nreorder Y (i j0 k j1)\nvectorize Y.j1\nparallel Y.i\n"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') + '"'


WORKLOAD = "a3fd70884843f1a889c53203159de7dc"  # of FUNC
RECORD = ('{"id":1,"workload":"' + WORKLOAD + '","func":' + quoted(FUNC) + ',"target":"native znver5","threads":1,"trace":' + quoted(TRACE) +
          ',"outcome":"ok","detail":"","samples_ns":[1500.0,1000.0,2000.0],"median_ns":1500.0,"compile_ms":12.5,"error":0.25,'
          '"seed":1,"version":"0.1.0","host":"h"}\n')


def golden(folder="*"):
    """The cases of tests/golden, as their sections by kind."""
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/golden", folder, "**/*.test"), recursive=True)):
        with open(path) as f:
            for case in f.read().split("\n=== case ")[1:]:
                yield dict(section.split("\n", 1) for section in case.split("\n--- ")[1:] if "\n" in section)


def function_seeds():
    return [c["input"] for c in golden() if c.get("input", "").startswith("func")]


def schedule_seeds():
    """Those that are taken twice: more comes of what becomes of them."""
    cases = [c for c in golden() if "schedule" in c and "input" in c]
    return [c["input"] + BETWEEN + c["schedule"] for c in cases + [c for c in cases if "expect" in c]]


def operator_seeds():
    with open(os.path.join(ROOT, "bench/cpu/works.txt")) as f:
        lines = [line.split(None, 2)[2].strip() for line in f if line.strip() and not line.startswith("#")]
    small = [re.sub(r"\d+", lambda m: str(int(m.group()) % 13 + 1), line) for line in lines if "(" in line]
    given = ["Reshape(f32[2,6]; ) -> 1", "Reshape(f32[2,6], i64[2]{3,4})", "Split@13(f32[4,6], i64[2]{1,3}; axis=0) -> 2",
             'Einsum(f32[3,4], const f32[4,5]; equation="ij,jk->ik")', "TopK(f32[2,9], i64[1]{3}) -> 2",
             "LSTM(f32[3,1,4], const f32[1,8,4], const f32[1,8,2], _; hidden_size=2) -> 3", "Clip(f32[7], f32[]{-1.5}, f32[]{inf})"]
    return sorted(set(small)) + given


def worker_seeds():
    answer = ('{"id":7,"outcome":"ok","detail":"","samples_ns":[1500.0,1000.0,2000.0],"compile_ms":0.001,"error":0.5,'
              '"version":"1","host":"h"}\n')
    job = ('{"id":7,"func":' + quoted(FUNC) + ',"trace":' + quoted(TRACE) + ',"target":"native","threads":1,"seed":3,"seconds":0.1,'
           '"cutoff_ns":0.0}\n')
    return [answer, answer.replace('"ok"', '"crash"').replace('""', '"signal 11"'), job]


class Texts:
    """Texts of one kind: mutations put in tokens and lines of others."""

    def __init__(self, seeds):
        self.seeds = seeds
        self.words = sorted({t for s in seeds for t in TOKEN.findall(s) if not t.isspace()})

    def token(self, rng, old):
        if old.isdigit() and rng.random() < 0.7:
            return str(rng.choice(INTEGERS) if rng.random() < 0.4 else rng.randrange(-2, 20))
        if re.fullmatch(r"\d+\.\d+", old) and rng.random() < 0.7:
            return str(rng.choice(FLOATS))
        if old.startswith('"') and rng.random() < 0.5:
            return quoted(rng.choice(STRINGS).encode("utf-8", "replace").decode())
        return rng.choice(self.words)

    def mutation(self, rng):
        return self.changed(rng, rng.choice(self.seeds)).encode("utf-8", "surrogateescape")

    def changed(self, rng, text):
        for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3, 5])):
            text = self.changed_once(rng, text)
        return text

    def changed_once(self, rng, text):
        if rng.random() < 0.25:
            return self.with_lines(rng, text)
        tokens = TOKEN.findall(text)
        at = [i for i, t in enumerate(tokens) if not t.isspace()]
        if not at:
            return text
        i = rng.choice(at)
        kind = rng.choice(["like", "like", "like", "size", "size", "replace", "copy", "remove", "insert", "repeat", "cut"])
        if kind == "like":  # a name for a name, a number for a number
            i = rng.choice([j for j in at if tokens[j][0].isalnum()] or at)
            others = [tokens[j] for j in at if tokens[j][0].isdigit() == tokens[i][0].isdigit() and tokens[j][0].isalnum()]
            tokens[i] = rng.choice(others or [tokens[i]]) if rng.random() < 0.8 else self.token(rng, tokens[i])
        elif kind == "size":  # everywhere the same
            sizes = sorted({t for t in tokens if t.isdigit()})
            old, new = rng.choice(sizes or ["0"]), str(rng.choice(INTEGERS) if rng.random() < 0.3 else rng.randrange(1, 20))
            tokens = [new if t == old else t for t in tokens]
        elif kind == "replace":
            tokens[i] = self.token(rng, tokens[i])
        elif kind == "copy":
            tokens[i] = tokens[rng.choice(at)]
        elif kind == "remove":
            del tokens[i]
        elif kind == "insert":
            tokens.insert(i, rng.choice(self.words) + " ")
        elif kind == "repeat":
            tokens[i:i] = tokens[i:i + rng.randrange(1, 8)] * rng.choice([1, 1, 1, 2, 40])
        else:
            del tokens[i:i + rng.randrange(1, 12)]
        return "".join(tokens)

    def with_lines(self, rng, text):
        lines = text.split("\n")
        i = rng.randrange(len(lines))
        kind = rng.choice(["remove", "swap", "repeat", "splice"])
        if kind == "remove":
            del lines[i]
        elif kind == "swap":
            j = rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
        elif kind == "repeat":
            lines.insert(rng.randrange(len(lines) + 1), lines[i])
        else:
            lines.insert(i, rng.choice(rng.choice(self.seeds).split("\n")))
        return "\n".join(lines)


class Schedules(Texts):
    """Mostly the schedule is changed, and gets lines of others of the same function."""

    def mutation(self, rng):
        func, _, steps = rng.choice(self.seeds).partition(BETWEEN)
        if rng.random() < 0.4:
            lines = [line for s in self.seeds if s.startswith(func + BETWEEN) for line in s.partition(BETWEEN)[2].split("\n")]
            steps = "\n".join([steps.rstrip("\n"), *(rng.choice(lines) for _ in range(rng.choice([1, 1, 2, 4])))])
        what = rng.random()
        if what < 0.8:
            steps = self.changed(rng, steps)
        if what > 0.7:
            func = self.changed(rng, func)
        return (func + BETWEEN + steps).encode("utf-8", "surrogateescape")


SCHEMA = """CREATE TABLE records (id INTEGER PRIMARY KEY, workload TEXT NOT NULL, func TEXT NOT NULL, target TEXT NOT NULL, threads
INTEGER NOT NULL, trace TEXT NOT NULL, outcome TEXT NOT NULL, detail TEXT NOT NULL, samples_ns TEXT NOT NULL, median_ns REAL NOT NULL,
compile_ms REAL NOT NULL, error REAL NOT NULL, seed INTEGER NOT NULL, version TEXT NOT NULL, host TEXT NOT NULL, created TEXT);"""
ROW = [WORKLOAD, FUNC, "native znver5", 1, TRACE, "ok", "", "[1500.0,1000.0]", 1500.0, 12.5, 0.25, 1, "0.1.0", "h", "now"]


def database(rng=None):
    """A database of two records; of a mutation some cells hold something else, or some bytes are others."""
    with sqlite3.connect(":memory:") as db:
        db.execute("PRAGMA page_size=512")
        db.execute("PRAGMA application_id=%d" % (0x4e737472 if not rng or rng.random() < 0.97 else 7))
        db.execute("PRAGMA user_version=%d" % (1 if not rng or rng.random() < 0.97 else rng.choice([0, 2, -1])))
        db.execute(SCHEMA.replace(" NOT NULL", "").replace(" TEXT", " ANY").replace(" REAL", " ANY") if rng else SCHEMA)
        for _ in range(2):
            row = list(ROW)
            for _ in range(rng.choice([0, 1, 1, 2, 4]) if rng else 0):
                row[rng.randrange(len(row))] = rng.choice([
                    None, b"\x00\xff", "", "x" * 3000, "[" * 200, "[1e999]", "[-1]", "[1,2", '{"a":1}', 1e308, -1e308, float("inf"), -1,
                    2**62, -2**63, "\x1b[2J\n", "ok", "crash", "42", "0x10", b"[1.0]"])
            db.execute("INSERT INTO records (workload, func, target, threads, trace, outcome, detail, samples_ns, median_ns, compile_ms, "
                       "error, seed, version, host, created) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", row)
        if rng and rng.random() < 0.1:
            db.execute("ALTER TABLE records RENAME COLUMN %s TO other" % rng.choice(["id", "func", "median_ns", "host"]))
        db.commit()
        content = bytearray(db.serialize())
    if rng and rng.random() < 0.4:
        for _ in range(rng.choice([1, 2, 8])):
            content[rng.randrange(len(content))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    return bytes(content)


def array(rng=None):
    """A .npy or .npz file."""
    pick = rng.choice if rng else lambda choices: choices[0]
    shape = pick(["(2, 3)", "(2, 3)", "()", "(6,)", "(0, 5)", "(-1, 3)", "(%d,)" % 2**62, "(%d, %d)" % (2**33, 2**33), "(2, 3", "3", "(1,)*9",
                  "(" + "1," * 70 + ")", "(2.5, 3)", "(" + "9" * 40 + ",)"])
    descr = pick(["<f4", "<f4", "<f8", "<i8", "|u1", "|b1", "<f2", ">f4", "<U5", "|O", "f4", "", "<f99", "|V2", "<i1"])
    order = pick(["False", "False", "True", "0", "None"])
    header = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)
    if rng and rng.random() < 0.3:
        header = Texts([header]).mutation(rng).decode("utf-8", "replace")
    encoded = header.encode("latin-1", "replace") + b"\n"
    length = pick([len(encoded), len(encoded), len(encoded), 0, 65535, len(encoded) - 3])
    npy = b"\x93NUMPY" + pick([b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\7\0"])
    npy += struct.pack("<H" if npy[6] == 1 else "<I", max(length, 0)) + encoded
    npy += b"\x01\x00\x80\x3f" * pick([6, 6, 12, 5, 0, 1])
    if rng and rng.random() < 0.5:
        return npy
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", pick([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as z:
        for name in ["x.npy", pick(["y.npy", "y", "../z.npy", "x.npy", "x.NPY"])]:
            z.writestr(name, npy)
    content = bytearray(out.getvalue())
    if rng and rng.random() < 0.6:
        for _ in range(rng.choice([1, 1, 4])):
            content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


class Made:
    """Inputs that are made, not texts."""

    def __init__(self, make):
        self.make, self.words, self.seeds = make, [], [make()]

    def mutation(self, rng):
        return self.make(rng)


class Models:
    seeds, words = [], OPERATORS

    def mutation(self, rng):
        return mutated(rng)[2]


def kept(target):
    """The texts of its corpus."""
    texts = []
    for path in sorted(glob.glob(os.path.join(CORPUS, target, "*"))):
        with open(path, encoding="utf-8", errors="surrogateescape") as f:
            texts.append(f.read())
    return texts


def kinds():
    """By target."""
    texts = {"schedule_text": schedule_seeds(), "nest_text": function_seeds(), "operator_text": operator_seeds(),
             "tuning_record": [RECORD], "worker_line": worker_seeds()}
    return {"model": Models(), "open_model": Models(), "schedule_text": Schedules(texts.pop("schedule_text") + kept("schedule_text")), **{target: Texts(seeds + kept(target)) for target, seeds in texts.items()},
            "database": Made(database), "arrays": Made(array)}
