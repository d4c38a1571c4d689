"""Models: compiled, loaded, called."""

import atexit
import contextlib
import operator
import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from nestor import _nestor
from nestor._errors import Error

Spec = Union[str, "os.PathLike[str]", bytes, Mapping[str, Any], Any]


atexit.register(_nestor._end)
os.register_at_fork(before=_nestor._before_fork, after_in_parent=_nestor._after_fork,
                    after_in_child=_nestor._after_fork_in_child)


class TensorInfo(NamedTuple):
    """An input or output of a model."""

    name: str
    dtype: str  # "f32", "i64" ...
    shape: Tuple[Union[int, str], ...]  # a name where calls decide the size: "batch"


def keywords(target: str = "native", threads: int = 0, dims: Optional[Mapping[str, Any]] = None,
             const: Optional[Mapping[str, Any]] = None, db: "Union[str, os.PathLike[str], None]" = None, schedule: Any = None,
             ops: Sequence["Union[str, os.PathLike[str]]"] = (), exact_conv: bool = False,
             check_indices: bool = False, max_trips: int = 0) -> _nestor.ModelKeywords:
    """What `compile`, `func` and `tune` share, as the compiled module takes it."""
    k = _nestor.ModelKeywords()
    for name, value, kind in [("target", target, str), ("threads", threads, int), ("dims", dims or {}, Mapping),
                              ("const", const or {}, Mapping)]:
        if not isinstance(value, kind):
            raise TypeError(f"{name} is of type {type(value).__name__}, not {'dict' if kind is Mapping else kind.__name__}")
    k.target, k.threads = target, threads
    sizes, shapes, open_sizes = {}, {}, {}
    for name, value in (dims or {}).items():
        try:
            if isinstance(value, (tuple, list)):
                shapes[name] = [operator.index(v) for v in value]
            elif isinstance(value, str) and (".." in value or "~" in value):
                open_sizes[name] = value
            else:
                sizes[name] = operator.index(value)
        except TypeError:
            raise TypeError(f'dims["{name}"] is {value!r}: give an integer, a range as "1..64", or the shape of an input as a tuple') from None
    k.dims, k.shapes, k.open = sizes, shapes, open_sizes
    k.constants = dict(const or {})
    k.db = os.fspath(db) if db is not None else ""
    k.schedule = os.fspath(schedule) if schedule is not None else ""
    if isinstance(ops, (str, os.PathLike)):
        raise TypeError('ops is a list of paths: ["rms_norm.nest"]')
    k.ops = [os.fspath(path) for path in ops]
    k.exact_conv, k.check_indices, k.max_trips = exact_conv, check_indices, operator.index(max_trips)
    return k


def chosen_sizes(specialize: Optional[Mapping[str, Any]]) -> Dict[str, List[int]]:
    """Of each size, the values that get kernels of their own."""
    if not isinstance(specialize or {}, Mapping):
        raise TypeError(f"specialize is of type {type(specialize).__name__}, not dict")
    out = {}
    for name, values in (specialize or {}).items():
        try:
            out[name] = [operator.index(v) for v in (values if isinstance(values, (tuple, list, range)) else [values])]
        except TypeError:
            out[name] = []
        if not out[name]:
            raise TypeError(f'specialize["{name}"] is {values!r}: give integers, as [1, 8]')
    return out


def keywords_of(function: str, options: Mapping[str, Any]) -> _nestor.ModelKeywords:
    """Those that `function` was given besides its own."""
    try:
        return keywords(**options)
    except TypeError as e:
        raise TypeError(str(e).replace("keywords()", f"{function}()")) from None


@contextlib.contextmanager
def as_file(spec: Spec) -> Iterator[str]:
    """The path or operator text of a model; what is held in memory is written to a temporary file for the while."""
    if hasattr(spec, "SerializeToString"):  # onnx.ModelProto
        spec = spec.SerializeToString()
    if isinstance(spec, (str, os.PathLike)):
        text = os.fspath(spec)
        if isinstance(spec, str) and "func " in text and "{" in text and "\n" in text.strip():
            ending, data = ".nest", text.encode()
        else:
            yield text
            return
    elif isinstance(spec, (bytes, bytearray, memoryview)):
        ending, data = ".onnx", bytes(spec)
    elif isinstance(spec, Mapping):
        import json

        ending, data = ".json", json.dumps(spec).encode()
    else:
        raise TypeError(f"a {type(spec).__name__} is no model: give a path, an operator as text, the text of a function, an "
                        "onnx.ModelProto, its bytes, or a graph as a dict")
    import tempfile  # here, since importing nestor should take no longer than it must

    with tempfile.TemporaryDirectory(prefix="nestor-") as folder:
        path = os.path.join(folder, "model" + ending)
        with open(path, "wb") as f:
            f.write(data)
        try:
            yield path
        except Error as e:
            raise e.without(folder + os.sep)


@contextlib.contextmanager
def schedule_file(schedule: Any) -> Iterator[Any]:
    """What `schedule` names; a Schedule is written to a temporary file for the while."""
    if not hasattr(schedule, "steps"):
        yield schedule
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="nestor-") as folder:
        path = os.path.join(folder, schedule.name + ".sched")
        with open(path, "w") as f:
            f.write("".join([f"schedule {schedule.name} {{\n", *(f"  {step}\n" for step in schedule.steps), "}\n"]))
        yield path


class Model:
    """A model that can be called: `y = m(x)`, `y = m(image=x)`, `m(x, out=y)`.

    Inputs are arrays of the model's types and shapes in the machine's memory: NumPy's, PyTorch's, JAX's, whatever speaks
    DLPack. They are read where they are; an array that doesn't lie row major is copied first. Outputs are new NumPy arrays,
    or the arrays given as `out` (one, or a tuple of them). One output is returned as it is, several as a tuple in the order
    of `outputs`. An array given as `out` shares no memory with an input or another output. Several Python threads may call one model: its runs come one after the other, without the interpreter's lock.
    """

    def __init__(self, native: Any):
        self._native = native
        self.inputs: List[TensorInfo] = [TensorInfo(*t) for t in native._inputs]
        self.outputs: List[TensorInfo] = [TensorInfo(*t) for t in native._outputs]

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        return self._native(*arrays, **named)

    def run(self, inputs: Mapping[str, Any]) -> Dict[str, Any]:
        """Outputs by name, of inputs by name; for names that can't be keywords."""
        known = [t.name for t in self.inputs]
        for name in inputs:
            if name not in known:
                raise TypeError(f"there is no input `{name}`: the inputs are {', '.join(f'`{k}`' for k in known)}")
        for name in known:
            if name not in inputs:
                raise TypeError(f"input `{name}` isn't given")
        out = self._native(*[inputs[name] for name in known])
        return dict(zip([t.name for t in self.outputs], out if isinstance(out, tuple) else (out,)))

    @property
    def name(self) -> str:
        return self._native.name

    @property
    def threads(self) -> int:
        return self._native.threads

    @property
    def functions(self) -> List[Tuple[str, str]]:
        """(name, origin of its schedule) of each compiled function; of a loaded artifact none are known."""
        return self._native._functions

    def save(self, path: "Union[str, os.PathLike[str]]", name: str = "") -> None:
        """Writes an artifact, a shared object, and beside it a C header. `name`: prefix of its C functions; left out, the
        file's name. `nestor.load` reads it back; programs in C need nothing else."""
        self._native.save(os.fspath(path), name)

    def __repr__(self) -> str:
        def listed(tensors: Sequence[TensorInfo]) -> str:
            return ", ".join(f"{t.name}: {t.dtype}[{','.join(map(str, t.shape))}]" for t in tensors)

        return f"<nestor.Model {self.name}({listed(self.inputs)}) -> ({listed(self.outputs)})>"


def compile(model: Spec, *, target: str = "native", threads: int = 0, dims: Optional[Mapping[str, Any]] = None,
            const: Optional[Mapping[str, Any]] = None, db: "Union[str, os.PathLike[str], None]" = None,
            schedule: Any = None, ops: Sequence["Union[str, os.PathLike[str]]"] = (), exact_conv: bool = False,
             check_indices: bool = False, max_trips: int = 0, specialize: Optional[Mapping[str, Any]] = None) -> Model:
    """Compiles a model for this machine.

    model: the path of an .onnx, a .json or a .nest; an operator as text, "MatMul(f32[8,8], f32[8,8])"; the text of a
        function; an onnx.ModelProto or its bytes; a graph as a dict (docs: JSON).
    target: "native", "x86-64-v3", "x86-64-v4" ..., which this machine runs; for others, `nestor compile` makes artifacts.
    threads: of a run; 0 for as many as there are cores.
    dims: values of sizes that the model leaves open, {"batch": 1}, or an input's shape, {"x": (1, 3, 224, 224)}. Sizes without
        a value are decided by each call; {"seq": "1..512~128"} says their bounds, and what is usual.
    const: inputs or weights known now, {"W": array}.
    db: a database of tuning records to take schedules from.
    schedule: "default", "naive", "tuned" (by db, which is usual where it is given), the path of a .sched file, or a Schedule of
        a function of the model; other functions have theirs of db, or their default.
    ops: paths of .nest files, each function of which is an operator that the model may use. They stay known to this process.
    exact_conv: no Winograd: convolutions are sums of products.
    check_indices: indices out of range (Gather, Scatter ...) raise an Error; without it they are clamped.
    max_trips: a call fails where a loop whose end isn't known when compiling goes on for more iterations; 0: any number.
    specialize: values that sizes without a value often have, {"batch": [1, 8]}: calls of each combination of them are as fast
        as those of a model compiled for it.

    Raises Error where the model can't be read or isn't supported; its text says what would work.
    """
    with as_file(model) as spec, schedule_file(schedule) as steps:
        k = keywords(target, threads, dims, const, db, steps, ops, exact_conv, check_indices, max_trips)
        k.specialize = chosen_sizes(specialize)
        return Model(_nestor.compile(spec, k))


def load(path: "Union[str, os.PathLike[str]]", *, threads: int = 0) -> Model:
    """An artifact that `Model.save` or `nestor compile` made. threads: 0 for as many as it was compiled for, which are the
    most it can have."""
    return Model(_nestor.load(os.fspath(path), threads))
