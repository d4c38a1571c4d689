"""The command line: `nestor` where the package is installed, `python -m nestor`, or this file, by which tuning starts workers."""

import os
import signal
import sys

if __name__ == "__main__":
    # As a file it is started by a package that may lie anywhere.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from nestor import _nestor, _tune  # noqa: F401: _tune says how workers are started


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the command line has its own ways
    sys.exit(_nestor._run_program(["nestor", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
