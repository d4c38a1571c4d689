"""The package in its process: Ctrl-C, forks, threads at the end, the memory of outputs, and the command line."""
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

PATIENCE = 5  # seconds, of a machine that does other things too; what is interrupted would take far longer


def python(code, *args, timeout=100, **options):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code), *args], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, **options)


INTERRUPTED = """
    import os, signal, sys, threading, time
    import nestor
    {before}
    sent = []
    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(0.7, send).start()
    try:
        {call}
        print("it ended by itself")
    except KeyboardInterrupt:
        print("late by", time.monotonic() - sent[0])
    m = nestor.compile("Relu(f32[4])", threads=1)  # all works on
    import numpy as np
    print(m(np.array([-1, 2, -3, 4], "float32")))
"""
LONG_MODEL = """
    nodes = [{"op": "MatMul", "inputs": [f"x{i}", f"w{i}"], "outputs": [f"x{i + 1}"]} for i in range(400)]
    inputs = [{"name": "x0", "dtype": "f32", "shape": [65, 101]}]
    inputs += [{"name": f"w{i}", "dtype": "f32", "shape": [101 + i, 102 + i]} for i in range(400)]
    model = {"opset": 17, "inputs": inputs, "nodes": nodes, "outputs": ["x400"]}
"""


class CtrlC(unittest.TestCase):
    def interrupts(self, call, before=""):
        before = textwrap.indent(textwrap.dedent(before), "    ").strip()
        ran = python(INTERRUPTED.format(call=call, before=before))
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        lines = ran.stdout.splitlines()
        self.assertTrue(lines[0].startswith("late by"), ran.stdout + ran.stderr)
        self.assertLess(float(lines[0].split()[-1]), PATIENCE)
        self.assertEqual(lines[1], "[0. 2. 0. 4.]")

    def test_compiling(self):
        self.interrupts("nestor.compile(model, threads=1)", LONG_MODEL)

    def test_verifying(self):
        self.interrupts("s.verify()", 's = nestor.func("MatMul(f32[3000,3000], f32[3000,3000])", threads=1).schedule("default")')

    def test_timing(self):
        self.interrupts("s.bench(seconds=60)", 's = nestor.func("MatMul(f32[900,900], f32[900,900])", threads=1).schedule()')

    def test_tuning(self):
        self.interrupts('nestor.tune("MatMul(f32[512,512], f32[512,512])", sys.argv[0] + "t.db", seconds=60, threads=1)',
                        "import tempfile; folder = tempfile.TemporaryDirectory(); sys.argv[0] = folder.name + os.sep")


class Forks(unittest.TestCase):
    CHILD = """
        import multiprocessing, os, sys, tempfile, threading
        import numpy as np
        import nestor
        m = nestor.compile("MatMul(f32[256,256], f32[256,256])", threads=2)
        {loaded}
        a = np.random.default_rng(1).standard_normal((256, 256)).astype("float32")
        want = m(a, a)
        def child(answers):
            answers.put([np.array_equal(m(a, a), want) for _ in range(20)] + [nestor.compile("Neg(f32[2])")(want[0, :2])[0] == -want[0, 0]])
        going = True
        def busy():
            while going:
                m(a, a)
        threads = [threading.Thread(target=busy) for _ in range({busy})]
        for t in threads: t.start()
        context = multiprocessing.get_context("fork")
        for _ in range(5):
            answers = context.Queue()
            p = context.Process(target=child, args=(answers,))
            p.start()
            print(all(answers.get(timeout=60)))
            p.join()
        going = False
        for t in threads: t.join()
        print(np.array_equal(m(a, a), want))
    """

    def forks(self, busy, loaded=""):
        ran = python(self.CHILD.format(busy=busy, loaded=loaded))
        self.assertEqual(ran.stdout.split(), ["True"] * 6, ran.stdout + ran.stderr)

    def test_a_child_runs_the_model(self):
        self.forks(0)

    def test_beside_threads_that_run(self):
        self.forks(2)

    def test_an_artifact(self):
        self.forks(2, 'folder = tempfile.mkdtemp(); m.save(folder + "/m.so"); m = nestor.load(folder + "/m.so"); '
                      'import shutil; shutil.rmtree(folder)')


class TheEnd(unittest.TestCase):
    def test_daemon_threads_go_quietly(self):
        for _ in range(5):
            ran = python("""
                import threading, time
                import numpy as np
                import nestor
                m = nestor.compile("MatMul(f32[64,64], f32[64,64])", threads=1)
                a = np.ones((64, 64), "float32")
                def busy():
                    while True: m(a, a)
                for _ in range(3): threading.Thread(target=busy, daemon=True).start()
                time.sleep(0.2)
                print("over")
            """)
            self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "over\n", ""))

    def test_a_daemon_thread_that_compiles(self):
        ran = python("""
            import threading, time
            import nestor
            def busy():
                while True: nestor.compile("MatMul(f32[64,64], f32[64,64])", threads=1)
            threading.Thread(target=busy, daemon=True).start()
            time.sleep(0.3)
            print("over")
        """)
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "over\n", ""))


class Memory(unittest.TestCase):
    def test_outputs_go_back_to_the_system(self):
        ran = python("""
            import numpy as np
            import nestor
            def resident():
                with open("/proc/self/statm") as f:
                    return int(f.read().split()[1]) * 4096 / 2**20
            m = nestor.compile("Relu(f32[1000,1000])", threads=1)
            x = np.ones((1000, 1000), "float32")
            m(x)
            before = resident()
            kept = [m(x) for _ in range(100)]
            small = [np.empty(1000) for _ in range(100)]
            assert resident() > before + 300
            del kept
            print(resident() - before < 30)
            y = m(x)
            y[0, 0] = 7
            z = m(x)
            print(y[0, 0] == 7 and z[0, 0] == 1)
        """)
        self.assertEqual(ran.stdout.split(), ["True", "True"], ran.stdout + ran.stderr)


class CommandLine(unittest.TestCase):
    def nestor(self, *words):
        return subprocess.run([sys.executable, "-m", "nestor", *words], capture_output=True, text=True, timeout=100)

    def test_it_is_the_program(self):
        ran = self.nestor("inspect", "Relu(f32[8])", "--stage", "func")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("func relu(", ran.stdout)
        ran = self.nestor("compile", "Relu(f32[8])")
        self.assertEqual(ran.returncode, 2, ran.stdout)
        self.assertIn("--output is required", ran.stderr)
        with tempfile.TemporaryDirectory() as folder:
            ran = self.nestor("tune", "Softmax(f32[64,100])", "--db", folder + "/t.db", "--trials", "3", "--time", "30s")
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            self.assertNotIn("warning", ran.stderr)
            piped = subprocess.run(["bash", "-c", f"{sys.executable} -m nestor inspect 'Relu(f32[8])' --stage asm | head -1"],
                                   capture_output=True, text=True)
            self.assertEqual((piped.returncode, piped.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
