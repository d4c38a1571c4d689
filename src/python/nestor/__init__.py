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

from typing import TYPE_CHECKING, Any, List

from nestor._errors import Error, InternalError, ScheduleError

if TYPE_CHECKING:
    from nestor._model import Model, TensorInfo, compile, load
    from nestor._nestor import __version__
    from nestor._schedule import Function, Schedule, Verification, func, functions
    from nestor._torch import from_torch
    from nestor._tune import TuneResult, tune

__all__ = ["Error", "Function", "InternalError", "Model", "Schedule", "ScheduleError", "TensorInfo", "TuneResult",
           "Verification", "compile", "from_torch", "func", "functions", "load", "tune"]

# The compiled half loads LLVM, so it is imported where one of these is first used.
_WHERE = {"Model": "_model", "TensorInfo": "_model", "compile": "_model", "load": "_model", "Function": "_schedule",
          "Schedule": "_schedule", "Verification": "_schedule", "func": "_schedule", "functions": "_schedule",
          "from_torch": "_torch", "TuneResult": "_tune", "tune": "_tune", "__version__": "_nestor"}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'nestor' has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module("nestor." + _WHERE[name]), name)
    return value


def __dir__() -> List[str]:
    return sorted([*globals(), *_WHERE])
