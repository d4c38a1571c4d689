"""Tuning: searches for schedules that are faster than the default, on this machine."""

import contextlib
import os
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, TextIO, Tuple, Union

from nestor import _nestor
from nestor._model import Spec, as_file, keywords_of, schedule_file


class TuneResult(NamedTuple):
    """What a search found for one function. Times are in microseconds."""

    func: str
    default_us: float
    best_us: float
    gain_beyond_noise: bool  # otherwise the default stays the best
    schedule: str  # of the best
    plan: str  # that it was made from, one line; "" where none
    outcomes: Dict[str, int]  # candidates by how they ended: "ok", "timeout" ...
    measured: int
    end: str  # why the search ended
    improvements: List[Tuple[float, float]]  # best so far: (seconds since the start, microseconds)


class ProgressBar:
    """`progress` as a bar on a stream, stderr where none is given: the time that has gone by, and the best so far."""

    def __init__(self, stream: Optional[TextIO] = None, trials: int = 0):
        self.stream, self.trials = stream or sys.stderr, trials

    def __call__(self, event: Dict[str, Any]) -> None:
        elapsed, left = event["elapsed_s"], event["left_s"]
        part = max(elapsed / max(elapsed + left, 1e-9), event["measured"] / self.trials if self.trials else 0)
        full = min(20, int(20 * part))
        gain = event["default_us"] / event["best_us"] if event["best_us"] > 0 else 1
        self.stream.write(f"\r[{'#' * full}{'-' * (20 - full)}] {left:4.0f} s left  {event['func'][:32]}: best "
                          f"{event['best_us']:.1f} us, {gain:.2f} x the default, {event['measured']} measured\x1b[K")
        self.stream.flush()

    def close(self) -> None:
        self.stream.write("\n")
        self.stream.flush()


_nestor.set_own_command([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")])


def tune(model: Spec, db: "Union[str, os.PathLike[str]]", *, seconds: float = 60, trials: int = 0, seed: int = 0,
         workers: Union[int, Sequence[str]] = 1, families: Sequence[str] = (), schedules: Sequence[Any] = (),
         progress: Union[bool, Callable[[Dict[str, Any]], None], None] = None, **options: Any) -> List[TuneResult]:
    """Searches schedules for each function of a model and keeps every measurement in the database `db`, which
    `compile(..., db=db)` takes schedules from.

    model and the other options: as for `compile`.
    seconds: for everything. trials: candidates to measure at most, 0 for no limit.
    workers: processes on this machine, or commands that speak the worker's protocol.
    families: "any", "default"; all where none is given. schedules: paths of .sched files with sample_* steps,
        or Schedules.
    progress: called with a dict after each batch (func, measured, default_us, best_us, outcomes, elapsed_s, left_s); or True
        for a bar on stderr, which a terminal shows where it is left out, or False.
    """
    if isinstance(families, str) or isinstance(schedules, (str, os.PathLike)) or isinstance(workers, str):
        raise TypeError("families, schedules and workers are lists: [\"any\"]")
    for family in families:
        if family not in ("any", "default"):
            raise ValueError(f"there is no family {family}: any, default")
    if trials < 0:
        raise ValueError("trials is negative")
    local, commands = (workers, []) if isinstance(workers, int) else (0, list(workers))
    if local < 1 and not commands:
        raise ValueError("workers must be 1 or more")
    bar = ProgressBar(trials=trials) if progress is True or (progress is None and sys.stderr.isatty()) else None
    try:
        with as_file(model) as spec, contextlib.ExitStack() as files:
            paths = [os.fspath(files.enter_context(schedule_file(s))) for s in schedules]
            found = _nestor.tune(spec, keywords_of("tune", options), os.fspath(db), seconds, trials, seed, local, commands,
                                 list(families), paths, bar or progress or None)
    finally:
        if bar:
            bar.close()
    return [TuneResult(**r) for r in found]
