"""`nestor inspect` shows every stage, and what it prints as loop nests is read back and runs; --json prints JSON."""

import json
import os
import pty
import re
import subprocess

from harness import Harness

t = Harness()
BATCH = [t.digits, "--dim", "batch=1"]
ESCAPE = "\x1b["


def stages():
    wanted = {
        "graph": "Softmax", "fused": "Conv", "func": "block ", "schedule": "block ", "lowered": "func ",
        "llvm": "define ", "asm": ".globl",
    }
    for stage, needle in wanted.items():
        shown = t.succeeds(f"stage {stage}", "inspect", *BATCH, "--stage", stage)
        t.check(needle in shown, f"stage {stage} shows '{needle.strip()}'", shown[:500])
        again = t.run("inspect", *BATCH, "--stage", stage).stdout
        t.check(shown == again, f"stage {stage} is the same twice")
    cuda = t.succeeds("stage cuda", "inspect", *BATCH, "--target", "cuda:sm_80", "--stage", "cuda")
    t.check("__global__" in cuda and "blockIdx.x" in cuda, "stage cuda shows kernels", cuda[:500])
    ptx = t.run("inspect", *BATCH, "--target", "cuda:sm_80", "--stage", "ptx")
    if ptx.returncode == 1 and "NVRTC" in ptx.stderr:
        print("SKIPPED stage ptx: no NVRTC")
    else:
        t.check(ptx.returncode == 0 and ".target sm_80" in ptx.stdout, "stage ptx", ptx.stdout[:300] + ptx.stderr)
    for stage, target in (("cuda", "native"), ("ptx", "native"), ("llvm", "cuda:sm_80"), ("asm", "cuda:sm_80")):
        t.refuses(f"stage {stage} for {target}", ["inspect", *BATCH, "--stage", stage, "--target", target], "--target")


def reasons():
    matmul = ["MatMul(f32[60,64], const f32[64,288])", "--target", "x86-64-v4"]
    shown = t.succeeds("--why", "inspect", *matmul, "--why")
    plain = t.run("inspect", *matmul).stdout
    kept = [line for line in shown.splitlines() if not line.startswith("#     because ")]
    t.check(kept == plain.splitlines(), "--why only adds reasons", shown)
    rows, vectors, taken, of = map(int, re.search(
        r"because (\d+) x (\d+) accumulators, .* need (\d+) of (\d+) registers", shown).groups())
    t.check(rows * vectors + vectors + 1 == taken <= of == 32, "the registers add up", shown)
    t.check("j_width = sample_choice" in shown and f"-> {16 * vectors}" in shown, "and the tile is that wide", shown)
    for spec in ("Softmax(f32[64,128])", "Transpose(f32[700,900])", "ReduceSum@11(f32[512,512]; axes=[0])",
                 "MaxPool(f32[1,8,64,64]; kernel_shape=[3,3])", "Gelu(f32[64,512])"):
        shown = t.succeeds(f"--why {spec}", "inspect", spec, "--why")
        t.check("#     because " in shown, f"a reason in the schedule of {spec}", shown)
    steps = t.succeeds("--steps --why", "inspect", *matmul, "--steps", "--why")
    t.check("#   because " in steps, "reasons between steps", steps[:2000])
    turned = t.write("turned.nest", """func turned(in X: f32[64,64], out Y: f32[64,64]) {
  for i in 64, j in 64, k in 64 {
    block Y(vi: S 64 = (i+j)%64, vj: S 64 = j, vk: R 64 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += X[vi,vk] * X[vk,vj]
    }
  }
}
""")
    shown = t.succeeds("--why of a plan that is refused", "inspect", turned, "--why")
    t.check(re.search(r"a plan of tiles and dot products was given up: `Y_out = cache_write .* breaks requirement 2", shown),
            "what was tried before is told", shown)
    t.check("given up" in t.run("inspect", turned, "--steps", "--why").stdout, "before the steps, too", shown)
    t.check("given up" not in t.run("inspect", turned).stdout, "but only if asked", shown)
    t.refuses("--why of machine code", ["inspect", *matmul, "--stage", "asm", "--why"], "--stage schedule")
    for spec, op, reason, chosen in (
            ("Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])", "WinogradConv", r"Winograd's F\(4x4, 3x3\) takes", 1),
            ("Conv(f32[1,512,4,4], const f32[512,512,3,3]; pads=[1,1,1,1])", "Conv", r"Winograd's F\(4x4, 3x3\) takes", 0),
            ("ConvTranspose(f32[1,64,40,40], const f32[64,3,3,3])", "Col2Im", "a matrix product and Col2Im take", 1),
            ("ConvTranspose(f32[1,64,40,40], const f32[64,64,3,3]; strides=[2,2])", "ConvTranspose", "a matrix product and Col2Im take", 0)):
        at = ["inspect", spec, "--target", "x86-64-v4", "--threads", "1", "--stage", "fused"]
        shown = t.succeeds(f"the algorithm of {spec}", *at, "--why")
        told = re.search(rf"= {op}\n.*\n     because {reason} ([\d.]+)", shown)
        t.check(told and (float(told[1]) < 0.9) == bool(chosen), f"why {op}", shown)
        t.check("because" not in t.run(*at).stdout, "unasked no reasons", shown)


def parameters(text):
    """Of the functions in a .nest text: (qualified name, is an input) each."""
    funcs = re.findall(r"^func (\w+)\((.*?)\)\s*(?:@.*)?\{", text, re.M | re.S)
    many = len(funcs) > 1
    for name, params in funcs:
        for role, param in re.findall(r"\b(in|out|const) (\w+):", params):
            yield (f"{name}." if many else "") + param, role


def round_trip():
    for stage in ("func", "schedule"):
        text = t.succeeds(f"{stage} as a file", "inspect", *BATCH, "--stage", stage)
        path = t.write(stage + ".nest", text)
        t.succeeds(f"{path} verifies", "verify", path)
        feeds = [f"--input={name}=random:1" for name, role in parameters(text) if role == "in"]
        outs = [name for name, role in parameters(text) if role == "out"]
        shown = t.succeeds(f"{path} runs", "run", path, *feeds)
        t.check(feeds and outs and all(name + ":" in shown for name in outs), f"{path} gives every output", shown)
        again = t.succeeds(f"{path} inspected", "inspect", path, "--stage", "func")
        plain = lambda s: [line for line in s.splitlines() if line and not line.startswith("#")]
        t.check(plain(again) == plain(text), f"{path} prints as it was read", again[:1000])
    # A layout and a temporary in registers, both the work of a schedule.
    text = t.succeeds("a packed MatMul", "inspect", "MatMul(f32[37,64], const f32[64,48])", "--stage", "schedule")
    path = t.write("matmul.nest", text)
    t.succeeds("the packed MatMul verifies", "verify", path)
    t.succeeds("the packed MatMul compiles", "compile", path, "-o", "matmul.so", "--const", "B=random:1")
    for how, says in ([], "compared with the graph as read"), (["--prove"], "nothing to verify"):
        out = t.succeeds("constants alone", "verify", "MatMul(const f32[3,4], const f32[4,5])", *how)
        t.check(says in out, f"constants are folded: {says}", out)


def figures():
    small = "MatMul(f32[8,8], const f32[8,8])"
    calls = [["doctor"], ["verify", small], ["run", small, "--input", "x0=zeros"], ["compile", small, "-o", "small.so", "--const", "x1=random:1"],
             ["bench", small, "--seconds", "0.05"], ["tune", small, "--db", "t.db", "--trials", "2", "--workers", "1"]]
    for call in calls:
        out = t.succeeds(f"{call[0]} --json", *call, "--json")
        try:
            t.check(isinstance(json.loads(out), dict), f"{call[0]} --json is one object")
        except ValueError as e:
            t.check(False, f"{call[0]} --json is JSON: {e}", out)
    operators = json.loads(t.succeeds("doctor lists operators", "doctor", "--json"))["operators"]
    t.check("Conv" in operators and len(set(operators)) == len(operators), "each operator once", str(operators))
    for action in (["list"], ["best"], ["export", "all.jsonl"], ["import", "all.jsonl"], ["prune"]):
        lines = t.succeeds(f"db {action} --json", "db", "t.db", *action, "--json").splitlines()
        try:
            t.check(lines and all(isinstance(json.loads(line), dict) for line in lines), f"db {action} --json is JSON lines")
        except ValueError as e:
            t.check(False, f"db {action} --json is JSON lines: {e}", "\n".join(lines))


def on_terminal(*args, env=None):
    """What nestor writes to a terminal: its stdout is a pseudo-terminal. None where the machine has none to give."""
    try:
        leader, follower = pty.openpty()
    except OSError as e:
        print(f"SKIPPED on a terminal: {e}")
        return None
    p = subprocess.Popen([t.nestor, *args], stdout=follower, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                         env={**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, **(env or {})})
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # Linux says EIO where the other end is closed
            part = b""
        if not part:
            break
        shown += part
    os.close(leader)
    t.check(p.wait() == 0, "inspect on a terminal")
    return shown.decode().replace("\r\n", "\n")


def steps():
    call = ["inspect", *BATCH, "--steps", "--func", "conv*"]
    shown = t.succeeds("--steps", *call)
    t.check("# step 1: " in shown, "--steps shows steps", shown[:500])
    for mark in "+-~":
        t.check(re.search(rf"^[{mark}] ", shown, re.M), f"--steps marks changes with {mark}", shown[:500])
    t.check(ESCAPE not in shown, "no colour in a file")
    colored = on_terminal(*call)
    if colored is None:
        return
    for code, mark in (("32", "+"), ("31", "-"), ("33", "~")):
        t.check(re.search(rf"^\033\[{code}m[{mark}] [^\033]*\033\[0m$", colored, re.M), f"{mark} has a colour on a terminal", colored[:800])
    t.check(re.sub(r"\033\[\d+m", "", colored) == shown, "a terminal shows the same text")
    t.check(on_terminal(*call, env={"NO_COLOR": "1"}) == shown, "no colour with NO_COLOR")


def refused_step():
    matmul = "MatMul(f32[60,64], const f32[64,96])"
    t.write("refused.sched", "j0 j1 = split Y.j [_, 16]\nparallel Y.k\nvectorize Y.j1\n")
    p = t.run("inspect", matmul, "--steps", "--schedule", "refused.sched")
    t.check(p.returncode == 1 and "refused.sched:2:10: error" in p.stderr and "hint:" in p.stderr, "a refused step is an error", p.stderr)
    t.check("# step 1: j0 j1 = split" in p.stdout and p.stdout.rstrip().endswith("# step 2: parallel Y.k"),
            "--steps walks up to the refused step", p.stdout)


def edited(lines, edits, strings):
    """The lines after a step, as the page makes them of its data."""
    out, at = [], 0
    for edit in edits:
        if isinstance(edit, int):
            out += lines[at:at + edit] if edit > 0 else []
            at += abs(edit)
        else:
            out += [strings[i] for i in edit[1:]]
            at += len(edit) - 1 if edit[0] == "~" else 0
    t.check(at == len(lines), "a step's edits use up the lines before it")
    return out


def page():
    t.succeeds("--html", "inspect", *BATCH, "--html", "page.html")
    with open("page.html") as f:
        text = f.read()
    t.check(not re.search(r"(src|href)=.?(https?:|//)|@import|url\((?!data:)", text), "the page refers to nothing outside")
    t.check("{{" not in re.sub(r"<script.*</script>", "", text, flags=re.S), "all of the page's parts are in it")
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)[1])
    t.check(len(data["funcs"]) == len(data["names"]) == 6, "it has every function")
    for i, name in enumerate(data["names"]):
        func = data["funcs"][str(i)]
        lines = [data["strings"][s] for s in func["start"]]
        for step in func["steps"]:
            lines = edited(lines, step["edits"], data["strings"])
        schedule = t.run("inspect", *BATCH, "--func", name, "--stage", "schedule").stdout
        t.check(lines == [l for l in schedule.rstrip().split("\n") if not l.startswith("#")], f"the steps of {name} lead to its schedule")
    again = t.run("inspect", *BATCH, "--html", "again.html")
    t.check(again.returncode == 0 and open("again.html").read() == text, "the page is the same twice")
    t.succeeds("--html of a model without functions", "inspect", "Reshape(f32[4], i64[2]{2,2})", "--html", "none.html")
    t.refuses("--html into nowhere", ["inspect", *BATCH, "--html", "no/such/folder/page.html"], "no/such/folder/page.html")


def dumps():
    dumps = t.succeeds("--dump-after all", "inspect", *BATCH, "--dump-after", "all", "--func", "conv*")
    passes = re.findall(r"^# after (\w+):", dumps, re.M)
    t.check(len(set(passes)) > 5, "--dump-after all shows the passes", dumps[:500])
    one = t.succeeds("--dump-after one pass", "inspect", *BATCH, "--dump-after", passes[0])
    t.check(set(re.findall(r"^# after (\w+):", one, re.M)) == {passes[0]}, "--dump-after shows that pass only")


def own_operator():
    folder = t.source + "/examples/custom_op/"
    model, op = folder + "model.json", folder + "rms_norm.nest"
    t.refuses("an operator that isn't registered", ["verify", model], model, "RmsNorm", "norm")
    t.succeeds("--op", "verify", model, "--op", op)
    t.succeeds("--op and run", "run", model, "--op", op, "--input", "x=random:3")
    t.refuses("--op with no file", ["verify", model, "--op", "nowhere.nest"], "nowhere.nest")
    t.refuses("--op with a bad file", ["verify", model, "--op", t.write("bad.nest", "func F(")], "bad.nest:1:")
    t.succeeds("a template with its dimensions", "verify", op, "--dim", "N=3", "--dim", "M=17")
    t.refuses("a template without", ["verify", op], op, "--dim N=")


def exact_convolutions():
    conv = ["Conv(f32[1,32,16,16], const f32[32,32,3,3]; pads=[1,1,1,1])", "--target", "x86-64-v3", "--blocked-io"]
    for flags, name in (([], "winograd_conv2d"), (["--exact-conv"], "conv2d")):
        what = " ".join(flags) or "without --exact-conv"
        shown = t.succeeds(f"{what}: the functions", "inspect", *conv, *flags, "--stage", "fused")
        t.check(re.findall(r"^  0  (\w+)", shown, re.M) == [name], f"{what}: {name}", shown)
        agreed = t.succeeds(f"{what}: verify", "verify", *conv, *flags)
        t.check(("compared with the direct convolution" in agreed) == (not flags), f"{what}: what it is held against", agreed)
    bench = ["bench", conv[0], "--exact-conv", "--seconds", "0.01", "--threads", "1", "--json"]
    t.check('"gflops"' in t.succeeds("--exact-conv and bench", *bench), "--exact-conv and bench: a figure")


def blocked_in_and_out():
    conv = "Conv(f32[1,32,9,9], const f32[24,32,3,3])"
    bench = ["bench", conv, "--target", "x86-64-v3", "--threads", "1", "--seconds", "0.01", "--profile"]
    alone = ["winograd_conv2d"]
    for flags, functions in (([], ["reorder", *alone, "reorder_1"]), (["--blocked-io"], alone)):
        shown = t.succeeds(f"bench {flags}", *bench, *flags)
        rows = re.findall(r"^ +[\d.]+ [num]?s +[\d.]+ +1 .* (?:operations|bytes) +\d+ %  (\w+)", shown, re.M)
        t.check(sorted(rows) == sorted(functions), f"bench {flags}: {functions}", shown)
        t.check("effective" in shown, f"bench {flags}: what Winograd's rate means", shown)
    t.succeeds("an artifact", "compile", conv, "--target", "x86-64-v3", "-o", "blocked.so", "--const", "x1=random:1")
    shown = t.succeeds("bench of an artifact", "bench", "blocked.so", "--seconds", "0.01")
    t.check(re.search(r"\nartifact +([\d.]+ [num]?s +){3}[1-9][\d.]* +[\d.]+ +[1-9][\d.]* ", shown) and "effective" in shown,
            "bench of an artifact: its rate, and Winograd's", shown)
    t.refuses("an artifact in blocks", ["bench", "blocked.so", "--blocked-io"], "when it was compiled")


for part in (stages, reasons, round_trip, figures, steps, refused_step, page, dumps, own_operator, exact_convolutions,
             blocked_in_and_out):
    part()
t.finish()
