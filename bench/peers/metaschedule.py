#!/usr/bin/env python3
"""TVM's MetaSchedule on the operators of ../tune/gains.py: 64 trials each, one thread, from nothing.

    metaschedule.py [--trials 64] [--only GLOB] [--seed S]

Needs apache-tvm 0.27.0.post1, apache-tvm-ffi 0.1.14.post0, xgboost, psutil, cloudpickle and tornado from PyPI, in an
environment of their own. Prints a line for each: milliseconds of the best (the median of 20 runs of at least 50 ms), and how
long the tuning took. Run it and gains.py --operators one after the other: only their ratio on one machine means something.
"""

import argparse
import fnmatch
import tempfile
import time

import numpy as np
import tvm
from tvm import te, topi
from tvm.s_tir import meta_schedule as ms


def placeholder(name, *shape):
    return te.placeholder(shape, name=name, dtype="float32")


def matmul():
    a, b = placeholder("a", 512, 512), placeholder("b", 512, 512)
    k = te.reduce_axis((0, 512), "k")
    return [a, b, te.compute((512, 512), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")]


def conv():
    x, w = placeholder("x", 1, 256, 14, 14), placeholder("w", 256, 256, 3, 3)
    return [x, w, topi.nn.conv2d_nchw(x, w, 1, 1, 1)]


def depthwise():
    x, w = placeholder("x", 1, 96, 112, 112), placeholder("w", 96, 1, 3, 3)
    return [x, w, topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1)]


def layer_norm():
    x, scale, bias = placeholder("x", 128, 768), placeholder("scale", 768), placeholder("bias", 768)
    return [x, scale, bias, topi.nn.layer_norm(x, scale, bias, [1], 1e-5)]


def softmax():
    x = placeholder("x", 1536, 128)
    return [x, topi.nn.softmax(x, axis=1)]


OPERATORS = {"matmul_512": matmul, "conv3x3_256@14": conv, "depthwise_96@112": depthwise,
             "layer_norm_128x768": layer_norm, "softmax_1536x128": softmax}


def tuned(func, target, args):
    with tempfile.TemporaryDirectory() as folder:
        database = ms.tir_integration.tune_tir(mod=func, target=target, work_dir=folder, max_trials_global=args.trials,
                                               num_trials_per_iter=min(args.trials, 32), seed=args.seed)
        found = ms.tir_integration.compile_tir(database, func, target)
    return tvm.compile(found.mod, target=target)


def milliseconds(library, tensors):
    arrays = []
    for t in tensors:
        shape = [int(n) for n in t.shape]
        arrays.append(tvm.runtime.tensor(np.random.default_rng(1).standard_normal(shape).astype("float32")))
    timer = library.jit().time_evaluator("main", tvm.cpu(), number=1, repeat=20, min_repeat_ms=50)
    return timer(*arrays).median * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--only", default="*")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "num-cores": 1})
    print(f"TVM {tvm.__version__}, {target}")
    for name, make in OPERATORS.items():
        if not fnmatch.fnmatch(name, args.only):
            continue
        tensors = make()
        func = te.create_prim_func(tensors)
        begin = time.time()
        library = tuned(func, target, args)
        spent = time.time() - begin
        print(f"{name:20s} {milliseconds(library, tensors):8.4f} ms  tuned in {spent:.0f} s", flush=True)


if __name__ == "__main__":
    main()
