"""What goes wrong, as exceptions. Their text is the whole diagnostic; its parts are attributes."""

import re
from typing import List

# What the compiler says of options, it says in the words of the command line.
_IN_PYTHON = [(re.compile(pattern), words) for pattern, words in [
    (r"nestor compile --target native makes one", 'nestor.compile(model).save("m.so") makes one'),
    (r"`?nestor tune MODEL --db (\S+?)`? makes one", r'nestor.tune(model, "\1") makes one'),
    (r"--dim (\S+?)=\.\.\.", r'dims={"\1": ...}'),
    (r"--dim (\S+?)=(\d+(?:,\d+)+)", r'dims={"\1": (\2)}'),
    (r"--dim (\S+?)=(-?\w+)", r'dims={"\1": \2}'),
    (r"--specialize (\S+?)=(-?\d+)", r'specialize={"\1": [\2]}'),
    (r"--const (\S+?)=@(\S+\.np[yz])", r'const={"\1": numpy.load("\2")}'),
    (r"--const (\S+?)=([^\s,;]+)", r'const={"\1": \2}'),
    (r"--schedule (\S+)", r'schedule="\1"'),
    (r"--op (\S+)", r'ops=["\1"]'),
    (r"--target ([\w:.,-]+)", r'target="\1"'),
    (r"--db (\S+\.db)", r'db="\1"'),
    (r"--(exact-conv|check-indices)\b", lambda m: m[1].replace("-", "_") + "=True"),
    (r"--dim\b", "dims"),
    (r"--op\b", "ops"),
    (r"--(const|db|threads|workers|families|target|schedule|specialize)\b", r"\1"),
    (r"\} (dims|const)=\{", ", "),  # dims={"a": 1} dims={"b": 2}
    (r"(--[a-z][\w-]*)", r"the command line's \1"),
]]


def in_python(text: str) -> str:
    """The text with options as keywords: `--dim batch=1` is `dims={"batch": 1}`."""
    if "--" in text:
        for pattern, words in _IN_PYTHON:
            text = pattern.sub(words, text)
    return text


class Error(Exception):
    """The input or the request is at fault.

    Attributes: `message` (one sentence), `notes` (why, a list of texts) and `hint` (what would work, where that is known).
    """

    message: str = ""
    notes: List[str] = []
    hint: str = ""

    def without(self, text: str) -> "Error":
        """The same error where it doesn't say `text`: the folder of a temporary file."""
        self.args = tuple(a.replace(text, "") if isinstance(a, str) else a for a in self.args)
        self.message, self.hint = self.message.replace(text, ""), self.hint.replace(text, "")
        self.notes = [note.replace(text, "") for note in self.notes]
        return self


class ScheduleError(Error):
    """A step of a schedule is refused: `requirement` says which of the primitive's it breaks, `witness` why (often two
    iterations that conflict), a note shows where, `hint` has steps that would be taken, one a line."""

    @property
    def requirement(self) -> str:
        """As the primitive's documentation has it; the whole message where no requirement is named."""
        found = re.search(r" breaks requirement \S+ of .*?: (.*)", self.message, re.S)
        return found[1] if found else self.message

    @property
    def witness(self) -> str:
        return self.notes[0] if self.notes and not self.notes[0].startswith("here:") else ""


class InternalError(Exception):
    """A mistake of Nestor's. Please report it."""

    message: str = ""
    notes: List[str] = []
    hint: str = ""
