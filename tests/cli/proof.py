"""A schedule written by hand is proved wherever it is applied, and `verify --schedule` shows the proof."""

import json

from harness import Harness

t = Harness()
MATMUL = "MatMul(f32[37,64], const f32[64,48])"
path = t.write("mm.sched", """schedule matmul {
  i0 i1 = split Y.i [_, 14] tail=peel
  reorder Y (i0 j k i1)
  parallel Y.i0
}
""")

shown = t.succeeds("verify --schedule", "verify", MATMUL, "--schedule", path)
t.check("ok    matmul: the schedule is proved in " in shown, "the proof is shown", shown)
t.check("elements agree" in shown, "what it computes is compared too", shown)
figures = json.loads(t.succeeds("verify --schedule --json", "verify", MATMUL, "--schedule", path, "--json"))
t.check(figures["ok"] and figures["proofs"][0]["verdict"] == "proved" and figures["compared"], "as JSON", str(figures))

shared = t.write("shared.sched", "S = cache_read Y A shared\n")
shown = t.succeeds("verify --prove", "verify", MATMUL, "--schedule", shared, "--prove")
t.check("is proved in" in shown and "agree" not in shown, "a proof runs and lowers nothing", shown)

# Sizes that stay open: a product over them, and one that is computed row by row.
open_model = t.write("open.json", json.dumps({
    "opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", "seq", 8]}], "outputs": ["y"],
    "nodes": [{"op": "Transpose", "inputs": ["x"], "outputs": ["t"], "attrs": {"perm": [0, 2, 1]}},
              {"op": "MatMul", "inputs": ["x", "t"], "outputs": ["s"]}, {"op": "Softmax", "inputs": ["s"], "outputs": ["y"]}]}))
shown = t.succeeds("verify --prove of open sizes", "verify", open_model, "--prove")
t.check(shown.count("for all sizes of at least 1 the schedule is proved") == len(shown.splitlines()), "all are proved", shown)
figures = json.loads(t.succeeds("verify --prove --json", "verify", open_model, "--prove", "--json"))
t.check(all(p["sizes"] == "all of at least 1" for p in figures["proofs"]), "for which sizes it is proved", str(figures))

# Halves of an image's rows and columns, put beside the image: right only where these are even.
halves = t.write("halves.json", json.dumps({
    "opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 4, "height", 8]}], "outputs": ["y"],
    "nodes": [{"op": "MaxPool", "inputs": ["x"], "outputs": ["p"], "attrs": {"kernel_shape": [2, 1], "strides": [2, 1]}},
              {"op": "ConvTranspose", "inputs": ["p", "w"], "outputs": ["u"], "attrs": {"strides": [2, 1]}},
              {"op": "Concat", "inputs": ["u", "x"], "outputs": ["y"], "attrs": {"axis": 1}}],
    "weights": {"w": {"dtype": "f32", "shape": [4, 4, 2, 1], "data": [(i * 7 % 11 - 5) * 0.1 for i in range(32)]}}}))
shown = t.succeeds("verify --prove of sizes with conditions", "verify", halves, "--prove")
t.check("FAIL" not in shown and "for all sizes" in shown, "what is wrong at sizes that the model refuses isn't wrong", shown)

p = t.run("verify", MATMUL, "--input", "A=zeros")
t.check(p.returncode == 1 and "--expect" in p.stderr, "inputs that nobody would look at are refused", p.stderr)

for verb in (["inspect", MATMUL, "--stage", "schedule"], ["inspect", MATMUL, "--steps"], ["inspect", MATMUL, "--html", "p.html"],
             ["bench", MATMUL, "--seconds", "0.01"], ["compile", MATMUL, "-o", "mm.so", "--const", "x1=random:1"], ["run", MATMUL, "--input", "x0=random:1"]):
    p = t.run(*verb, "--schedule", path)
    t.check(p.returncode == 0 and "the schedule of matmul is proved in" in p.stderr, " ".join(verb) + " proves it", p.stderr)
    p = t.run(*verb, "--schedule", path, "--no-proof")
    t.check(p.returncode == 0 and "proved" not in p.stderr, " ".join(verb) + " --no-proof doesn't", p.stderr)
p = t.run("inspect", MATMUL, "--stage", "schedule")
t.check(p.returncode == 0 and "proved" not in p.stderr, "default schedules are not proved each time", p.stderr)

lone = t.write("lone.sched", "Bs = cache_read Y B shared\ncompute_at Bs Y.i\nbind Y.i blockIdx.x\nbind Y.j threadIdx.x\n")
p = t.run("inspect", MATMUL, "--schedule", lone, "--target", "cuda:sm_80", "--stage", "schedule", "--no-proof")
t.check(p.returncode == 0 and "warning: block Bs of matmul runs on one of 48 threads\nhint: bind Bs." in p.stderr,
        "what is left to one thread of a kernel is said", p.stderr)

t.finish()
