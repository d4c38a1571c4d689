"""What compiling takes of memory: weights are there once, not in every form that they pass through.

A model's peak is at most three times its file. Small ones take what LLVM and this process itself do.
"""

import os

import harness

h = harness.Harness()
MB = 1 << 20


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):  # of a protobuf message: an integer, or bytes with their length
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def typed(name, *dims):
    shape = b"".join(field(1, field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def weight(name, *dims):
    count = 1
    for d in dims:
        count *= d
    noise = os.urandom(MB)
    finite = bytes(b & 0x3F if k % 4 == 3 else b for k, b in enumerate(noise))
    data = finite * (4 * count // MB) + finite[: 4 * count % MB]
    return b"".join(field(1, d) for d in dims) + field(2, 1) + field(8, name) + field(9, data)


def node(op, inputs, output, *attributes):
    return b"".join(field(1, i) for i in inputs) + field(2, output) + field(4, op) + b"".join(
        field(5, a) for a in attributes)


def model(file, nodes, weights, x, y):
    graph = (b"".join(field(1, n) for n in nodes) + field(2, b"g") + b"".join(field(5, w) for w in weights) +
             field(11, x) + field(12, y))
    h.write(file, field(1, 8) + field(7, graph) + field(8, field(1, b"") + field(2, 17)))


def peak_of(*args):
    """In MB, of a process of its own: a parent knows only the largest of all its children."""
    code = ("import resource, subprocess, sys; p = subprocess.run(sys.argv[1:], capture_output=True, text=True); "
            "print(p.stdout + p.stderr, p.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    p = harness.subprocess.run([harness.sys.executable, "-c", code, h.nestor, *args], capture_output=True, text=True)
    words = p.stdout.split()
    h.check(words[-2] == "0", "compiles " + " ".join(args), p.stdout)
    return int(words[-1]) * 1024 // MB, p.stdout


base, _ = peak_of("compile", "MatMul(f32[8,8], f32[8,8])", "-o", "small.so")
h.check(base < 150, f"a small operator takes {base} MB")

n = 4096
model("products.onnx", [node(b"MatMul", [b"x", b"w"], b"h"), node(b"MatMul", [b"h", b"v"], b"y")],
      [weight(b"w", n, n), weight(b"v", n, n)], typed(b"x", 1, n), typed(b"y", 1, n))
for ending in ("so", "a", "o"):
    peak, _ = peak_of("compile", "products.onnx", "--threads", "1", "-o", "products." + ending)
    size = os.path.getsize("products.onnx") // MB
    h.check(peak < 2 * size + base, f"a file of {size} MB takes {peak} MB as .{ending}")
    h.check(os.path.getsize("products." + ending) < (size + 1) * MB, "and the artifact has the weights once")
h.succeeds("and runs", "run", "products.so", "--input", "x=random:1")

pads, c, layers = field(1, b"pads") + b"".join(field(8, 1) for _ in range(4)) + field(20, 7), 512, 8
names = [b"x"] + [b"v%d" % k for k in range(layers - 1)] + [b"y"]
model("convolutions.onnx", [node(b"Conv", [names[k], b"w%d" % k], names[k + 1], pads) for k in range(layers)],
      [weight(b"w%d" % k, c, c, 3, 3) for k in range(layers)], typed(b"x", 1, c, 28, 28), typed(b"y", 1, c, 28, 28))
size = os.path.getsize("convolutions.onnx") // MB
for budget, most in ((None, size), ("30M", 30), ("0", 0)):
    given = ["--winograd-budget", budget] if budget else []
    peak, words = peak_of("compile", "convolutions.onnx", "--threads", "1", "--target", "x86-64-v4", *given, "-o", "c.so")
    h.check(peak < 3 * size + base, f"a file of {size} MB takes {peak} MB with a budget of {most} MB")
    added = os.path.getsize("c.so") // MB - size
    h.check(0.6 * most <= added <= most + 1, f"and {added} MB more in the artifact")
    h.check("Winograd's algorithm in" in words and "more would exceed the budget" in words, "which is said", words)
os.remove("convolutions.onnx")
h.refuses("a budget is a size", ["compile", "products.onnx", "--winograd-budget", "-1", "-o", "p.so"], "winograd-budget",
          code=2)
os.remove("products.onnx")
h.finish()
