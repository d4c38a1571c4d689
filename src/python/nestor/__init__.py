"""Nestor compiles models and loop nests to machine code.

    import nestor, numpy as np
    m = nestor.compile("model.onnx", dims={"batch": 1})
    y = m(x)                       # NumPy arrays, or whatever speaks DLPack; nothing is copied
    m.save("model.so")             # an artifact that needs nothing of Nestor's

    f = nestor.func("MatMul(f32[512,512], f32[512,512])")
    s = f.schedule()
    s.split("Y.j", [None, 16])
    print(s)
"""

from nestor._errors import Error, InternalError, ScheduleError
from nestor._nestor import __version__
from nestor._model import Model, TensorInfo, compile, load
from nestor._schedule import Function, Schedule, Verification, func, functions
from nestor._torch import from_torch
from nestor._tune import TuneResult, tune

__all__ = ["Error", "Function", "InternalError", "Model", "Schedule", "ScheduleError", "TensorInfo", "TuneResult",
           "Verification", "compile", "from_torch", "func", "functions", "load", "tune"]
