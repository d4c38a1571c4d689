"""`nestor inspect` shows every stage, and what it prints as loop nests is read back and runs; --json prints JSON."""

import json
import re

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
    t.succeeds("the packed MatMul compiles", "compile", path, "-o", "matmul.so")


def figures():
    small = "MatMul(f32[8,8], const f32[8,8])"
    calls = [["doctor"], ["verify", small], ["run", small, "--input", "x0=zeros"], ["compile", small, "-o", "small.so"],
             ["bench", small, "--seconds", "0.05"], ["tune", small, "--db", "t.db", "--trials", "2", "--workers", "1"]]
    for call in calls:
        out = t.succeeds(f"{call[0]} --json", *call, "--json")
        try:
            t.check(isinstance(json.loads(out), dict), f"{call[0]} --json is one object")
        except ValueError as e:
            t.check(False, f"{call[0]} --json is JSON: {e}", out)
    for action in ("list", "best"):
        lines = t.succeeds(f"db {action} --json", "db", "t.db", action, "--json").splitlines()
        try:
            t.check(lines and all(isinstance(json.loads(line), dict) for line in lines), f"db {action} --json is JSON lines")
        except ValueError as e:
            t.check(False, f"db {action} --json is JSON lines: {e}", "\n".join(lines))


def steps():
    shown = t.succeeds("--steps", "inspect", *BATCH, "--steps", "--func", "conv*")
    t.check("# step 1: " in shown, "--steps shows steps", shown[:500])
    t.check(re.search(r"^\s*\+", shown, re.M) and re.search(r"^\s*-", shown, re.M), "--steps marks changes", shown[:500])
    t.check(ESCAPE not in shown, "no colour in a file")
    t.check(ESCAPE not in t.run("inspect", *BATCH, "--steps", env={"NO_COLOR": "1"}).stdout, "no colour with NO_COLOR")
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


for part in (stages, round_trip, figures, steps, own_operator):
    part()
t.finish()
