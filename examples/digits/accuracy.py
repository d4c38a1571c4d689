#!/usr/bin/env python3
"""Classifies the 500 held-out digits with Nestor and with ONNX Runtime, image by image.

    accuracy.py NESTOR          the nestor binary
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = os.path.dirname(os.path.abspath(__file__))
    held_out = np.load(os.path.join(folder, "heldout.npz"))
    images, labels = held_out["image"], held_out["label"]
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "out.npz")
        subprocess.run([sys.argv[1], "run", os.path.join(folder, "digits.json"), "--dim", f"batch={len(images)}", "--input",
                        "image=@" + os.path.join(folder, "heldout.npz") + ":image", "-o", out],
                       check=True, stdout=subprocess.DEVNULL)
        ours = np.load(out)["probability"].argmax(1)
    session = ort.InferenceSession(os.path.join(folder, "digits.onnx"), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"image": images})[0].argmax(1)
    right, same = int((ours == labels).sum()), int((ours == theirs).sum())
    print(f"held-out images: {len(labels)}   right: {right} ({100 * right / len(labels):.1f} %)   "
          f"same answer as ONNX Runtime {ort.__version__}: {same}")
    sys.exit(0 if same == len(labels) else 1)


if __name__ == "__main__":
    main()
