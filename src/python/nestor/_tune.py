"""Tuning: searches for schedules that are faster than the default, on this machine."""

import os
import shlex
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from nestor import _nestor
from nestor._model import Spec, as_file, keywords


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


def show_progress(event: Dict[str, Any]) -> None:
    """One line on stderr that changes: the usual `progress` in a terminal."""
    sys.stderr.write("\r{left_s:5.0f} s left  {func:<28} default {default_us:.1f} us  best {best_us:.1f} us  {measured} "
                     "measured\x1b[K".format(**event))
    sys.stderr.flush()


def tune(model: Spec, db: "Union[str, os.PathLike[str]]", *, seconds: float = 60, trials: int = 0, seed: int = 0,
         workers: Union[int, Sequence[str]] = 1, families: Sequence[str] = (), schedules: Sequence[str] = (),
         progress: Optional[Callable[[Dict[str, Any]], None]] = None, **options: Any) -> List[TuneResult]:
    """Searches schedules for each function of a model and keeps every measurement in the database `db`, which
    `compile(..., db=db)` takes schedules from.

    model and the other options: as for `compile`.
    seconds: for everything. trials: candidates to measure at most, 0 for no limit.
    workers: processes on this machine, or commands that speak the worker's protocol.
    families: "any", "default"; all where none is given. schedules: paths of .sched files with sample_* steps.
    progress: called with a dict after each batch (func, measured, default_us, best_us, outcomes, elapsed_s, left_s); in a
        terminal a line is shown where it is left out.
    """
    if isinstance(families, str) or isinstance(schedules, (str, os.PathLike)) or isinstance(workers, str):
        raise TypeError("families, schedules and workers are lists: [\"any\"]")
    for family in families:
        if family not in ("any", "default"):
            raise ValueError(f"there is no family {family}: any, default")
    if trials < 0:
        raise ValueError("trials is negative")
    if isinstance(workers, int):
        if workers < 1:
            raise ValueError("workers must be 1 or more")
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
        workers = [f"{shlex.quote(sys.executable)} {shlex.quote(program)} worker"] * workers
    shows = progress is None and sys.stderr.isatty()
    with as_file(model) as spec:
        found = _nestor.tune(spec, keywords(**options), os.fspath(db), seconds, trials, seed, list(workers),
                             list(families), [os.fspath(s) for s in schedules], show_progress if shows else progress)
    if shows:
        sys.stderr.write("\n")
    return [TuneResult(**r) for r in found]
