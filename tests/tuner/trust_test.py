"""Workers, records and lines that somebody else made, as users meet them; and readers that leave early.

Usage: trust_test.py NESTOR. Standard library only; works in a temporary folder.
"""
import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from run_tests import run_tests

NESTOR = str(Path(sys.argv[1]).resolve())
WORKER = Path(__file__).with_name("hostile_worker.py")
MATMUL = "MatMul(f32[40,24], const f32[24,1000])"


def run(*args, cwd=None):
    done = subprocess.run([NESTOR, *map(str, args)], capture_output=True, text=True, errors="replace", timeout=60, cwd=cwd)
    assert done.returncode in (0, 1), f"{args}: exit {done.returncode}: {done.stderr}"
    return done


def refused(*args, says, cwd=None):
    done = run(*args, cwd=cwd)
    assert done.returncode == 1 and says in done.stderr, f"{args}: exit {done.returncode}: {done.stderr}"
    return done.stderr


def tune(db, mode, *flags):
    return run("tune", MATMUL, "--db", db, "--threads", "1", "--trials", "3", "--time", "20s", "--json",
               "--workers", f"exec {sys.executable} {WORKER} {mode}", *flags)


def rows(db, columns):
    with sqlite3.connect(db) as connection:
        return connection.execute(f"SELECT {columns} FROM records ORDER BY id").fetchall()


def change(db, sql, *values):
    with sqlite3.connect(db) as connection:
        connection.execute(sql, values)


def shown(db):
    """The origin that `inspect` names, and what it says on stderr."""
    done = run("inspect", MATMUL, "--threads", "1", "--db", db)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[1], done.stderr.splitlines()


def test_what_hostile_workers_leave(folder):
    """Each answer that is none is counted and stored as that, with the job's own fields; nothing else gets in."""
    honest = folder / "right.db"
    assert tune(honest, "right").returncode == 0
    asked = rows(honest, "workload, func, target, threads, trace")
    for mode, outcome in [("lies", "ok"), ("negative", "bad_answer"), ("two_lines", "bad_answer"),
                          ("garbage", "bad_answer"), ("id_other", "bad_answer"), ("endless_line", "bad_answer"),
                          ("exit", "crash"), ("silent", "timeout")]:
        db = folder / f"{mode}.db"
        done = tune(db, mode, *(["--job-timeout", "0.5"] if mode == "silent" else []))
        assert done.returncode == (0 if outcome == "ok" else 1), f"{mode}: exit {done.returncode}: {done.stderr}"
        counts = json.loads(done.stdout)["outcomes"]
        found = rows(db, "outcome, samples_ns, median_ns")
        assert {o for o, _, _ in found} == {outcome}, f"{mode}: {found}"
        assert counts[outcome] == len(found), f"{mode}: {counts}, stored {len(found)}"
        if outcome == "ok":
            # The best was measured twice, and its record has the samples of both.
            assert all(set(json.loads(samples)) == {1500, 1000, 2000} and ns == 1500 for _, samples, ns in found), found
            assert rows(db, "workload, func, target, threads, trace")[:3] == asked[:3]
        else:
            assert all(row[1:] == ("[]", 0.0) for row in found), found
            assert outcome in done.stderr and "no candidate" in done.stderr, done.stderr
            assert shown(db) == ("default", [])


def test_a_bad_record_falls_back(folder):
    db = folder / "t.db"
    assert tune(db, "right").returncode == 0
    count = len(rows(db, "id"))
    assert count >= 2
    (folder / "mine.nest").write_text("no instruction\n")
    change(db, "UPDATE records SET trace = 'parallel Y.k', median_ns = 1 WHERE id = 1")
    change(db, "UPDATE records SET trace = 'tensorize Y.j a from=\"mine.nest\"', median_ns = 2 WHERE id = 2")
    origin, lines = shown(db)
    assert len(lines) == min(count, 3), lines
    assert lines[0].startswith(f"warning: record 1 of {db} isn't used for matmul: line 1 of its trace: "), lines
    assert lines[1].startswith(f"warning: record 2 of {db} isn't used for matmul: line 1 of its trace: "), lines
    # The default's own record was the first: whether others are faster isn't known any more.
    assert origin == "default" and all("never compared with the default" in line for line in lines[2:]), lines
    change(db, "UPDATE records SET trace = 'include \"/etc/passwd\"'")
    origin, lines = shown(db)
    assert origin == "default" and len(lines) == count and "root:" not in str(lines), lines
    change(db, "UPDATE records SET median_ns = -5, samples_ns = '[', outcome = 'ok'")
    assert shown(db)[0] == "default"
    assert "not used: " in run("db", db, "list").stdout
    lines = folder / "records.jsonl"
    done = run("db", db, "export", lines)
    assert "exported 0 records" in done.stdout and "record 1 of" in done.stderr, done
    assert tune(db, "right").returncode == 0  # goes on, from nothing


def test_import(folder):
    """A line that isn't a record refuses the file; a record that can't be used here is left out."""
    db, lines = folder / "t.db", folder / "records.jsonl"
    assert tune(db, "right").returncode == 0
    run("db", db, "export", lines)
    record = json.loads(lines.read_text().splitlines()[0])
    good = json.dumps(record)

    def importing(text, name="new.db"):
        (folder / "in.jsonl").write_text(good + "\n\n" + text + "\n")
        (folder / name).unlink(missing_ok=True)
        return run("db", name, "import", "in.jsonl", cwd=folder)

    for what, text, says in [
        ("garbage", "hello", "can't be read"),
        ("a list", "[1]", "JSON object"),
        ("nesting", "[" * 100000, "nested"),
        ("negative", json.dumps({**record, "median_ns": -1}), "its median is -1.0 ns"),
        ("NaN", json.dumps({**record, "error": float("nan")}), "can't be read"),
        ("no samples", json.dumps({**record, "samples_ns": []}), "no samples"),
        ("other workload", json.dumps({**record, "workload": "0" * 16}), "its function is"),
        ("no function", json.dumps({**record, "func": "func f("}), "its function:1:"),
        ("include", json.dumps({**record, "trace": 'include "/etc/passwd"'}), "a record holds primitives only"),
        ("apply", json.dumps({**record, "trace": "apply gemm_cpu(Y, B)"}), "a record holds primitives only"),
        ("from", json.dumps({**record, "trace": 'tensorize Y.j a from="x.nest"'}), "a file of instructions"),
    ]:
        done = importing(text)
        assert done.returncode == 1 and says in done.stderr, f"{what}: {done}"
        assert done.stderr.startswith("in.jsonl:3:"), f"{what}: {done.stderr}"
        assert not (folder / "new.db").exists(), f"{what}: half an import"
    for trace, says in [("frob Y.i", "frob"), ("parallel Y.k", "requirement 2 of parallel")]:
        done = importing(json.dumps({**record, "trace": trace}))
        assert done.returncode == 0 and "imported 1 record " in done.stdout, f"{trace}: {done}"
        assert "in.jsonl:3: the record of matmul is ignored: " in done.stderr and says in done.stderr, done.stderr


def test_readers_that_leave(folder):
    """A closed pipe ends a verb without a word; what can't be written elsewhere is an error."""
    db = folder / "t.db"
    worker = f"{sys.executable} {WORKER} right"
    for args in (["tune", MATMUL, "--db", db, "--trials", "2", "--workers", worker, "--json"],
                 ["inspect", MATMUL], ["inspect", MATMUL, "--stage", "asm"], ["db", db, "list"], ["doctor"],
                 ["verify", MATMUL], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([NESTOR, *map(str, args)], stdout=write, stderr=subprocess.PIPE, timeout=60)
        os.close(write)
        said = [line for line in done.stderr.splitlines() if b'"event":"progress"' not in line]
        assert done.returncode in (0, -13) and not said, f"{args}: {done}"
        with open("/dev/full", "wb") as full:
            done = subprocess.run([NESTOR, *map(str, args)], stdout=full, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 1 or args == ["--help"], f"{args}: {done}"
        assert b"No space left" in done.stderr or args == ["--help"], f"{args}: {done}"


def test_a_worker_ends_with_its_tuner(folder):
    """Even where a candidate hangs, as on a machine elsewhere whose tuner was killed."""
    job = {"id": 1, "func": "func f(in A: f32[8], out Y: f32[8]) {\n  for i in 8 {\n    block Y(vi: S 8 = i) {\n"
           "      Y[vi] = A[vi]\n    }\n  }\n}\n", "trace": "schedule {\n}\n", "target": "native", "threads": 1, "seed": 0}
    for fault in "hang:1", "none:0":
        worker = subprocess.Popen([NESTOR, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env={**os.environ, "NESTOR_FAULT": fault})
        worker.stdin.write((json.dumps(job) + "\n").encode())
        worker.stdin.flush()
        if fault == "none:0":
            assert json.loads(worker.stdout.readline())["outcome"] == "ok"
        else:
            time.sleep(1)
        assert worker.poll() is None
        worker.stdout.close()
        worker.wait(timeout=20)
        worker.stdin.close()
    done = subprocess.run([NESTOR, "worker"], input=json.dumps(job) + "\n", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and json.loads(done.stdout)["outcome"] == "ok", done


def test_requests_that_are_at_fault(folder):
    """Each is said, none is called a bug."""
    base = ["tune", MATMUL, "--db", folder / "t.db", "--trials", "1", "--time", "5s"]
    refused(*base, "--workers", "99999999999", says="--workers 99999999999")
    refused(*base, "--workers", "2000", says="at most 1024")
    refused(*base, "--workers", "0", says="no worker")
    refused(*base, "--job-timeout", "nan", says="--job-timeout")
    refused(*base, "--job-timeout", "1e300", says="--job-timeout")
    for verb in (["tune", MATMUL], ["inspect", MATMUL], ["bench", MATMUL]):
        refused(*verb, "--db", folder, says="isn't a regular file")
        refused(*verb, "--db", "/proc/1/root/x/t.db", says="t.db")
    refused("db", "/dev/null", "list", says="isn't a regular file")


if __name__ == "__main__":
    run_tests(globals())
