"""An artifact has no weights that nobody gave: those of an operator or of loop nests are said by --const."""

import struct

from harness import Harness, npy

t = Harness()
OPERATOR = "MatMul(f32[1,2], const f32[2,1])"
NEST = """func scale(in X: f32[2], const W: f32[2], const B: f32[2], out Y: f32[2]) {
  for i in 2 {
    block Y(v: S 2 = i) { Y[v] = X[v] * W[v] + B[v] }
  }
}
"""


def floats(name, *values, shape=None):
    t.write(name, npy("<f4", shape or (len(values),), struct.pack(f"<{len(values)}f", *values)))


nest = t.write("scale.nest", NEST)
floats("x.npy", 3, 5)
floats("row.npy", 3, 5, shape=(1, 2))
floats("w.npy", 10, 100)
floats("column.npy", 10, 100, shape=(2, 1))
floats("b.npy", 1, 2)

t.refuses("an operator without its weight", ["compile", OPERATOR, "-o", "m.so"], "x1", "--const x1=@x1.npy", "--const x1=random:1")
t.refuses("a nest without its weights", ["compile", nest, "-o", "m.so"], "W, B", "--const W=@W.npy --const B=@B.npy")
t.refuses("a nest without one of them", ["compile", nest, "-o", "m.so", "--const", "W=@w.npy"], "the weights B have")
t.refuses("other forms as well", ["compile", nest, "-o", "m.o"], "W, B")

t.succeeds("an operator with its weight", "compile", OPERATOR, "-o", "m.so", "--const", "x1=@column.npy")
t.check("[530]" in t.succeeds("runs", "run", "m.so", "--input", "x0=@row.npy"), "and computes with it")
t.check("random" not in open("m.h").read(), "its header says nothing of chance")
t.succeeds("a nest with its weights", "compile", nest, "-o", "n.so", "--const", "W=@w.npy", "--const", "B=@b.npy")
t.check("[31, 502]" in t.succeeds("runs", "run", "n.so", "--input", "X=@x.npy"), "and computes with them")
t.succeeds("weights to measure with", "compile", nest, "-o", "n.so", "--const", "W=random:3", "--const", "B=@b.npy")
header = open("n.h").read()
t.check("W is random (random:3)" in header and "B is random" not in header, "are said in the header", header[:300])

t.succeeds("a weight that is given in the text", "compile", "Reshape(f32[2,3], i64[1]{6})", "-o", "m.so")
for verb in (["bench", "--seconds", "0.01"], ["inspect"], ["verify"]):
    t.succeeds(f"{verb[0]} draws them", verb[0], OPERATOR, *verb[1:])
t.finish()
