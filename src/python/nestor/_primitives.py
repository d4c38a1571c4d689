"""The primitives as methods, each made of its row in the compiler's one table. _primitives.pyi is made of the same rows. An
option that is a word of Python's has an underscore behind it: `from_`."""

from typing import Any, List, Optional, Sequence, Tuple, Union

from nestor import _nestor


def word(value: Any, kinds: Sequence[str] = ()) -> str:
    """An argument as a step writes it: text as it is, None in a list as _, a list in brackets; where a primitive of such
    `kinds` takes loops, a list of names as (i j), of a block's loops ["Y.i", "Y.j"] as Y (i j); of buffers, as X Y."""
    if isinstance(value, (list, tuple)):
        names = bool(value) and all(isinstance(v, str) for v in value)
        if names and "loops" in kinds:
            blocks = {v.rpartition(".")[0] for v in value}
            loops = "(" + " ".join(v.rpartition(".")[2] for v in value) + ")"
            return f"{blocks.pop()} {loops}".strip() if len(blocks) == 1 else "(" + " ".join(value) + ")"
        if names and "buffers" in kinds:
            return " ".join(value)
        return "[" + ", ".join("_" if v is None else word(v) for v in value) + "]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and "loops" in kinds and " " in value.strip() and "(" not in value:
        return f"({value})"
    return str(value)


class Primitives:
    """What a schedule can do with loops: `s.split("Y.i", [None, 8])`."""

    _native: Any


def _method(name: str, usage: str, summary: str, requirements: Sequence[str], options: Sequence[Tuple[str, str, str]],
            arguments: Sequence[Tuple[str, str]]) -> Any:
    kinds = [kind for _, kind in arguments]
    known = [key for key, _, _ in options] + (["decision"] if "->" in usage else [])

    def method(self: Any, *args: Any, results: "Union[str, List[str], Tuple[str, ...], None]" = None, **options: Any) -> Any:
        for key in options:
            if key.rstrip("_") not in known:
                raise TypeError(f"{name}() has no option {key}; blocks, loops and buffers are given in this order: {usage}")
        made = "" if not results else (results if isinstance(results, str) else " ".join(results)) + " = "
        decision = f" -> {word(options.pop('decision'))}" if "decision" in options else ""
        given = "".join(f" {key.rstrip('_')}={word(value)}" for key, value in options.items())
        self._native.step(f"{made}{name} {' '.join(word(a, kinds) for a in args)}{decision}{given}")
        return self

    method.__name__, method.__qualname__ = name, f"Schedule.{name}"
    lines = [summary, "", f"    {usage}", ""]
    lines += [f"{key}={values}: {meaning}" for key, values, meaning in options]
    if "->" in usage:
        lines += ["decision: what stands after `->`"]
    if requirements:
        lines += ["", "Requires:"] + [f"  {i}. {text}" for i, text in enumerate(requirements, 1)]
    method.__doc__ = "\n".join(lines).rstrip()
    return method


for _row in _nestor.primitives():
    setattr(Primitives, _row[0], _method(*_row[:6]))
