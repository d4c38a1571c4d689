"""`python -m nestor worker`: what a tuner started from Python has measure its candidates."""

import os
import sys

# As a file it is started by a package that may lie anywhere.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from nestor import _nestor  # noqa: E402

if sys.argv[1:] == ["worker"]:
    sys.exit(_nestor.serve_worker())
sys.exit("usage: python -m nestor worker\nThe command line is a program of its own: nestor --help")
