"""Schedules from Python: steps as methods and as text, what refuses them, and what is done with them."""
import os
import tempfile
import unittest

import nestor

PRODUCT = "MatMul(f32[64,64], f32[64,64])"


def product():
    return nestor.func(PRODUCT, threads=1)


class Schedules(unittest.TestCase):
    def test_methods_are_steps(self):
        s = product().schedule()
        s.split("Y.j", [None, 16], results="j0 j1").reorder("Y", "(i j0 k j1)").vectorize("Y.j1")
        self.assertEqual(s.steps, ["j0 j1 = split Y.j [_, 16]", "reorder Y (i j0 k j1)", "vectorize Y.j1"])
        self.assertEqual(s.loops("Y"), [("i", 64), ("j0", 4), ("k", 64), ("j1", 16)])
        self.assertIn("vectorized j1 in 16", str(s))
        self.assertTrue(s.verify())
        self.assertGreater(s.bench(seconds=0.01).median, 0)
        again = product().schedule(s.text)
        self.assertEqual(str(again), str(s))

    def test_a_model_is_compiled_by_it(self):
        import numpy as np

        s = product().schedule().split("Y.j", [None, 16], results="j0 j1").vectorize("Y.j1")
        m = nestor.compile(PRODUCT, schedule=s, threads=1)
        self.assertTrue(m.functions[0][1].endswith("matmul.sched"), m.functions)
        a = np.random.default_rng(1).standard_normal((64, 64)).astype("float32")
        np.testing.assert_allclose(m(a, a), a @ a, rtol=1e-4, atol=1e-4)
        with self.assertRaisesRegex(nestor.Error, "matmul"):
            nestor.compile("Relu(f32[8])", schedule=s)

    def test_lines_are_steps(self):
        s = product().schedule()
        s("""
          j0 j1 = split Y.j [_, 16]   # lanes
          vectorize Y.j1
        """)
        self.assertEqual(len(s.steps), 2)
        with self.assertRaises(nestor.ScheduleError):
            s("unroll Y.i\nparallel Y.nope")
        self.assertEqual(len(s.steps), 2)
        with self.assertRaisesRegex(ValueError, "schedule of another function, matmul"):
            nestor.func("Relu(f32[8])", threads=1).verify(s)
        self.assertEqual(str(product().schedule("naive")), str(product().schedule()))

    def test_a_refusal_leaves_all_as_it_was(self):
        s = product().schedule()
        before = str(s)
        with self.assertRaises(nestor.ScheduleError) as caught:
            s.split("Y.jj", [None, 16])
        e = caught.exception
        self.assertIn("requirement B", e.message)
        self.assertTrue(any("jj" in note for note in e.notes), e.notes)
        self.assertIn("split Y.j", e.hint)
        self.assertIsInstance(e, nestor.Error)
        self.assertEqual(str(s), before)
        self.assertEqual(s.steps, [])

    def test_lists_of_names(self):
        s = product().schedule()
        s.split("Y.j", [None, 16], results=["j0", "j1"]).reorder("Y", ["i", "j0", "k", "j1"]).fuse(["Y.i", "Y.j0"], results=("g",))
        self.assertEqual(s.steps, ["j0 j1 = split Y.j [_, 16]", "reorder Y (i j0 k j1)", "g = fuse Y (i j0)"])

    def test_words_that_no_option_has(self):
        s = product().schedule()
        s.reorder("Y", "k j i")
        self.assertEqual(s.steps, ["reorder Y (k j i)"])
        with self.assertRaisesRegex(TypeError, r"compute_at\(\) has no option block; .* compute_at P T.i"):
            s.compute_at(block="S", loop="Y.i")

    def test_decisions(self):
        s = product().schedule().sample_choice([8, 16], decision=16, results="w")
        self.assertEqual(s.steps, ["w = sample_choice [8, 16] -> 16"])

    def test_a_file_of_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mine.sched")
            with open(path, "w") as f:
                f.write("parallel Y.i\n")
            self.assertEqual(product().schedule(path).steps, ["parallel Y.i"])

    def test_a_refusal_has_parts(self):
        with self.assertRaises(nestor.ScheduleError) as caught:
            product().schedule().parallel("Y.k")
        e = caught.exception
        self.assertEqual(e.requirement, "no two iterations access the same element if one of them writes it")
        self.assertIn("k=0 and k=1 both update Y[0,0]", e.witness)
        self.assertEqual(e.hint, "parallel Y.i\nparallel Y.j")
        with self.assertRaises(nestor.ScheduleError) as caught:
            product().schedule().split("Y.jj", [None, 16])
        self.assertTrue(caught.exception.requirement and caught.exception.witness)

    def test_every_primitive_is_a_method(self):
        for name in ("split", "fuse", "reorder", "vectorize", "parallel", "unroll", "bind", "compute_at", "cache_read",
                     "rfactor", "tensorize"):
            method = getattr(nestor.Schedule, name)
            self.assertIn("Requires:", method.__doc__, name)

    def test_the_default_and_its_reasons(self):
        f = product()
        s = f.schedule("default")
        self.assertIn("because", s.why())
        self.assertTrue(f.verify())
        self.assertIn("define", s.llvm())
        self.assertIn("ret", s.asm())
        self.assertIn("func matmul", s.lowered())

    def test_cuda(self):
        f = nestor.func("Relu(f32[1024])", target="cuda:sm_80")
        self.assertIn("__global__", f.cuda())
        self.assertIn("threadIdx", product().cuda(target="cuda:sm_80"))
        s = nestor.func("Relu(f32[1024])", threads=1).schedule()
        with self.assertRaisesRegex(nestor.Error, "CUDA code isn't made"):
            s.cuda()

    def test_a_notebook_shows_steps(self):
        s = product().schedule().parallel("Y.i")
        page = s._repr_html_()
        self.assertIn("<summary><code>parallel Y.i</code></summary>", page)

    def test_functions_of_a_model(self):
        self.assertEqual([f.name for f in nestor.functions(PRODUCT)], ["matmul"])
        self.assertEqual(product().blocks, ["Y"])


class Tuning(unittest.TestCase):
    def test_a_search(self):
        spec = "MatMul(f32[40,24], const f32[24,1000])"
        events = []
        with tempfile.TemporaryDirectory() as folder:
            db = os.path.join(folder, "t.db")
            found = nestor.tune(spec, db, seconds=30, trials=12, threads=1, progress=events.append)
            self.assertEqual([r.func for r in found], ["matmul"])
            self.assertEqual(found[0].outcomes.get("ok"), found[0].measured, found[0])
            self.assertGreaterEqual(found[0].measured, 12)
            self.assertLessEqual(found[0].best_us, 1.05 * found[0].default_us)
            self.assertTrue(events and events[-1]["func"] == "matmul")
            m = nestor.compile(spec, db=db, threads=1)
            self.assertIn(m.functions[0][1], ("database", "default"))

    def test_a_bar(self):
        import contextlib
        import io

        shown = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(shown):
            nestor.tune("MatMul(f32[40,24], const f32[24,1000])", os.path.join(folder, "t.db"), seconds=30, trials=3, threads=1,
                        progress=True)
            self.assertRegex(shown.getvalue(), r"\r\[#*-*\] +\d+ s left  matmul: best [\d.]+ us, [\d.]+ x the default, \d+ measured")
            self.assertTrue(shown.getvalue().endswith("\n"))
            shown.truncate(0)
            nestor.tune("Relu(f32[8])", os.path.join(folder, "t.db"), seconds=30, trials=1, threads=1, progress=False)
            self.assertEqual(shown.getvalue().strip("\0"), "")

    def test_what_is_refused(self):
        for options, error, words in [({"families": ["anny"]}, ValueError, "there is no family anny"),
                                      ({"families": "any"}, TypeError, "are lists"),
                                      ({"workers": "true"}, TypeError, "are lists"),
                                      ({"workers": 0}, ValueError, "workers must be 1 or more"),
                                      ({"trials": -1}, ValueError, "trials is negative"),
                                      ({"seconds": 0}, nestor.Error, "seconds must be above zero")]:
            with self.assertRaisesRegex(error, words):
                nestor.tune("Relu(f32[8])", "t.db", **options)

    def test_a_callback_that_raises_ends_it(self):
        def stop(event):
            raise KeyError("enough")

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(KeyError, "enough"):
                nestor.tune("MatMul(f32[40,24], const f32[24,1000])", os.path.join(folder, "t.db"), seconds=30,
                            threads=1, progress=stop)


if __name__ == "__main__":
    unittest.main()
