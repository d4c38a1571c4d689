"""Runs the test_* functions of a script, each with a folder of its own, and goes on after one that fails."""
import sys
import tempfile
import time
from pathlib import Path


def run_tests(script, names=()):
    """`script`: its globals(); `names`: of the tests to run, all where none is given. Ends the process."""
    unknown = set(names) - set(script)
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}")
    failed = 0
    for name, test in list(script.items()):
        if not name.startswith("test_") or (names and name not in names):
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(Path(folder))
                print(f"ok      {name}  {time.monotonic() - begin:.1f} s")
            except Exception as error:  # the next test still says something
                failed += 1
                print(f"FAILED  {name}: {type(error).__name__}: {error}")
    sys.exit(1 if failed else 0)
