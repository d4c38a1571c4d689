"""docs/python.md, as a session of Python, and the programs of examples/python."""
import doctest
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77


def in_scratch_folder(test):
    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(folder, "examples"))
            before = os.getcwd()
            os.chdir(folder)
            try:
                test(self)
            finally:
                os.chdir(before)

    return run


class Docs(unittest.TestCase):
    @in_scratch_folder
    def test_the_page(self):
        with open(os.path.join(ROOT, "docs", "python.md")) as f:
            text = "".join("\n" if line.startswith("```") else line for line in f)
        session = doctest.DocTestParser().get_doctest(text, {}, "python.md", "docs/python.md", 0)
        self.assertGreater(len(session.examples), 20)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        told = []
        runner.run(session, out=told.append)
        self.assertEqual(runner.failures, 0, "".join(told))


def program(path):
    @in_scratch_folder
    def test(self):
        ran = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=100)
        if ran.returncode == SKIPPED:
            self.skipTest(ran.stderr.strip())
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    return test


for _path in glob.glob(os.path.join(ROOT, "examples", "python", "*.py")):
    setattr(Docs, "test_" + os.path.splitext(os.path.basename(_path))[0], program(_path))

if __name__ == "__main__":
    unittest.main()
