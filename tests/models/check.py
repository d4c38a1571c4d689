#!/usr/bin/env python3
"""Whole models through the command line, compared with ONNX Runtime.

    check.py NAME --nestor PATH --work FOLDER        NAME: digits mobilenet small light bert ordinary loops
"""

import argparse
import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from loops import loops_of_models as loops  # noqa: F401, found by its name
from ordinary import ordinary  # noqa: F401

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Checker:
    def __init__(self, nestor, work):
        self.nestor, self.work = nestor, work
        os.makedirs(work, exist_ok=True)

    def path(self, name):
        return os.path.join(self.work, name)

    def run(self, *args, expect=0):
        result = subprocess.run([self.nestor, *args], capture_output=True, text=True, check=False)
        if result.returncode != expect:
            sys.exit(f"nestor {' '.join(args)}\nexit code {result.returncode}, expected {expect}\n{result.stdout}{result.stderr}")
        return result.stdout + result.stderr

    def script(self, *args):
        subprocess.run([sys.executable, *args], check=True)

    def verify(self, model, name, atol, expect=0):
        return self.run("verify", model, "--input", "@" + self.path(name + "_input.npz"), "--expect",
                        self.path(name + "_expected.npz"), "--rtol", "0", "--atol", str(atol), expect=expect)


def proved(c, model, *more, too_long=0):
    """The default schedule of every function is proved, but for `too_long` whose proof takes longer than it may."""
    shown = c.run("verify", model, "--prove", *more)
    lines = [line for line in shown.splitlines() if not line.startswith("  not interpreted")]
    left = [line for line in lines if "the schedule is proved in" not in line]
    if not lines or len(left) > too_long or any("it took longer" not in line for line in left):
        sys.exit(f"{model} is not proved:\n" + "\n".join(left))
    print(f"{model}: {len(shown.splitlines())} schedules proved")


def allowed(checker, name):
    """1e-3 of the standard deviation of the outputs, which must vary for the comparison to mean something."""
    with np.load(checker.path(name + "_expected.npz")) as expected:
        deviation = min(float(expected[key].std()) for key in expected.files)
    if deviation < 0.5:
        sys.exit(f"{name}: the outputs hardly vary ({deviation})")
    return 1e-3 * deviation


def digits(c):
    folder = os.path.join(ROOT, "examples", "digits")
    held_out = np.load(os.path.join(folder, "heldout.npz"))
    images, labels = held_out["image"], held_out["label"]
    session = ort.InferenceSession(os.path.join(folder, "digits.onnx"), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"image": images})
    np.savez(c.path("digits_input.npz"), image=images)
    np.savez(c.path("digits_expected.npz"), probability=expected)
    for extension in ("json", "onnx"):
        model = os.path.join(folder, "digits." + extension)
        dim = f"batch={len(images)}"
        c.run("verify", model, "--dim", dim, "--input", "@" + c.path("digits_input.npz"), "--expect",
              c.path("digits_expected.npz"), "--atol", "1e-5")
        c.run("run", model, "--dim", dim, "--input", "@" + c.path("digits_input.npz"), "-o", c.path("out.npz"))
        got = np.load(c.path("out.npz"))["probability"]
        if not (got.argmax(1) == expected.argmax(1)).all():
            sys.exit("an image is classified otherwise than by ONNX Runtime")
        c.run("verify", model, "--dim", "batch=1", "--against", "lowered")
        c.run("verify", model, "--dim", "batch=3", "--against", "lowered")
        accuracy = (got.argmax(1) == labels).mean()
        print(f"digits.{extension}: held-out accuracy {accuracy:.3f}")
        if accuracy < 0.97:
            sys.exit("the accuracy is below 0.97")


def perturbed(c, name):
    """One weight of one convolution, changed by a tenth of the largest: a comparison that lets it pass shows nothing."""
    model = onnx.load(c.path(name + ".onnx"))
    weight = max((i for i in model.graph.initializer if len(i.dims) == 4), key=lambda i: int(np.prod(i.dims)))
    values = numpy_helper.to_array(weight).copy()
    values.flat[values.size // 2] += 0.1 * np.abs(values).max() + 1
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save(model, c.path(name + "_perturbed.onnx"))
    return c.path(name + "_perturbed.onnx")


def mobilenet(c):
    c.script(os.path.join(ROOT, "examples", "mobilenet", "make.py"), c.work)
    atol = allowed(c, "mobilenetv2")
    for extension in ("json", "onnx"):
        print(c.verify(c.path("mobilenetv2." + extension), "mobilenetv2", atol))
    proved(c, c.path("mobilenetv2.onnx"))
    proved(c, c.path("mobilenetv2.onnx"), "--target", "cuda:sm_80", too_long=4)
    print(c.verify(perturbed(c, "mobilenetv2"), "mobilenetv2", atol, expect=3))


def small(c):
    """Every function at small sizes: the machine agrees with the interpreted lowered function bit for bit."""
    c.script(os.path.join(ROOT, "examples", "mobilenet", "make.py"), c.work, "--size", "32")
    print(c.run("verify", c.path("mobilenetv2.onnx"), "--against", "lowered"))
    print(c.run("verify", c.path("mobilenetv2.onnx")))


def light(c):
    c.script(os.path.join(ROOT, "examples", "models", "light.py"), c.work)
    for name in ("squeezenet", "shufflenet", "resnet50"):
        for extension in ("json", "onnx"):
            print(c.verify(c.path(f"{name}.{extension}"), name, allowed(c, name)))
        proved(c, c.path(f"{name}.onnx"))


def bert(c):
    c.script(os.path.join(ROOT, "examples", "models", "bert_block.py"), c.work)
    for extension in ("json", "onnx"):
        print(c.verify(c.path("bert_block." + extension), "bert_block", allowed(c, "bert_block")))
    proved(c, c.path("bert_block.onnx"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=["digits", "mobilenet", "small", "light", "bert", "ordinary", "loops"])
    parser.add_argument("--nestor", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    globals()[args.name](Checker(args.nestor, args.work))


if __name__ == "__main__":
    main()
