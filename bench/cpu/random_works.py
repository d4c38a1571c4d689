#!/usr/bin/env python3
"""Works of no list: shapes drawn from the families of works.txt, sizes of every kind, for bench_cpu --works.

    random_works.py [--seed S] [--count N]
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


def conv(rng):
    while True:
        k, s = rng.choice([1, 1, 3, 3, 3, 5, 7]), rng.choice([1, 1, 2])
        c, o, hw = size(rng, 3, 512), size(rng, 8, 512), rng.randint(7, 128)
        if 1e6 <= c * o * k * k * (hw // s) ** 2 <= 1e9:
            p = k // 2
            return (f"{k}x{k}/{s}_{c}-{o}@{hw}",
                    f"Conv(f32[1,{c},{hw},{hw}], const f32[{o},{c},{k},{k}]; strides=[{s},{s}], pads=[{p},{p},{p},{p}])")


def grouped(rng):
    while True:
        k, s, per = rng.choice([3, 3, 5]), rng.choice([1, 2]), rng.choice([1, 1, 1, 4, 8, 16])
        g, hw = size(rng, 8, 512 // per), rng.randint(7, 112)
        if 2e5 <= g * per * per * k * k * (hw // s) ** 2 <= 5e8:
            p, c = k // 2, g * per
            return (f"g{g}_{k}x{k}/{s}_{c}@{hw}",
                    f"Conv(f32[1,{c},{hw},{hw}], const f32[{c},{per},{k},{k}]; group={g}, strides=[{s},{s}], "
                    f"pads=[{p},{p},{p},{p}])")


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
    args = parser.parse_args()
    rng = random.Random(args.seed)
    families = [matmul, conv, conv, grouped, rows, memory]
    print(f"# {args.count} works, seed {args.seed}")
    for i in range(args.count):
        family = families[i % len(families)]
        name, operator = family(rng)
        print(f"{family.__name__:8} {name:28} {operator}")


if __name__ == "__main__":
    main()
