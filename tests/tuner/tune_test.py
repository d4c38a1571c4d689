"""The tuner as users meet it: interrupted, with candidates that crash, hang or are wrong.

Usage: tune_test.py NESTOR. Standard library only; works in a temporary folder.
"""
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

from run_tests import run_tests

NESTOR = sys.argv[1]
# Small, but neither side fits one tile: four decisions.
MATMUL = "MatMul(f32[40,24], const f32[24,1000])"  # 224 candidates: more than ten short runs measure


def command(db, *flags, model=MATMUL):
    return [NESTOR, "tune", model, "--db", str(db), "--threads", "1", *flags]


def start(db, *flags, env=None):
    return subprocess.Popen(command(db, *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **(env or {})})


def tune(db, *flags, env=None, limit=60):
    process = start(db, *flags, "--json", env=env)
    out, err = process.communicate(timeout=limit)
    assert process.returncode == 0, f"exit {process.returncode}: {err}"
    return json.loads(out)


def nestor(*args):
    done = subprocess.run([NESTOR, *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{args}: exit {done.returncode}: {done.stderr}"
    return done.stdout


def rows(db, columns="*"):
    with sqlite3.connect(db) as connection:
        return connection.execute(f"SELECT {columns} FROM records ORDER BY id").fetchall()


# Rows whose number is open, and a product whose best schedule unrolls them where it is known.
ROWS = {"name": "rows", "opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 24]}], "outputs": ["y"],
        "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}],
        "weights": {"w": {"dtype": "f32", "shape": [24, 40], "data": [0.5] * 960}}}


def test_records_of_chosen_sizes(folder):
    """What was tuned for sizes is used by kernels for these, and where sizes are open as far as it holds for all."""
    model, db = folder / "rows.json", folder / "rows.db"
    model.write_text(json.dumps(ROWS))
    subprocess.run(command(db, "--dim", "n=8", "--trials", "4", "--time", "20s", model=str(model)), check=True, timeout=60,
                   stdout=subprocess.DEVNULL)
    assert all("f32[8,24]" in f for (f,) in rows(db, "func")), rows(db, "func")  # a record says its sizes

    def origins(*flags):
        out = nestor("compile", model, "--db", db, "--threads", "1", "-o", folder / "rows.so", "--json", *flags)
        return {f["func"]: f["schedule"] for f in json.loads(out)["funcs"]}

    assert origins("--dim", "n=8") == {"matmul": "database"}
    chosen = origins("--specialize", "n=4,8")
    assert (chosen["matmul_n8"], chosen["matmul_n4"]) == ("database", "default"), chosen
    assert set(origins("--dim", "n=~8")) == {"matmul"}
    refused = subprocess.run([NESTOR, "tune", str(model), "--db", str(db), "--trials", "1"], capture_output=True, text=True,
                             timeout=60)
    assert refused.returncode == 1 and "--dim n=" in refused.stderr, refused.stderr


def test_faults_are_counted(folder):
    """A candidate that crashes, hangs or computes something else costs itself."""
    for fault, outcome in [("crash", "crash"), ("hang", "timeout"), ("wrong", "wrong_result")]:
        db = folder / f"{fault}.db"
        result = tune(db, "--trials", "7", "--time", "20s", "--job-timeout", "1.5", env={"NESTOR_FAULT": f"{fault}:2"})
        counts = result["outcomes"]
        assert counts[outcome] >= 1, f"{fault}: {counts}"
        assert counts["ok"] >= 3, f"{fault}: {counts}"
        assert sum(counts.values()) == result["measured"] >= 7, f"{fault}: {result}"
        found = [o for (o,) in rows(db, "outcome")]
        assert found.count(outcome) == counts[outcome], f"{fault}: stored {found}"
        assert result["best_us"] > 0


def test_interrupt(folder):
    """Ctrl-C ends the search, not what it found."""
    db = folder / "tune.db"
    process = start(db, "--time", "60s", "--json")
    while len(safe_rows(db)) < 4:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert time.monotonic() - begin < 5, "took long to end"
    result = json.loads(out)
    fastest = min(ns for outcome, ns in rows(db, "outcome, median_ns") if outcome == "ok")
    assert abs(result["best_us"] - fastest / 1e3) < 1e-6 or result["compared"], result
    assert "split" in result["trace"], result


def safe_rows(db):
    try:
        return rows(db, "id") if db.exists() else []
    except sqlite3.OperationalError:  # the table is being made
        return []


def test_budget_holds(folder):
    begin = time.monotonic()
    result = tune(folder / "tune.db", "--time", "4s")
    took = time.monotonic() - begin
    assert took < 8, f"4 s took {took:.1f} s"
    assert result["measured"] >= 5, result


def test_seed_gives_the_stream(folder):
    """The default and the first batch depend on the seed alone; what follows, on timings too."""
    traces = {}
    for name, seed in [("a", 5), ("b", 5), ("c", 6)]:
        db = folder / f"{name}.db"
        tune(db, "--trials", "9", "--time", "30s", "--seed", str(seed))
        traces[name] = [trace for (trace,) in rows(db, "trace")][:9]
    assert len(traces["a"]) == 9
    assert traces["a"] == traces["b"]
    assert traces["a"][0] == traces["c"][0], "the default comes first whatever the seed"
    assert traces["a"] != traces["c"]
    assert len(set(traces["a"])) == 9, "a candidate was measured twice"


def test_database_verb(folder):
    db, copy, lines = folder / "tune.db", folder / "copy.db", folder / "records.jsonl"
    tune(db, "--trials", "14", "--time", "30s")
    kept = "workload, func, target, threads, trace, outcome, detail, samples_ns, median_ns, error, seed, version, host"
    listed = [line for line in nestor("db", db, "list", "--json").splitlines() if line]
    assert len(listed) == len(rows(db))
    best = json.loads(nestor("db", db, "best", "--json"))
    declared, ns = max(rows(db, "declared, -median_ns"))
    assert declared == 1 and best["median_ns"] == -ns, "what tune compared and declared is the best"
    for flags, origin in ([], "default"), (["--db", db], "database"), (["--db", db, "--schedule", "default"], "default"):
        shown = nestor("inspect", MATMUL, "--threads", "1", *flags)
        assert shown.startswith(f"# {origin} schedule of "), shown[:80]
    nestor("db", db, "export", lines)
    nestor("db", copy, "import", lines)
    assert rows(copy, kept) == rows(db, kept)
    assert f"imported 0 records into {copy}; {len(rows(db))} were there already" in nestor("db", copy, "import", lines)
    assert rows(copy, kept) == rows(db, kept), "imported twice"
    lines.write_text(lines.read_text() * 2)
    assert len(rows(db)) == int(nestor("db", folder / "new.db", "import", lines).split()[1]), "a line that comes twice"
    nestor("db", copy, "prune")
    left = rows(copy, "median_ns")
    assert len(left) == 10 and min(left)[0] == min(rows(db, "median_ns"))[0], left
    nestor("db", copy, "merge", db)
    assert len(rows(copy)) == len(rows(db)), "merging brings back what was pruned"
    nestor("db", copy, "merge", db)
    assert len(rows(copy)) == len(rows(db)), "and nothing twice"
    shown = nestor("db", db, "show", best["id"])
    assert "measured on" in shown and best["trace"] in shown and "func " in shown, shown
    again = [json.loads(line) for line in nestor("db", db, "retry", best["id"], "--json").splitlines()]
    assert [r["trace"] for r in again] == [best["trace"]] * 2 and again[1]["id"] > again[0]["id"], again
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE records SET outcome = 'illegal' WHERE id IN (SELECT id FROM records LIMIT 2)")
        connection.execute("UPDATE records SET trace = 'vectorize nowhere.x' WHERE id IN "
                           "(SELECT id FROM records WHERE outcome = 'ok' LIMIT 3)")
    assert len(nestor("db", copy, "list", "--outcome", "illegal").splitlines()) == 3, "a header and two records"
    assert "removed 2 records" in nestor("db", copy, "prune", "--failed")
    assert "removed 3 records" in nestor("db", copy, "prune", "--stale")
    broken = folder / "broken.jsonl"
    broken.write_text(lines.read_text() + '{"workload": 3}\n')
    refused = subprocess.run([NESTOR, "db", folder / "none.db", "import", broken], capture_output=True, text=True)
    assert refused.returncode != 0 and "broken.jsonl" in refused.stderr, refused.stderr
    assert not (folder / "none.db").exists(), "half an import"


NEST = """func scaled_rows(in X: f32[64,96], const W: f32[96,80], out Y: f32[64,80]) {
  alloc S: f32[64]
  alloc T: f32[64,80]
  for i in 64, k in 96 {
    block S(vi: S 64 = i, vk: R 96 = k) {
      init { S[vi] = 0.0f32 }
      S[vi] += X[vi,vk] * X[vi,vk]
    }
  }
  for i in 64, j in 80, k in 96 {
    block T(vi: S 64 = i, vj: S 80 = j, vk: R 96 = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += X[vi,vk] * W[vk,vj]
    }
  }
  for i in 64, j in 80 {
    block Y(vi: S 64 = i, vj: S 80 = j) {
      Y[vi,vj] = T[vi,vj] / sqrt(S[vi] + 1.0f32)
    }
  }
}
"""


def tune_nest(folder, *flags):
    nest = folder / "scaled_rows.nest"
    nest.write_text(NEST)
    done = subprocess.run(command(folder / "tune.db", *flags, "--json", model=str(nest)), capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_plans_of_a_users_nest(folder):
    """The family `any` has plans for what no rule knows; what they make is right, and what is best is compiled."""
    result = tune_nest(folder, "--family", "any", "--trials", "17", "--time", "40s")
    assert result["end"] == "the trials are over", result
    found = rows(folder / "tune.db", "outcome, plan")
    assert sum(o == "ok" and plan.startswith("any ") for o, plan in found) >= 8, found
    assert {o for o, _ in found} <= {"ok", "illegal"}, found
    nest = folder / "scaled_rows.nest"
    assert "agree" in nestor("verify", nest, "--db", folder / "tune.db", "--threads", "1")
    if result["gain_beyond_noise"]:
        assert result["plan"].startswith("any "), result
        assert "database schedule" in nestor("inspect", nest, "--db", folder / "tune.db", "--threads", "1")


def test_a_schedule_of_ones_own(folder):
    own = folder / "own.sched"
    own.write_text("w = sample_choice [16, 32]\nr = sample_choice [2, 4] -> 4\nj0 j1 = split T.j [_, w]\n"
                   "i0 i1 = split T.i [_, r]\nreorder T (j0 i0 k i1 j1)\nvectorize T.j1\nunroll T.i1\n")
    result = tune_nest(folder, "--schedule", str(own), "--time", "40s")
    assert result["end"] == "every candidate was tried", result
    assert result["measured"] == 5, "four of its own and the default"


def test_nothing_to_search(folder):
    db = folder / "tune.db"
    done = subprocess.run(command(db, "--family", "default", "--time", "20s", model="Neg(f32[64])"), capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0 and "there is nothing to search" in done.stdout, done.stdout + done.stderr


if __name__ == "__main__":
    run_tests(globals())
