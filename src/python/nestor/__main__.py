"""`python -m nestor worker`: what a tuner started from Python has measure its candidates."""

import sys

from nestor import _nestor

if sys.argv[1:] == ["worker"]:
    sys.exit(_nestor.serve_worker())
sys.exit("usage: python -m nestor worker\nThe command line is a program of its own: nestor --help")
