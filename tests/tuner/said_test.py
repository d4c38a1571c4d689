"""What tuning says: progress, results, the report, whether a database was used.

Usage: said_test.py NESTOR. Standard library only; works in a temporary folder.
"""
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from run_tests import run_tests

NESTOR = sys.argv[1]
MATMUL = "MatMul(f32[40,24], const f32[24,1000])"
NEST = """func scaled(in X: f32[64,96], const W: f32[96,80], out Y: f32[64,80]) {
  alloc T: f32[64,80]
  for i in 64, j in 80, k in 96 {
    block T(vi: S 64 = i, vj: S 80 = j, vk: R 96 = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += X[vi,vk] * W[vk,vj]
    }
  }
  for i in 64, j in 80 {
    block Y(vi: S 64 = i, vj: S 80 = j) {
      Y[vi,vj] = max(T[vi,vj], 0.0f32)
    }
  }
}
"""


def run(*args, code=0, cwd=None):
    done = subprocess.run([NESTOR, *map(str, args)], capture_output=True, text=True, timeout=100, cwd=cwd)
    assert done.returncode == code, f"{args}: exit {done.returncode}: {done.stderr}"
    return done


def tune(folder, *flags, model=MATMUL, threads=1, trials=9, code=0):
    return run("tune", model, "--db", folder / "t.db", "--threads", threads, "--time", "30s", "--trials", trials, *flags,
               code=code)


def change(db, sql):
    with sqlite3.connect(db) as connection:
        connection.execute(sql)


def test_progress_in_a_terminal(folder):
    """A table that is drawn over itself: a line a function, none longer than the terminal is wide."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    p = subprocess.Popen(["sh", "-c", f"stty cols 70 rows 12; exec {NESTOR} tune '{MATMUL}' --db {folder}/t.db --threads 1 "
                          "--time 30s --trials 17 > /dev/null"], stdin=slave, stdout=slave, stderr=slave, env=env)
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    assert p.wait() == 0, seen
    text = seen.decode()
    frames = re.split(r"\x1b\[\d+A\r\x1b\[J", text)
    assert len(frames) > 2, "the table isn't drawn over"
    for frame in frames:
        lines = [line for line in frame.split("\r\n") if line]
        assert len(lines) == 3 and all(len(line) < 70 for line in lines), lines
        assert lines[0].count(" left: ") == 1 and "candidate" in lines[0], lines
        assert lines[1].split() == "function default best gain of bound tried failed".split()[:len(lines[1].split())], lines
        assert lines[2].split()[0] == "matmul", lines


def test_progress_in_a_pipe_and_as_events(folder):
    done = tune(folder)
    assert "\x1b" not in done.stderr and "\r" not in done.stderr, done.stderr
    assert re.search(r"matmul +default [\d.]+ .s  best [\d.]+ .s  \d+ % of bound  \d+ tried", done.stderr), done.stderr
    assert re.search(r"^matmul +default .*, \d+ % of bound \((operations|bytes)\)\n    9 candidates tried", done.stdout), done
    events = [json.loads(line) for line in tune(folder, "--json", "--seed", 3).stderr.splitlines()]
    assert events and {e["event"] for e in events} == {"progress"}, events
    for key in ("func", "measured", "default_us", "best_us", "bound_us", "of_bound", "outcomes", "comparing", "elapsed_s",
                "left_s"):
        assert key in events[0], events[0]


def test_a_function_without_gain_has_two_lines(folder):
    said = tune(folder, trials=1).stdout
    assert re.fullmatch(r"matmul +default .*  only the default was measured, .*\n    1 candidate tried; the trials are over\n", said), said


def test_a_model_has_a_sum(folder):
    digits = Path(__file__).parents[2] / "examples/digits/digits.json"
    said = tune(folder, "--dim", "batch=1", model=digits, trials=7).stdout
    assert re.search(r"\nall 6 functions, weighted by their calls: .* by default, .* now, [\d.]+x\n$", said), said


def test_report(folder):
    html = folder / "r.html"
    nest = folder / "scaled.nest"
    nest.write_text(NEST)
    done = tune(folder, "--report", html, model=nest, trials=17)
    assert f"{html}: the report" in done.stdout, done.stdout
    page = html.read_text()
    assert "<script" not in page and "http" not in page.replace("http-equiv", ""), "a page for itself"
    for needle in ("<svg", 'class="best"', "FMA peak", "nestor tune", "The search ended: the trials are over",
                   "of the bound", "scaled"):
        assert needle in page, needle
    assert page.count('class="trial"') + page.count('class="failed"') == 17 - 0, page.count('class="trial"')
    change(folder / "t.db", "UPDATE records SET outcome = 'crash', detail = '<b>signal' WHERE id = 2")
    done = run("db", folder / "t.db", "report", "-o", folder / "db.html")
    assert "the report of 1 function" in done.stdout
    page = (folder / "db.html").read_text()
    assert "&lt;b>signal" in page and "<b>signal" not in page and "crash" in page
    assert "1 thread" in page
    assert "needs -o" in run("db", folder / "t.db", "report", code=1).stderr
    assert "--report" in run("tune", MATMUL, "--db", folder / "t.db", "--report", "x.txt", code=1).stderr
    begin = time.monotonic()
    assert "/none/r.html" in tune(folder, "--report", folder / "none/r.html", trials=10**6, code=1).stderr
    assert time.monotonic() - begin < 10, "after the work"


def test_whether_records_were_used(folder):
    db = folder / "t.db"
    tune(folder)
    verify = ["verify", MATMUL, "--against", "interpreter", "--db", db]
    said = run(*verify, "--threads", 1).stderr  # by chance, none was faster
    assert "tuned schedules for 1 of 1 function\n" in said or "for 1 the default was the fastest measured\n" in said, said
    said = run(*verify, "--threads", 2).stderr
    assert "tuned schedules for 0 of 1 function; default schedules for 1, which has records for --threads 1 only" in said, said
    other = ["MatMul(f32[8,8], f32[8,8])", "--db", db, "--threads", 1]
    said = run("bench", *other, "--seconds", "0.01").stderr
    assert "for 1, which has no record for native " in said and "1 thread" in said, said
    assert "tuned" not in run("verify", *other, "--schedule", "default", "--against", "interpreter").stderr
    change(db, "UPDATE records SET target = 'native other'")
    said = run("compile", MATMUL, "--const", "x1=random:1", "--db", db, "--threads", 1, "-o", folder / "m.so").stderr
    assert "records for native other only" in said, said


def test_a_record_that_was_compared_with_nothing(folder):
    """Where the default has no record, a fast one may be slower than it: the default is taken, and that is said."""
    db = folder / "t.db"
    tune(folder)
    change(db, "UPDATE records SET declared = 0")
    default = run("inspect", MATMUL, "--threads", 1).stdout
    assert run("inspect", MATMUL, "--threads", 1, "--db", db).stdout.startswith("# database schedule")
    change(db, "DELETE FROM records WHERE id = 1")
    done = run("inspect", MATMUL, "--threads", 1, "--db", db)
    assert done.stdout == default, done.stdout[:80]
    assert done.stderr.count("was never compared with the default") == 1, done.stderr
    change(db, "UPDATE records SET declared = 1 WHERE id = 3")
    assert run("inspect", MATMUL, "--threads", 1, "--db", db).stdout.startswith("# database schedule")


def test_requests_that_are_at_fault(folder):
    db = folder / "t.db"
    tune(folder, trials=2)
    assert "neither a number of processes nor a command" in run("tune", MATMUL, "--db", db, "--workers=-3", code=1).stderr
    assert "takes no `matmul`" in run("db", db, "list", "matmul", code=1).stderr
    for verb in ("show", "retry"):
        said = run("db", db, verb, 99, code=1).stderr
        assert "has no record 99" in said and "2 records from 1 to 2" in said, said
        assert "needs the number of a record" in run("db", db, verb, "x1", code=1).stderr
    for words in (["list", "--stale"], ["list", "-o", "x.html"], ["merge", db, "--func", "x"], ["prune", "--func", "x"],
                  ["prune", "--keep", "2", "--failed"], ["show", "1", "--keep", "3"]):
        assert f"db {words[0]} takes no " in run("db", db, *words, code=1).stderr, words
    said = run("db", db, "list", "--func", "nothing").stderr
    assert "has 2 records, none that match the filters" in said, said


def test_choices_that_cannot_be(folder):
    nest, own = folder / "scaled.nest", folder / "own.sched"
    nest.write_text(NEST)
    own.write_text("# a space\nw = sample_choice [16, 0, 32] -> 16\nt = sample_choice [peel, never]\n"
                   "j0 j1 = split T.j [_, w] tail=t\nvectorize T.j1\n")
    done = tune(folder, "--schedule", own, model=nest)
    warned = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 2, done.stderr
    assert warned[0].startswith(f"warning: {own}:2: w = 0 isn't tried for scaled: "), warned
    assert warned[1].startswith(f"warning: {own}:3: t = never isn't tried for scaled: "), warned


def test_lists(folder):
    db = folder / "t.db"
    tune(folder)
    change(db, "UPDATE records SET outcome = 'crash', detail = 'signal 11' WHERE id = 3")
    head, *lines = run("db", db, "list").stdout.splitlines()
    assert head.split() == ["id", "function", "target", "threads", "outcome", "time"], head
    assert len(lines) == 9 and sum("best of a search" in line for line in lines) == 1, lines
    at = head.index("target")
    assert all(line[at:].startswith("native ") for line in lines), lines
    assert lines[2].endswith("-  signal 11"), lines[2]
    failed = [run("db", db, "list", "--outcome", outcome).stdout for outcome in ("failed", "crash")]
    assert failed[0] == failed[1] and len(failed[0].splitlines()) == 2, failed


def test_what_a_search_declared_travels(folder):
    """Through an export, a merge and a prune the best of a search stays it, whatever was faster once."""
    db, lines, other = folder / "t.db", folder / "r.jsonl", folder / "other.db"
    tune(folder)
    change(db, "UPDATE records SET declared = (id = 5) * 7")
    for read in (["import", lines], ["merge", db]):
        run("db", db, "export", lines)
        other.unlink(missing_ok=True)
        run("db", other, *read)
        run("db", other, "prune", "--keep", 1)
        kept = json.loads(run("db", other, "list", "--json").stdout)
        assert kept["trace"] == json.loads(run("db", db, "best", "--json").stdout)["trace"], kept
        assert run("inspect", MATMUL, "--threads", 1, "--db", other).stdout.startswith("# database schedule")


if __name__ == "__main__":
    run_tests(globals())
