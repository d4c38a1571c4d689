"""Functions and schedules: loop nests, and what is done to them step by step."""

import os
from typing import Any, List, NamedTuple, Tuple, Union

from nestor import _nestor
from nestor._errors import Error
from nestor._model import Spec, as_file, keywords_of
from nestor._primitives import Primitives


class Verification(NamedTuple):
    """Whether a schedule is right, and what says so."""

    ok: bool
    text: str

    def __bool__(self) -> bool:
        return self.ok


class Timing(NamedTuple):
    """Microseconds of a call."""

    median: float
    samples: List[float]

    def __repr__(self) -> str:
        return f"median {self.median:.2f} us of {len(self.samples)} samples"


class Schedule(Primitives):
    """A function with the steps applied so far. Each primitive is a method: `s.split("Y.i", [None, 8], tail="mask")` is the
    step `split Y.i [_, 8] tail=mask`; `s("step as text")` is the same for any step. `results=["i0", "i1"]` names what a step makes.
    A step that would change what the function computes, or has no meaning, raises ScheduleError and leaves all as it was.
    """

    def __init__(self, native: Any):
        self._native = native

    def __call__(self, *lines: str) -> "Schedule":
        """Applies steps as text, one or several lines each: all of them, or none where one is refused."""
        trial = self._native.copy()
        for text in lines:
            for line in text.splitlines():
                if line.split("#")[0].strip():
                    trial.step(line)
        self._native = trial
        return self

    def __str__(self) -> str:
        return str(self._native).rstrip()

    def __repr__(self) -> str:
        count = len(self.steps)
        return f"<nestor.Schedule of {self.name}, {count} step{'' if count == 1 else 's'}>"

    @property
    def name(self) -> str:
        """Of the function."""
        return self._native.name

    @property
    def text(self) -> str:
        """The schedule as a .sched file holds it."""
        return self._native.text

    @property
    def steps(self) -> List[str]:
        return [step for step, _ in self._native.steps]

    def why(self) -> str:
        """The steps with the reasons of the default schedule."""
        return "\n".join(step + (f"\n    because {reason}" if reason else "") for step, reason in self._native.steps)

    def loops(self, block: str) -> List[Tuple[str, int]]:
        """(name, extent) of the loops around a block, outermost first; -1 where an extent isn't constant."""
        return self._native.loops(block)

    def bench(self, seconds: float = 0.3) -> Timing:
        """Times the compiled function on random inputs, after its results were compared with the oracle's."""
        samples = [ns / 1e3 for ns in self._native.bench(seconds)]
        return Timing(sorted(samples)[len(samples) // 2], samples)

    def verify(self, seed: int = 1) -> Verification:
        """Proves the steps, or else runs them; and compares compiled code with the unscheduled loop nest in f64."""
        return Verification(*self._native.verify(seed))

    def lowered(self) -> str:
        """The loop nest as the code generator gets it."""
        return self._native.stage("lowered", "")

    def llvm(self) -> str:
        """LLVM IR, optimized."""
        return self._native.stage("llvm", "")

    def asm(self) -> str:
        """Assembly for the function's target."""
        return self._native.stage("asm", "")

    def cuda(self, target: str = "") -> str:
        """CUDA C++ of a schedule that binds its loops to blocks and threads. target: "cuda:sm_80"; left out, the function's."""
        return self._native.stage("cuda", target)

    def _repr_html_(self) -> str:
        import html

        rows = []
        colours = {"+": "#1a7f37", "-": "#cf222e", "~": "#6e7781"}
        for step, why, diff in self._native.walk():
            lines = "".join(f'<span style="color:{colours.get(line[:1], "inherit")}">{html.escape(line)}</span>\n'
                            for line in diff.splitlines())
            reason = f"<div><i>because {html.escape(why)}</i></div>" if why else ""
            rows.append(f"<details><summary><code>{html.escape(step)}</code></summary>{reason}<pre>{lines}</pre></details>")
        return f"{''.join(rows)}<pre>{html.escape(str(self))}</pre>"


class Function:
    """A loop nest over tensors."""

    def __init__(self, native: Any):
        self._native = native

    @property
    def name(self) -> str:
        return self._native.name

    @property
    def blocks(self) -> List[str]:
        return self._native.blocks

    def __str__(self) -> str:
        return str(self._native).rstrip()

    def __repr__(self) -> str:
        return f"<nestor.Function {self.name} for {self._native.target}>"

    def schedule(self, steps: "Union[str, os.PathLike[str]]" = "") -> Schedule:
        """A schedule of this function: empty or "naive", "default" for the analytic one, or a .sched file's path or text."""
        if isinstance(steps, os.PathLike) or steps.endswith(".sched"):
            with open(steps) as f:
                steps = f.read()
        return Schedule(self._native._schedule(steps))

    def bench(self, schedule: Union[Schedule, str] = "default", seconds: float = 0.3) -> Timing:
        """`Schedule.bench` of a schedule of this function, or of what `schedule` takes."""
        return self._of(schedule).bench(seconds)

    def verify(self, schedule: Union[Schedule, str] = "default", seed: int = 1) -> Verification:
        """`Schedule.verify` of a schedule of this function, or of what `schedule` takes."""
        return self._of(schedule).verify(seed)

    def cuda(self, schedule: Union[Schedule, str] = "default", target: str = "") -> str:
        """CUDA C++ of a schedule; of a text, "default" say, for that target where one is given ("cuda:sm_80")."""
        of = Function(self._native._for(target)) if target and not isinstance(schedule, Schedule) else self
        return of._of(schedule).cuda(target)

    def _of(self, schedule: Union[Schedule, str]) -> Schedule:
        if not isinstance(schedule, Schedule):
            return self.schedule(schedule)
        if str(schedule._native.function) != str(self._native):
            raise ValueError(f"this is a schedule of another function, {schedule._native.name}")
        return schedule


def functions(model: Spec, **options: Any) -> List[Function]:
    """The functions that a model is made of, before they are scheduled. Options are those of `compile`."""
    with as_file(model) as spec:
        return [Function(f) for f in _nestor.functions(spec, keywords_of("functions", options))]


def func(model: Spec, **options: Any) -> Function:
    """The one function of an operator, "MatMul(f32[64,64], f32[64,64])", of a .nest file or of the text of a function."""
    found = functions(model, **options)
    if len(found) != 1:
        raise Error(f"{len(found)} functions, not one: nestor.functions gives {', '.join(f.name for f in found) or 'none'}")
    return found[0]
