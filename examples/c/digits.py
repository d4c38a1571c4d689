"""The C interface from Python, without Nestor: only ctypes and an artifact.

    nestor compile examples/digits/digits.json --dim batch=1 -o digits.so
    python3 examples/c/digits.py
"""

import ctypes

lib = ctypes.CDLL("./digits.so")
lib.digits_create.restype = ctypes.c_void_p

model = ctypes.c_void_p(lib.digits_create(None))
image = (ctypes.c_float * 64)(*[0.5] * 64)
probability = (ctypes.c_float * 10)()
inputs = (ctypes.c_void_p * 1)(ctypes.addressof(image))         # struct digits_inputs: one pointer for each input
outputs = (ctypes.c_void_p * 1)(ctypes.addressof(probability))  # struct digits_outputs
if lib.digits_run(model, inputs, outputs) != 0:
    raise SystemExit("digits_run failed")
lib.digits_destroy(model)
print(*(f"{p:.3f}" for p in probability))
