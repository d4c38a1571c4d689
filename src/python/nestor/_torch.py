"""Models of PyTorch, by way of its ONNX exporters."""

import os
from typing import Any, Dict, List, Mapping, Optional

from nestor._model import Model, compile


def from_torch(module: Any, example: Any, *, dynamo: Optional[bool] = None, **options: Any) -> Model:
    """Compiles a torch.nn.Module for inputs of the types and shapes of an example. Needs torch and onnx.

    example: a tensor, a tuple of arguments, or a dict of keyword arguments.
    dynamo: which exporter `torch.onnx.export` uses. True: the newer one, which needs onnxscript. False: the older one, which
        records one run, so that an `if` on a tensor's values keeps the branch of that run. Left out: the newer one where
        onnxscript is installed.
    options: those of `compile`.
    """
    import importlib.util
    import tempfile

    import torch

    given: Dict[str, Any] = dict(example) if isinstance(example, Mapping) else {}
    args = () if isinstance(example, Mapping) else example if isinstance(example, tuple) else (example,)
    if dynamo is None:
        dynamo = importlib.util.find_spec("onnxscript") is not None
    how: Dict[str, Any] = {"dynamo": dynamo, "kwargs": given}
    if not dynamo:
        how["input_names"] = _names(module, args, given)
    was_training = module.training
    module.eval()
    try:
        with tempfile.TemporaryDirectory(prefix="nestor-") as folder:
            path = os.path.join(folder, f"{type(module).__name__}.onnx")  # weights of more than 2 GB lie beside it
            torch.onnx.export(module, args, path, verbose=False, **how)
            return compile(path, **options)
    finally:
        module.train(was_training)


def _names(module: Any, args: Any, given: Mapping[str, Any]) -> Optional[List[str]]:
    """The parameters of `forward` that get tensors, in order; None where one gets something else."""
    import inspect

    import torch

    bound = inspect.signature(module.forward).bind(*args, **given).arguments
    return list(bound) if all(isinstance(value, torch.Tensor) for value in bound.values()) else None
