#!/usr/bin/env python3
"""Works of no list: shapes drawn from the families of works.txt, sizes of every kind, for bench_cpu --works.

    random_works.py [--seed S] [--count N] [--families A,B,...]
"""

import argparse
import math
import random


def size(rng, low, high):
    """Log-uniform; half of them round, as models have them, half whatever they are."""
    n = math.exp(rng.uniform(math.log(low), math.log(high)))
    unit = next(u for u in (64, 16, 8, 4, 1) if u <= n)
    return max(low, round(n / unit) * unit if rng.random() < 0.5 else round(n))


def matmul(rng):
    while True:
        m, k, n = (size(rng, 1, 2048) for _ in range(3))
        if 2e5 <= m * k * n <= 2e9:
            return f"{m}x{k}x{n}", f"MatMul(f32[{m},{k}], {rng.choice(['const ', ''])}f32[{k},{n}])"


def conv_spec(batch, channels, filters, image, kernel, strides=None, pads=None, dilations=None, group=1):
    """An operator string; image and kernel have an entry for each spatial dimension, the attributes may be left out."""
    dims = lambda *n: ",".join(map(str, n))
    attributes = [("group", group if group > 1 else None), ("strides", strides), ("pads", pads), ("dilations", dilations)]
    written = ", ".join(f"{k}={str(v).replace(' ', '')}" for k, v in attributes if v)
    return (f"Conv(f32[{dims(batch, channels, *image)}], const f32[{dims(filters, channels // group, *kernel)}]"
            + (f"; {written})" if written else ")"))


def conv(rng):
    while True:
        k, s = rng.choice([1, 1, 3, 3, 3, 5, 7]), rng.choice([1, 1, 2])
        c, o, hw = size(rng, 1, 512), size(rng, 8, 512), rng.randint(7, 128)
        if 1e6 <= c * o * k * k * (hw // s) ** 2 <= 1e9:
            return (f"{k}x{k}/{s}_{c}-{o}@{hw}",
                    conv_spec(1, c, o, [hw, hw], [k, k], [s, s], [k // 2] * 4))


def grouped(rng):
    while True:
        k, s, per = rng.choice([3, 3, 5]), rng.choice([1, 2]), rng.choice([1, 1, 1, 2, 4, 6, 8, 12, 16, 24, 32, 48])
        g, hw = size(rng, 2, 512 // per), rng.randint(7, 112)
        if 2e5 <= g * per * per * k * k * (hw // s) ** 2 <= 5e8:
            c = g * per
            return (f"g{g}_{k}x{k}/{s}_{c}@{hw}",
                    conv_spec(1, c, c, [hw, hw], [k, k], [s, s], [k // 2] * 4, group=g))


def form(rng):
    """Convolutions in less usual forms: along one or three dimensions, windows and images that are no squares, steps of 3,
    dilated windows, padding on one side, batches."""
    while True:
        rank = rng.choice([1, 1, 2, 2, 2, 2, 2, 3])
        image = [size(rng, {1: 64, 2: 7, 3: 5}[rank], {1: 4096, 2: 160, 3: 24}[rank]) for _ in range(rank)]
        kernel = [rng.choice([1, 2, 3, 3, 5, 7] if rank < 3 else [1, 3]) for _ in range(rank)]
        strides = [rng.choice([1, 1, 2, 3])] * rank
        dilations = [rng.choice([1, 1, 2, 4])] * rank
        pads = [rng.choice([0, d * (k - 1) // 2, d * (k - 1)]) for k, d in zip(kernel * 2, dilations * 2)]
        batch, c, o = rng.choice([1, 1, 2, 3, 8]), size(rng, 1, 256), size(rng, 1, 256)
        out = [(n + a + b - d * (k - 1) - 1) // s + 1
               for n, k, s, d, a, b in zip(image, kernel, strides, dilations, pads, pads[rank:])]
        if min(out) < 1 or not 1e6 <= batch * c * o * math.prod(kernel) * math.prod(out) <= 5e8:
            continue
        by = lambda n: "x".join(map(str, n))
        name = f"{by(kernel)}/{strides[0]}d{dilations[0]}_{batch}x{c}-{o}@{by(image)}"
        return name, conv_spec(batch, c, o, image, kernel, strides, pads, dilations)


def batched(rng):
    """Convolutions of many small images, as late layers and small models have them: a few of them depthwise."""
    while True:
        batch, hw, k, s = size(rng, 4, 256), size(rng, 1, 32), rng.choice([1, 3, 3, 3, 5]), rng.choice([1, 1, 1, 2])
        c, o, width = size(rng, 1, 512), size(rng, 4, 512), rng.choice([hw, hw, hw, size(rng, 1, 32)])
        group = c if rng.random() < 0.15 else 1
        o, out = (c if group > 1 else o), ((hw - 1) // s + 1) * ((width - 1) // s + 1)
        if 1e6 <= batch * c // group * o * k * k * out <= 5e8:
            return (f"b{batch}{f'g{group}' if group > 1 else ''}_{k}x{k}/{s}_{c}-{o}@{hw}x{width}",
                    conv_spec(batch, c, o, [hw, width], [k, k], [s, s], [k // 2] * 4, group=group))


def transposed(rng):
    """Convolutions that enlarge their images: along one, two or three dimensions, windows of any size, groups, and a few
    that are dilated or keep an image's size."""
    while True:
        rank, stride = rng.choice([1, 2, 2, 2, 2, 3]), rng.choice([1, 2, 2, 2, 3, 4])
        kernel = [rng.choice([stride, stride + 1, 2 * stride, 3, 5])] * rank
        dilation = rng.choice([1, 1, 1, 1, 2])
        image = [size(rng, {1: 64, 2: 5, 3: 4}[rank], {1: 4096, 2: 96, 3: 16}[rank]) for _ in range(rank)]
        group = rng.choice([1, 1, 1, 1, 2, 8])
        c, o = group * size(rng, 1, 512 // group), group * size(rng, 1, 256 // group)
        pad = rng.choice([0, (dilation * (kernel[0] - 1) + 1 - stride) // 2])
        more = rng.choice([0, stride - 1])
        if pad < 0 or not 1e6 <= c // group * o * math.prod(image) * math.prod(kernel) <= 5e8:
            continue
        by = lambda n: "x".join(map(str, n))
        dims = lambda *n: ",".join(map(str, n))
        attributes = [("group", group if group > 1 else None), ("strides", [stride] * rank),
                      ("pads", [pad] * 2 * rank if pad else None), ("output_padding", [more] * rank if more else None),
                      ("dilations", [dilation] * rank if dilation > 1 else None)]
        written = ", ".join(f"{k}={str(v).replace(' ', '')}" for k, v in attributes if v)
        return (f"t{by(kernel)}/{stride}d{dilation}g{group}_{c}-{o}@{by(image)}",
                f"ConvTranspose(f32[{dims(1, c, *image)}], const f32[{dims(c, o // group, *kernel)}]; {written})")


def rows(rng):
    m, n = size(rng, 1, 4096), size(rng, 16, 16384)
    m = max(1, min(m, 2**23 // n))
    if rng.random() < 0.5:
        return f"softmax_{m}x{n}", f"Softmax(f32[{m},{n}])"
    return f"layernorm_{m}x{n}", f"LayerNormalization(f32[{m},{n}], const f32[{n}], const f32[{n}])"


def memory(rng):
    kind = rng.choice(["sum", "transpose", "pool", "concat"])
    if kind == "sum":
        shape, axis = [size(rng, 4, 256) for _ in range(3)], rng.randrange(3)
        return f"sum{axis}_{'x'.join(map(str, shape))}", f"ReduceSum(f32[{','.join(map(str, shape))}], const i64[1]{{{axis}}})"
    if kind == "transpose":
        shape, perm = [size(rng, 4, 256) for _ in range(3)], [0, 1, 2]
        while perm == [0, 1, 2]:
            rng.shuffle(perm)
        return (f"perm{''.join(map(str, perm))}_{'x'.join(map(str, shape))}",
                f"Transpose(f32[{','.join(map(str, shape))}]; perm={perm})")
    c, hw = size(rng, 8, 256), rng.randint(14, 112)
    if kind == "pool":
        return (f"maxpool_{c}@{hw}",
                f"MaxPool(f32[1,{c},{hw},{hw}]; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1])")
    d = size(rng, 8, 256)
    return f"concat_{c}+{d}@{hw}", f"Concat(f32[1,{c},{hw},{hw}], f32[1,{d},{hw},{hw}]; axis=1)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--families", default="matmul,conv,conv,grouped,form,batched,transposed,rows,memory", help="drawn from in turn")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    known = {f.__name__: f for f in (matmul, conv, grouped, form, batched, transposed, rows, memory)}
    families = args.families.split(",")
    if unknown := set(families) - set(known):
        parser.error(f"no family is called {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    print(f"# {args.count} works, seed {args.seed}")
    drawn = set()
    for i in range(args.count):
        family = known[families[i % len(families)]]
        name, operator = family(rng)
        while name in drawn:
            name, operator = family(rng)
        drawn.add(name)
        print(f"{family.__name__:8} {name:28} {operator}")


if __name__ == "__main__":
    main()
