"""What goes wrong, as exceptions. Their text is the whole diagnostic; its parts are attributes."""


class Error(Exception):
    """The input or the request is at fault.

    Attributes: `message` (one sentence), `notes` (why, a list of texts) and `hint` (what would work, where that is known).
    """

    message: str = ""
    notes: "list[str]" = []
    hint: str = ""


class ScheduleError(Error):
    """A step of a schedule is refused: `message` names the requirement that it breaks, a note shows where, `hint` has
    steps that would be taken."""


class InternalError(Exception):
    """A mistake of Nestor's. Please report it."""

    message: str = ""
    notes: "list[str]" = []
    hint: str = ""
