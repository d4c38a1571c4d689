"""Templates as users meet them: a family by its file's name, and what is said of one that is wrong or of no use; and a search
that begins with the plans of a like function.

Usage: template_test.py NESTOR. Standard library only; works in a temporary folder.
"""
import json
import sqlite3
import subprocess
import sys

from run_tests import run_tests

NESTOR = sys.argv[1]
ROWS = """# Rows of a product.
when block C reduction k >= 16, spatial i j, reads A B
rows = sample_choice [2, 4, 8] -> 4
i0 i1 = split C.i [_, rows]
reorder C (i0 j k i1)
"""


def tune(folder, *flags, model="MatMul(f32[24,32], f32[32,40])"):
    return subprocess.run([NESTOR, "tune", model, "--db", str(folder / "t.db"), "--threads", "1", "--time", "20s", *flags],
                          capture_output=True, text=True, timeout=90)


def plans(folder):
    with sqlite3.connect(folder / "t.db") as db:
        return [row[0] for row in db.execute("SELECT plan FROM records WHERE outcome = 'ok' ORDER BY id")]


def templates(folder, text, name="rows.sched"):
    (folder / "templates").mkdir(exist_ok=True)
    (folder / "templates" / name).write_text(text)
    return str(folder / "templates")


def test_a_family_by_its_files_name(folder):
    done = tune(folder, "--template", templates(folder, ROWS), "--family", "rows", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["end"] == "every candidate was tried", done.stdout
    assert set(plans(folder)) == {"", "rows rows=2", "rows rows=4", "rows rows=8"}, plans(folder)


def test_beside_the_other_families(folder):
    done = tune(folder, "--template", templates(folder, ROWS), "--trials", "24")
    assert done.returncode == 0, done.stderr
    families = {plan.split(" ")[0] for plan in plans(folder)}
    assert families == {"", "rows", "any"}, families


def test_what_matches_nothing_is_said(folder):
    done = tune(folder, "--template", templates(folder, ROWS), "--trials", "2", model="Relu(f32[8,8])")
    assert done.returncode == 0, done.stderr
    assert "rows.sched matches no function: relu: block Y as C: it isn't a reduction" in done.stderr, done.stderr


def test_errors_have_a_place(folder):
    where = templates(folder, ROWS.replace(">= 16", ">= many"))
    done = tune(folder, "--template", where)
    assert done.returncode == 1 and "rows.sched:2:29: error: `many` isn't a number" in done.stderr, done.stderr
    templates(folder, ROWS.replace("C.i ", "C.x "))
    done = tune(folder, "--template", where, "--trials", "2")
    assert done.returncode == 0, done.stderr
    assert "template rows isn't used for matmul: " in done.stderr and "rows.sched:4: `i0 i1 = split Y.x" in done.stderr, done.stderr


def test_families_that_there_are(folder):
    done = tune(folder, "--template", templates(folder, ROWS), "--family", "row")
    assert done.returncode == 1 and "any, default, rows" in done.stderr, done.stderr
    done = tune(folder, "--template", str(folder / "nowhere"))
    assert done.returncode == 1 and "nowhere can't be read as a folder of templates" in done.stderr, done.stderr


def test_begins_with_the_plan_of_another_size(folder):
    assert tune(folder, "--family", "any", "--trials", "12").returncode == 0
    with sqlite3.connect(folder / "t.db") as db:
        best = db.execute("SELECT plan FROM records WHERE outcome = 'ok' AND plan <> '' ORDER BY median_ns, id").fetchone()[0]
        last = db.execute("SELECT max(id) FROM records").fetchone()[0]
    assert tune(folder, "--family", "any", "--trials", "4", model="MatMul(f32[24,32], f32[32,48])").returncode == 0
    with sqlite3.connect(folder / "t.db") as db:
        first = db.execute("SELECT plan FROM records WHERE id > ? AND plan <> '' ORDER BY id", (last,)).fetchone()[0]
    assert first == best, (first, best)


if __name__ == "__main__":
    run_tests(globals())
