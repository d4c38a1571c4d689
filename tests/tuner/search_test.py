"""The search as a whole: faults, liars, time, several tuners of one database, kills, and the same stream again.

Usage: search_test.py NESTOR [TEST ...]. Standard library only; works in a temporary folder. The workers are
faulty_worker.py, whose times are known, and the null device.
"""
import collections
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from faulty_worker import true_ns  # noqa: E402

from run_tests import run_tests

NESTOR = str(Path(sys.argv[1]).resolve())
FAULTY = f"exec {sys.executable} -I -S {Path(__file__).with_name('faulty_worker.py')}"
NULL = f"exec {NESTOR} worker --null"
NEST = """func tiny(in X: f32[240,240], out Y: f32[240,240]) {
  for i in 240, j in 240 {
    block Y(vi: S 240 = i, vj: S 240 = j) {
      Y[vi,vj] = X[vi,vj] + 1.0f32
    }
  }
}
"""
CHOICES = ", ".join(map(str, range(1, 21)))
SPACE = "".join(f"{name} = sample_choice [{CHOICES}] -> 1\n" for name in "abc") + (
    "i0 i1 = split Y.i [_, a]\nj0 j1 = split Y.j [_, b]\ni2 i3 = split Y.i0 [_, c]\n")


def start(folder, *flags, db="t.db", model="tiny.nest", workers=(), **how):
    (folder / "tiny.nest").write_text(NEST)
    (folder / "tiny.sched").write_text(SPACE)
    for worker in workers:
        flags += ("--workers", worker)
    return subprocess.Popen([NESTOR, "tune", model, "--db", db, "--threads", "1", "--json", *flags], cwd=folder,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)


def ended(process, limit=120):
    out, err = process.communicate(timeout=limit)
    assert process.returncode == 0, f"exit {process.returncode}: {err[-2000:]}"
    return json.loads(out.splitlines()[-1]), err


def tune(folder, *flags, limit=120, **how):
    return ended(start(folder, *flags, **how), limit)


def rows(db, columns="*", where="1"):
    with sqlite3.connect(db) as connection:
        return connection.execute(f"SELECT {columns} FROM records WHERE {where} ORDER BY id").fetchall()


def check_best(folder, result, db="t.db"):
    """The best is the fastest of all that were measured, however their measurements ended, and no false time is left."""
    times = {trace: true_ns(trace) for (trace,) in rows(folder / db, "trace")}
    assert true_ns(result["trace"]) == min(times.values()), f"{true_ns(result['trace'])} is best, not {min(times.values())}"
    assert result["compared"] and result["gain_beyond_noise"], result
    fastest = min(rows(folder / db, "median_ns, trace", "outcome = 'ok'"))
    assert fastest[0] == min(times.values()), f"a false time is kept as the fastest: {fastest}"
    return times


def test_faults(folder):
    """One answer in five is at fault: the right best is found, each cause is counted, none is kept as a fact."""
    result, err = tune(folder, "--schedule", "tiny.sched", "--trials", "1000", "--time", "100s", "--job-timeout", "0.3",
                       workers=[f"{FAULTY} 0.2"] * 2)
    assert result["measured"] >= 1000 and result["end"] == "the trials are over", result
    times = check_best(folder, result)
    assert len(times) >= 700, f"{len(times)} candidates: most time went to failures"
    counted = collections.Counter({k: v for k, v in result["outcomes"].items() if v})
    stored = collections.Counter(outcome for (outcome,) in rows(folder / "t.db", "outcome"))
    assert counted == stored and sum(stored.values()) == result["measured"], f"{counted} counted, {stored} stored"
    for cause, least in ("crash", 20), ("timeout", 8), ("bad_answer", 40), ("wrong_result", 8):
        assert stored[cause] >= least, stored
    assert "is out" not in err, "no worker fails at everything"
    # What failed was tried again, and what is left of it is tried again by the next search.
    right = {trace for (trace,) in rows(folder / "t.db", "trace", "outcome = 'ok'")}
    assert len(set(times) - right) <= 0.03 * len(times), f"{len(set(times) - right)} of {len(times)} lost to faults"
    more, _ = tune(folder, "--schedule", "tiny.sched", "--trials", "1", "--time", "20s", workers=[f"{FAULTY} 0"])
    assert more["resumed"] == len(right), f"{more['resumed']} resumed of {len(right)} right ones"


def test_broken_beside_good(folder):
    """A worker that fails, refuses or lies costs at most five jobs; the good one finds the best."""
    for fault in "crash", "wrong", "garbage", "nan", "lie", "one_ns", "hang":
        for order in 0, 1:
            db = f"{fault}{order}.db"
            workers = [f"{FAULTY} 1 {fault}", f"{FAULTY} 0 '' 0.002"]
            result, err = tune(folder, "--schedule", "tiny.sched", "--trials", "60", "--time", "60s", db=db,
                               workers=workers[::1 - 2 * order])
            check_best(folder, result, db)
            failed = result["measured"] - result["outcomes"]["ok"]
            assert failed <= 5, f"{db}: {result['outcomes']}"
            assert f" 1 {fault}` is out after " in err or fault == "hang", f"{db}: {err[-500:]}"


def test_another_days_times(folder):
    """A record that says something other than what is measured now isn't gone on from, and stays what it was."""
    space = ["--schedule", "tiny.sched"]
    tune(folder, *space, "--trials", "40", "--time", "60s", workers=[f"{FAULTY} 0"])
    with sqlite3.connect(folder / "t.db") as connection:
        old = connection.execute("SELECT max(id) FROM records WHERE declared = 0").fetchone()[0]
        connection.execute(f"UPDATE records SET median_ns = 5000, samples_ns = '[5000]' WHERE id = {old}")
    result, _ = tune(folder, *space, "--trials", "40", "--time", "60s", workers=[f"{FAULTY} 0"] * 2)
    times = {trace: true_ns(trace) for (trace,) in rows(folder / "t.db", "trace")}
    assert true_ns(result["trace"]) == min(times.values()) and result["gain_beyond_noise"], result
    assert rows(folder / "t.db", "median_ns, outcome", f"id = {old}") == [(5000.0, "ok")]
    shown = subprocess.run([NESTOR, "inspect", "tiny.nest", "--db", "t.db", "--threads", "1"], cwd=folder, text=True,
                           capture_output=True, check=True).stdout
    assert result["trace"].split("{", 1)[1].split("\n")[1] in shown, "compiled is what tune declared"


def test_time(folder):
    """--time holds within a tenth, whatever the workers do, comparison and start included."""
    digits = str(Path(__file__).parents[2] / "examples/digits/digits.onnx")
    for name, seconds, flags, how in [
        ("all hang", 4, ["--schedule", "tiny.sched"], {"workers": [f"{FAULTY} 1 hang"]}),
        ("some hang", 5, ["--schedule", "tiny.sched"], {"workers": [f"{FAULTY} 0.1 hang 0.01"] * 2}),
        ("slow jobs", 4, ["--schedule", "tiny.sched"], {"workers": [f"{FAULTY} 0 '' 0.7"]}),
        ("many functions", 5, ["--dim", "batch=1"], {"model": digits}),
        ("a null device", 4, [], {"workers": [NULL]}),
    ]:
        begin = time.monotonic()
        process = start(folder, "--time", f"{seconds}s", *flags, db=f"{name}.db", **how)
        out, err = process.communicate(timeout=60)
        took = time.monotonic() - begin
        assert took < 1.1 * seconds + 0.3, f"{name}: {seconds} s took {took:.2f} s"
        if name == "all hang":
            assert process.returncode == 1 and "no candidate for tiny could be measured" in err, err
            continue
        assert process.returncode == 0, f"{name}: {err}"
        results = [json.loads(line) for line in out.splitlines()]
        assert took > 0.6 * seconds, f"{name}: {seconds} s took {took:.2f} s"
        assert all(r["end"] == "the time is over" for r in results), f"{name}: {results}"
        assert sum(r["outcomes"]["ok"] for r in results) > len(results), f"{name}: {results}"
        print(f"        {name}: {seconds} s took {took:.2f} s")


def test_slow_default(folder):
    """A default that takes longer than --job-timeout is measured all the same, and candidates are held against it."""
    result, _ = tune(folder, "--schedule", "tiny.sched", "--time", "30s", "--trials", "40", "--job-timeout", "0.5",
                     workers=[f"{FAULTY} 0 '' 0.01 1.0"])
    assert result["outcomes"]["timeout"] == 1, result
    check_best(folder, result)


def claims(db):
    with sqlite3.connect(db) as connection:
        return connection.execute("SELECT trace FROM claims").fetchall()


def test_two_tuners(folder):
    """Two tuners of one database share the candidates, with one seed and with two."""
    for seeds in ("0", "0"), ("0", "1"):
        db = f"{seeds[1]}.db"
        both = [start(folder, "--schedule", "tiny.sched", "--trials", "150", "--time", "60s", "--seed", seed, db=db,
                      workers=[f"{FAULTY} 0 '' 0.01"]) for seed in seeds]
        results = [ended(process)[0] for process in both]
        assert all(r["measured"] == 150 for r in results), results
        traces = [trace for (trace,) in rows(folder / db, "trace")]
        twice = len(traces) - len(set(traces))
        assert len(traces) == 300 and twice <= 0.05 * 300, f"{twice} of {len(traces)} measured twice"
        assert claims(folder / db) == [], "claims are left"
        if seeds[0] == seeds[1]:
            assert sum(r["resumed"] for r in results) > 50, f"the two didn't go the same way: {results}"
        fastest = min(true_ns(trace) for trace in traces)
        assert min(true_ns(r["trace"]) for r in results) == fastest, "the best of both is none's"


def test_claims_of_the_dead(folder):
    """A candidate that a killed tuner had begun is another's at once; one that lives keeps its own."""
    holder = start(folder, "--schedule", "tiny.sched", "--time", "100s", "--job-timeout", "100", workers=[f"{FAULTY} 1 hang"])
    wait_for(lambda: (folder / "t.db").exists() and claims_or_none(folder / "t.db"))
    second = start(folder, "--schedule", "tiny.sched", "--time", "60s", "--trials", "20", workers=[f"{FAULTY} 0"])
    time.sleep(0.5)
    assert second.poll() is None and rows(folder / "t.db") == [], "it measured what another was measuring"
    holder.kill()
    holder.communicate()
    result, _ = ended(second)
    check_best(folder, result)
    assert result["measured"] == 20 and claims(folder / "t.db") == [], result


def test_killed(folder):
    """SIGKILL at 20 moments: what was reported is stored, and each run goes on from it."""
    moments = random.Random(7)
    db = folder / "t.db"
    reported = 0
    for kill in range(20):
        before = len(rows_or_none(db)) if db.exists() else 0
        process = start(folder, "--schedule", "tiny.sched", "--time", "60s", workers=[f"{FAULTY} 0.1 crash,wrong 0.002 0.002 {folder}"])
        said = []
        os.set_blocking(process.stderr.fileno(), False)
        while kill % 4 and len(said) < 2 + kill % 4:  # but for five, which are killed as they start
            said += process.stderr.readlines()
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.1))
        process.kill()
        said += process.communicate()[1].splitlines()
        events = [json.loads(line) for line in said if line.startswith("{") and line.rstrip().endswith("}")]
        progress = [e for e in events if e["event"] == "progress"]
        if not progress:
            continue
        reported += progress[-1]["measured"]
        stored = rows(db, "outcome, median_ns")
        assert len(stored) >= before + progress[-1]["measured"], f"kill {kill}: {len(stored)} stored, {before} + {progress[-1]}"
        for outcome, count in progress[-1]["outcomes"].items():
            assert sum(o == outcome for o, _ in stored) >= count, f"kill {kill}: {outcome} {count} reported"
        if progress[-1]["best_us"] > 0:
            assert min(ns for o, ns in stored if o == "ok") <= 1e3 * progress[-1]["best_us"] + 1e-6, f"kill {kill}"
    assert reported >= 100, f"only {reported} records were reported: the kills prove little"
    with sqlite3.connect(db) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    right = {trace for (trace,) in rows(db, "trace", "outcome = 'ok'")}
    result, _ = tune(folder, "--schedule", "tiny.sched", "--trials", "2", "--time", "20s", workers=[f"{FAULTY} 0"])
    assert result["resumed"] == len(right), f"{result} of {len(right)}"
    time.sleep(0.2)
    for entry in Path("/proc").glob("[0-9]*/cmdline"):  # workers end with their tuner
        try:
            assert f"{folder}".encode() not in entry.read_bytes(), f"{entry} is left"
        except OSError:
            pass


def stream(db, first=1):
    """What comes first, then batch by batch; within one, whoever was ready first stands first."""
    traces = [trace for (trace,) in rows(db, "trace")]
    return traces[:first] + [sorted(traces[i:i + 8]) for i in range(first, len(traces), 8)]


def test_same_stream(folder):
    """One seed gives one stream of candidates on the null device, whatever the number of workers."""
    for name, model, flags in [("matmul", "MatMul(f32[40,24], const f32[24,100])", []),
                               ("own", "tiny.nest", ["--schedule", "tiny.sched", "--family", "any"])]:
        streams, results = [], []
        for workers, seed in (1, 5), (2, 5), (3, 5), (2, 6):
            db = f"{name}-{workers}-{seed}.db"
            results.append(tune(folder, "--trials", "41", "--time", "60s", "--seed", str(seed), *flags, db=db, model=model,
                                workers=[NULL] * workers)[0])
            streams.append(stream(folder / db, 2 if flags else 1))
        assert streams[0] == streams[1] == streams[2] != streams[3], f"{name}: other streams"
        assert sum(map(len, streams[0][1:])) >= 35, f"{name}: {len(streams[0])} batches prove little"
        assert results[0]["trace"] == results[1]["trace"] == results[2]["trace"], results
        assert results[0]["best_us"] == results[1]["best_us"], results


def test_replayed_log(folder):
    """What was measured, answered again from its log, gives the same stream of candidates."""
    model = "MatMul(f32[40,24], const f32[24,100])"
    tune(folder, "--trials", "33", "--time", "60s", db="first.db", model=model)
    subprocess.run([NESTOR, "db", "first.db", "export", "log.jsonl"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    replay = f"exec {sys.executable} {Path(__file__).with_name('replay_worker.py')} log.jsonl"
    tune(folder, "--trials", "33", "--time", "60s", db="again.db", model=model, workers=[replay])
    assert stream(folder / "again.db") == stream(folder / "first.db")


def test_same_bytes(folder):
    """One database, one model and one name give one artifact."""
    model = "MatMul(f32[40,24], const f32[24,1000])"
    tune(folder, "--trials", "20", "--time", "60s", model=model)
    (folder / "elsewhere").mkdir()
    artifacts = []
    for where in "a.so", "elsewhere/a.so", "a.so":
        subprocess.run([NESTOR, "compile", model, "--db", "t.db", "--threads", "1", "--const", "x1=random:1", "-o", where], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        artifacts.append((folder / where).read_bytes())
    assert artifacts[0] == artifacts[1] == artifacts[2], "other bytes"


def test_signals(folder):
    """Ctrl-C, a second one and SIGTERM end with a summary, soon, whatever the workers do; what was measured is kept."""
    for name, signals, worker in [("int", [signal.SIGINT], "0 '' 0.01"), ("term", [signal.SIGTERM], "0 '' 0.01"),
                                  ("twice", [signal.SIGINT, signal.SIGINT], "0 '' 0.01"),
                                  ("both", [signal.SIGTERM, signal.SIGINT], "0 '' 0.01"),
                                  ("hanging", [signal.SIGTERM], "0.1 hang")]:
        db = folder / f"{name}.db"
        process = start(folder, "--schedule", "tiny.sched", "--time", "60s", "--job-timeout", "50", db=db.name,
                        workers=[f"{FAULTY} {worker}"])
        wait_for(lambda: db.exists() and len(rows_or_none(db)) >= 4)
        time.sleep(0.3)  # the hanging one hangs
        begin = time.monotonic()
        for number in signals:
            process.send_signal(number)
            time.sleep(0.01)
        result, _ = ended(process)
        assert time.monotonic() - begin < 2, f"{name}: took {time.monotonic() - begin:.1f} s to end"
        assert result["end"] == "stopped" and result["measured"] == len(rows(db)) >= 4, f"{name}: {result}"
        assert not result["compared"] and true_ns(result["trace"]) < 40000, f"{name}: {result}"
        assert claims(db) == [], f"{name}: claims are left"


def test_database_that_cannot_be_written(folder):
    """A full disk ends the search with what was stored, and says so; a lock is waited for, within the time."""
    def full_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    process = start(folder, "--schedule", "tiny.sched", "--time", "60s", db="full.db", workers=[f"{FAULTY} 0"],
                    preexec_fn=full_disk)
    out, err = process.communicate(timeout=60)
    result = json.loads(out)
    assert process.returncode == 1 and "full.db" in err.splitlines()[-1] + err.splitlines()[-2], err[-500:]
    assert result["end"] == "results can't be stored any more" and result["best_us"] < 40, result
    assert result["measured"] <= len(rows(folder / "full.db")), result

    tune(folder, "--schedule", "tiny.sched", "--time", "20s", "--trials", "5", db="lock.db", workers=[f"{FAULTY} 0"])
    for held, seconds in (1.0, 20), (60, 4):
        lock = sqlite3.connect(folder / "lock.db", isolation_level=None)
        before = len(rows(folder / "lock.db"))
        begin = time.monotonic()
        process = start(folder, "--schedule", "tiny.sched", "--time", f"{seconds}s", "--trials", "20", db="lock.db",
                        workers=[f"{FAULTY} 0 '' 0.05"])
        wait_for(lambda: len(rows(folder / "lock.db")) > before + 3)
        lock.execute("BEGIN IMMEDIATE")
        if held < seconds:
            time.sleep(held)
            lock.execute("COMMIT")
            assert ended(process)[0]["measured"] == 20
            continue
        out, err = process.communicate(timeout=60)
        took = time.monotonic() - begin
        assert took < 1.1 * seconds + 1.3, f"{seconds} s took {took:.2f} s"
        assert process.returncode == 1 and "lock.db" in err and json.loads(out)["measured"] >= 4, err
        lock.execute("COMMIT")


def rows_or_none(db):
    try:
        return rows(db, "id")
    except sqlite3.OperationalError:  # the table is being made
        return []


def claims_or_none(db):
    try:
        return claims(db)
    except sqlite3.OperationalError:  # the tables are being made
        return []


def wait_for(what, limit=30):
    end = time.monotonic() + limit
    while not what():
        assert time.monotonic() < end, "it didn't come"
        time.sleep(0.02)


if __name__ == "__main__":
    run_tests(globals(), sys.argv[2:])
