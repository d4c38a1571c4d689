"""What the program says of itself: the list of verbs, help with examples that run, the table of primitives, the version."""

import os
import re
import subprocess

from harness import Harness

t = Harness()
PATH = os.path.dirname(t.nestor) + os.pathsep + os.environ["PATH"]


def verbs_of(text):
    return re.findall(r"^  ([a-z]+) {2,}\S", text.split("Subcommands:")[1], re.M)


bare = t.run()
verbs = verbs_of(bare.stderr)
t.check(bare.returncode == 2 and bare.stdout == "", "nestor alone is a usage error", bare.stdout)
t.check({"compile", "run", "tune", "primitives", "help"} <= set(verbs), "and shows the verbs", bare.stderr)
t.check(verbs_of(t.succeeds("nestor help", "help")) == verbs, "nestor help shows the same")
t.refuses("help of no verb", ["help", "complie"], "no verb `complie`", "did you mean `compile`?", code=2)
t.refuses("help of a primitive", ["help", "cache_read"], "nestor primitives cache_read", code=2)
t.refuses("help of an option", ["help", "--", "-x"], "no verb `-x`", code=2)
t.refuses("an option before any verb", ["--foo", "bar"], "no option --foo", code=2)
t.refuses("a misspelled option before any verb", ["--versoin"], "did you mean `--version`?", code=2)
t.refuses("an empty verb", [""], "no verb ``", code=2)

for verb in verbs:
    shown = t.succeeds(f"help {verb}", "help", verb)
    t.check(shown == t.run(verb, "--help").stdout, f"help {verb} is {verb} --help", shown)
    folder = os.path.join(t.work, verb)
    os.makedirs(folder)
    examples = re.findall(r"^  (nestor .*)$", shown.split("Examples:")[-1], re.M)
    t.check(1 <= len(examples) <= 3, f"help {verb} ends with examples", shown)
    for command in examples:
        p = subprocess.run(["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": PATH}, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL)
        t.check(p.returncode == 0, command, p.stdout + p.stderr)

table = t.succeeds("primitives", "primitives")
names = re.findall(r"^  ([a-z_]+) {2,}\S", table, re.M)
manual = open(os.path.join(t.source, "docs/schedules.md")).read()
t.check(names == re.findall(r"^#### (\w+)$", manual, re.M), "the table has the primitives of docs/schedules.md", table)
for name in names:
    shown = t.succeeds(f"primitives {name}", "primitives", name)
    parts = re.findall(r"^(When|Elsewhere|Usage|Arguments|Requires|Before|Steps|After)$", shown, re.M)
    t.check(shown.startswith(name + "\n") and parts == ["When", "Elsewhere", "Usage", "Arguments", "Requires", "Before", "Steps", "After"], f"{name} in full", shown)
    t.check(re.search(rf"^{' ' * 26}.*\b{name}\b", table, re.M), f"{name}: how it is written")
t.refuses("a misspelled primitive", ["primitives", "spilt"], "no primitive `spilt`", "did you mean `split`?")
t.refuses("an unknown primitive", ["primitives", "frobnicate"], "the primitives are split, fuse")

version = t.succeeds("--version", "--version")
m = re.fullmatch(r"nestor \d+\.\d+\.\d+ \((?:commit ([0-9a-f]{12}), )?LLVM \d+\.\d+\.\d+\)\n", version)
t.check(m, "the version names LLVM's", version)
if m and os.path.exists(os.path.join(t.source, ".git")):
    known = subprocess.run(["git", "-C", t.source, "cat-file", "-e", f"{m[1]}^{{commit}}"], check=False)
    t.check(known.returncode == 0, "and a commit of the sources", version)
t.finish()
