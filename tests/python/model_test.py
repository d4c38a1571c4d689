"""Models from Python: what goes in and out, and what is said where it can't."""
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import nestor
from nestor._errors import in_python

PRODUCT = "MatMul(f32[6,8], f32[8,4])"
DTYPES = ["f32", "f64", "i64", "i32", "i16", "i8", "u8", "f16"]
NUMPY = {"f32": "float32", "f64": "float64", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8",
         "f16": "float16", "bool": "bool"}


def drawn(*shape, dtype="float32"):
    return np.random.default_rng(7).integers(-4, 5, shape).astype(dtype)


def product():
    return nestor.compile(PRODUCT, threads=1), drawn(6, 8), drawn(8, 4)


class Foreign:
    """An array that only speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Importing(unittest.TestCase):
    def test_llvm_is_loaded_at_the_first_use(self):
        code = ("import sys, nestor; before = 'nestor._nestor' in sys.modules; nestor.load; "
                "print(before, 'nestor._nestor' in sys.modules, set(nestor.__all__) <= set(dir(nestor)), nestor.__version__)")
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertRegex(said, r"^False True True \d+\.\d+\.\d+\n$")
        with self.assertRaisesRegex(AttributeError, "has no attribute 'compil'"):
            nestor.compil


class Calls(unittest.TestCase):
    def test_by_position_and_by_name(self):
        m, a, b = product()
        np.testing.assert_array_equal(m(a, b), a @ b)
        np.testing.assert_array_equal(m(a, x1=b), a @ b)
        np.testing.assert_array_equal(m.run({"x1": b, "x0": a})["y"], a @ b)
        self.assertEqual(m.inputs[1], ("x1", "f32", (8, 4)))
        self.assertIn("x0: f32[6,8]", repr(m))

    def test_nothing_is_copied(self):
        m, a, b = product()
        self.assertEqual(m._native._addresses(a, b), [a.ctypes.data, b.ctypes.data])
        out = np.empty((6, 4), "float32")
        self.assertIs(m(a, b, out=out), out)
        np.testing.assert_array_equal(out, a @ b)

    def test_whatever_speaks_dlpack(self):
        m, a, b = product()
        self.assertEqual(m._native._addresses(Foreign(a), b)[0], a.ctypes.data)
        np.testing.assert_array_equal(m(Foreign(a), Foreign(b)), a @ b)

    def test_what_dlpack_raises(self):
        class Refuses(Foreign):
            def __dlpack__(self, **options):
                raise BufferError("it lies in a vault")

        m, a, b = product()
        with self.assertRaisesRegex(BufferError, "it lies in a vault"):
            m(Refuses(a), b)

    def test_arrays_that_dont_lie_row_major(self):
        m, a, b = product()
        np.testing.assert_array_equal(m(np.asfortranarray(a), b[::-1]), a @ b[::-1])
        shifted = np.frombuffer(b"x" + a.tobytes(), "float32", count=48, offset=1).reshape(6, 8)
        np.testing.assert_array_equal(m(shifted, b), a @ b)
        read_only = a.copy()
        read_only.flags.writeable = False
        np.testing.assert_array_equal(m(read_only, b), a @ b)

    def test_every_type(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                x = drawn(3, 5, dtype=NUMPY[dtype])
                y = nestor.compile(f"Identity({dtype}[3,5])", threads=1)(x)
                self.assertEqual(y.dtype, x.dtype)
                np.testing.assert_array_equal(y, x)
        x = np.array([True, False])
        np.testing.assert_array_equal(nestor.compile("Not(bool[2])", threads=1)(x), ~x)

    def test_bfloat16(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("no ml_dtypes")
        x = np.array([1.5, -2, 3], ml_dtypes.bfloat16)
        y = nestor.compile("Identity(bf16[3])", threads=1)(x)
        self.assertEqual(y.dtype, x.dtype)
        np.testing.assert_array_equal(y.astype("float32"), x.astype("float32"))

    def test_several_outputs(self):
        m = nestor.compile("TopK(f32[5], i64[1]{2}) -> 2", threads=1)
        values, places = m(np.array([3, 9, 1, 7, 5], "float32"))
        np.testing.assert_array_equal(values, [9, 7])
        np.testing.assert_array_equal(places, [1, 3])
        out = (np.empty(2, "float32"), np.empty(2, "int64"))
        m(np.array([3, 9, 1, 7, 5], "float32"), out=out)
        np.testing.assert_array_equal(out[1], [1, 3])

    def test_sizes_of_none(self):
        y = nestor.compile("Relu(f32[0,3])", threads=1)(np.empty((0, 3), "float32"))
        self.assertEqual(y.shape, (0, 3))
        out = np.empty((0, 3), "float32")
        self.assertIs(nestor.compile("Relu(f32[0,3])", threads=1)(y, out=out), out)
        self.assertEqual(nestor.compile("Neg(f32[])", threads=1)(np.array(2, "float32")), -2)

    def test_outputs_live_on(self):
        m, a, b = product()
        y = m(a, b)
        expected = y.copy()
        m(-a, b)
        del m
        np.testing.assert_array_equal(y, expected)

    def test_from_several_threads(self):
        m, a, b = product()
        wrong = []

        def call(sign):
            for _ in range(200):
                if not np.array_equal(m(sign * a, b), sign * a @ b):
                    wrong.append(sign)

        threads = [threading.Thread(target=call, args=(np.float32(s),)) for s in (1, -1, 2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_what_is_refused(self):
        m, a, b = product()
        square = nestor.compile("MatMul(f32[4,4], f32[4,4])", threads=1)
        wide = drawn(6, 4)
        a4 = wide[:4]
        top, both = nestor.compile("TopK(f32[5], i64[1]{2}) -> 2", threads=1), np.empty(2, "int64")
        for make, error, words in [
            (lambda: m(a), TypeError, "input `x1` isn't given"),
            (lambda: m(a, b, b), TypeError, "3 arrays are given; the inputs are `x0`, `x1`"),
            (lambda: m({"x0": a, "x1": b}), TypeError, r"m\.run"),
            (lambda: m(a.astype(">f4"), b), TypeError, r'input `x0` has elements of type >f4.*astype\("float32"\)'),
            (lambda: m(a, b, z=1), TypeError, "there is no input `z`: the inputs are `x0`, `x1`"),
            (lambda: m(a, b, x0=a), TypeError, "input `x0` is given twice"),
            (lambda: m(a, b.astype("float64")), TypeError, r'the model wants float32: x1\.astype\("float32"\)'),
            (lambda: m(a[:3], b), ValueError, r"input `x0` has the shape f32\[3,8\], the model wants f32\[6,8\]"),
            (lambda: m(1.0, b), TypeError, "input `x0` is a float: give a NumPy array"),
            (lambda: m([1, 2], b), TypeError, "input `x0` is a list: give a NumPy array"),
            (lambda: m(a.astype("complex64"), b), TypeError, "elements of type complex64"),
            (lambda: m(a, b, out=np.empty((4, 6), "float32").T), ValueError, "output `y` doesn't lie row major"),
            (lambda: m(a, b, out=[a, b]), TypeError, "2 arrays in out; the outputs are `y`"),
            (lambda: square(a4, a4, out=a4), ValueError, "output `y` shares memory with input `x0`"),
            (lambda: square(a4, a4, out=wide.reshape(-1)[4:20].reshape(4, 4)), ValueError, "shares memory with input"),
            (lambda: top(np.ones(5, "float32"), out=(both.view("float32")[:2], both)), ValueError,
             "shares memory with output"),
        ]:
            with self.assertRaisesRegex(error, words):
                make()
        frozen = np.empty((6, 4), "float32")
        frozen.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "output `y` is read only"):
            m(a, b, out=frozen)


class Compiling(unittest.TestCase):
    def test_models_in_memory(self):
        graph = {"name": "g", "opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 3]}],
                 "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}
        x = drawn(2, 3)
        np.testing.assert_array_equal(nestor.compile(graph, dims={"n": 2}, threads=1)(x), np.maximum(x, 0))
        np.testing.assert_array_equal(nestor.compile(graph, dims={"x": (2, 3)}, threads=1)(x), np.maximum(x, 0))
        try:
            from onnx import TensorProto, helper
        except ImportError:
            self.skipTest("no onnx")
        proto = helper.make_model(helper.make_graph(
            [helper.make_node("Neg", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])]), opset_imports=[helper.make_opsetid("", 17)])
        for model in (proto, proto.SerializeToString()):
            np.testing.assert_array_equal(nestor.compile(model, threads=1)(x), -x)

    def test_text_of_a_function(self):
        text = """
        func twice(in X: f32[4], out Y: f32[4]) {
          for i in 4 {
            block Y(v: S 4 = i) { Y[v] = X[v] + X[v] }
          }
        }"""
        np.testing.assert_array_equal(nestor.compile(text, threads=1)(np.arange(4, dtype="float32")), [0, 2, 4, 6])

    def test_constants(self):
        weights = drawn(8, 4)
        m = nestor.compile("MatMul(f32[6,8], const f32[8,4])", const={"x1": weights}, threads=1)
        np.testing.assert_array_equal(m(drawn(6, 8)), drawn(6, 8) @ weights)

    def test_an_artifact(self):
        m, a, b = product()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.so")
            m.save(path)
            self.assertTrue(os.path.exists(os.path.join(folder, "m.h")))
            loaded = nestor.load(path)
            self.assertEqual(loaded.inputs, m.inputs)
            np.testing.assert_array_equal(loaded(a, b), m(a, b))
            x = drawn(8)
            nestor.compile("Relu(f32[8])", threads=1).save(path)
            relu = nestor.load(path)
            nestor.compile("Neg(f32[8])", threads=1).save(path)
            np.testing.assert_array_equal(nestor.load(path)(x), -x)  # not what was loaded from there before
            np.testing.assert_array_equal(relu(x), np.maximum(x, 0))
            with open(path, "rb") as whole, open(os.path.join(folder, "cut.so"), "wb") as cut:
                cut.write(whole.read()[:4000])
            with self.assertRaisesRegex(nestor.Error, "it is cut short"):
                nestor.load(os.path.join(folder, "cut.so"))
            with self.assertRaisesRegex(nestor.Error, "was loaded from an artifact can't be saved"):
                loaded.save(path)
            with self.assertRaisesRegex(nestor.Error, "an artifact ends in .so"):
                m.save(os.path.join(folder, "m.dll"))

    def test_errors_speak_python(self):
        graph = {"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 3]}],
                 "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}
        two = {**graph, "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", "m"]}]}
        own = {**graph, "nodes": [{"op": "Frobnicate", "inputs": ["x"], "outputs": ["y"]}]}
        for make, words in [(lambda: nestor.tune(graph, "none.db", seconds=1), 'dims={"n": ...}'),
                            (lambda: nestor.tune(two, "none.db", seconds=1), 'dims={"m": ..., "n": ...}'),
                            (lambda: nestor.compile(graph, dims={"x": (2, 3, 4)}), "the model declares [n,3]"),
                            (lambda: nestor.compile(own, dims={"n": 2}), 'ops=["FILE.nest"] adds operators'),
                            (lambda: nestor.compile("Relu(f32[8])", db="missing.db"), 'nestor.tune(model, "missing.db") makes one'),
                            (lambda: nestor.compile(graph, dims={"n": -2}), 'dims={"n": -2}'),
                            (lambda: nestor.compile(graph, dims={"n": 2, "q": 3}), 'dims={"q": 3}')]:
            with self.assertRaises(nestor.Error) as caught:
                make()
            self.assertIn(words, str(caught.exception))
            self.assertNotIn("--", str(caught.exception))

    def test_weights_without_values(self):
        with self.assertWarnsRegex(UserWarning, r'random; const={"x1": ...} gives values'):
            m = nestor.compile("MatMul(f32[4,8], const f32[8,4])", threads=1)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(nestor.Error, r'const={"x1": ...}'):
                m.save(os.path.join(folder, "m.so"))
            self.assertEqual(os.listdir(folder), [])

    def test_keywords_of_other_types(self):
        for given, words in [({"threads": "2"}, "threads is of type str, not int"), ({"dims": 1}, "dims is of type int, not dict"),
                             ({"dims": {"n": "x"}}, r"""dims\["n"\] is 'x': give an integer"""), ({"op": "f"}, "keyword argument 'op'")]:
            with self.assertRaisesRegex(TypeError, words):
                nestor.compile(PRODUCT, **given)
        with self.assertRaisesRegex(TypeError, r"func.*\(\) got an unexpected keyword argument 'op'"):
            nestor.func(PRODUCT, op="f")

    def test_kernels_for_chosen_sizes(self):
        graph = {"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 64]}], "outputs": ["y"],
                 "nodes": [{"op": "Softmax", "inputs": ["x"], "outputs": ["y"]}]}
        m = nestor.compile(graph, specialize={"n": [1, 8]}, threads=1)
        names = [name for name, _ in m.functions]
        self.assertIn("softmax_n8", names)
        for n in (1, 3, 8):
            np.testing.assert_allclose(m(drawn(n, 64)), nestor.compile(graph, dims={"n": n}, threads=1)(drawn(n, 64)), rtol=1e-5)
        self.assertEqual([name for name, _ in nestor.compile(graph, specialize={"n": 8}, threads=1).functions],
                         ["softmax", "softmax_n8"])
        for given, words in [({"n": "8"}, r"""specialize\["n"\] is '8': give integers"""), ({"n": []}, "give integers"),
                             (8, "specialize is of type int, not dict")]:
            with self.assertRaisesRegex(TypeError, words):
                nestor.compile(graph, specialize=given)
        with self.assertRaisesRegex(nestor.Error, r'specialize={"n": \[-1\]}: n is from 0 to'):
            nestor.compile(graph, specialize={"n": [-1]})

    def test_sizes_that_values_decide(self):
        m = nestor.compile("Compress(f32[6,2], bool[6])", threads=1)
        x = drawn(6, 2)
        for chosen in ([1, 0, 0, 1, 1, 0], [0] * 6, [1] * 6):
            mask = np.array(chosen, bool)
            np.testing.assert_array_equal(m(x, mask), x.ravel()[:6][mask])
        room = np.empty(6, np.float32)  # for the most that there can be
        np.testing.assert_array_equal(m(x, np.array([0, 1, 0, 0, 0, 1], bool), out=room), x.ravel()[[1, 5]])

    def test_open_sizes_of_dlpack_arrays(self):
        class Foreign:
            """What speaks DLPack and nothing else."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        graph = {"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", "m"]}], "outputs": ["y"],
                 "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}]}
        m = nestor.compile(graph, threads=1)
        for n, k in [(3, 5), (1, 1), (40, 7)]:
            x = drawn(n, k)
            np.testing.assert_array_equal(m(Foreign(x)), np.maximum(x, 0))
            y = np.zeros((n, k), np.float32)
            m(Foreign(x), out=Foreign(y))
            np.testing.assert_array_equal(y, np.maximum(x, 0))
        x = drawn(5, 3)
        np.testing.assert_array_equal(m(Foreign(x.T)), np.maximum(x.T, 0))  # not row major

    def test_options_of_the_command_line_alone(self):
        self.assertEqual(in_python("add --pin spread"), "add the command line's --pin spread")

    def test_a_loop_without_end(self):
        number = lambda name, kind, *dims: {"name": name, "type": {"tensorType": {
            "elemType": kind, "shape": {"dim": [{"dimValue": d} for d in dims]}}}}
        body = {"name": "double", "input": [number("i", 7), number("go", 9), number("s", 1)],
                "output": [number("on", 9), number("t", 1)],
                "node": [{"opType": "Add", "input": ["s", "s"], "output": ["t"]},
                         {"opType": "Less", "input": ["t", "most"], "output": ["on"]}]}
        graph = {"name": "g", "input": [number("x", 1), number("most", 1)], "output": [number("y", 1)],
                 "node": [{"opType": "Loop", "input": ["", "", "x"], "output": ["y"],
                           "attribute": [{"name": "body", "type": "GRAPH", "g": body}]}]}
        m = nestor.compile({"irVersion": 8, "opsetImport": [{"version": 17}], "graph": graph}, max_trips=10)
        x, most = np.float32(1), np.float32(100)
        self.assertEqual(m(x, most), 128)
        with self.assertRaisesRegex(nestor.Error, "goes on for more than 10 iterations"):
            m(np.float32(0), most)
        for wrong, error in [(-1, nestor.Error), ("many", TypeError)]:
            with self.assertRaises(error):
                nestor.compile(PRODUCT, max_trips=wrong)

    def test_operators_of_ones_own(self):
        graph = {"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [4, 8]}, {"name": "w", "dtype": "f32", "shape": [8]}],
                 "nodes": [{"op": "Scaled", "domain": "test.own", "inputs": ["x", "w"], "outputs": ["y"]}], "outputs": ["y"]}
        text = ("# domain: test.own\nfunc Scaled[N, M](in X: f32[N, M], const W: f32[M], out Y: f32[N, M]) {\n  for i in N, j in M {\n"
                "    block Y(vi: S N = i, vj: S M = j) { Y[vi,vj] = X[vi,vj] * W[vj] }\n  }\n}\n")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "scaled.nest")
            with open(path, "w") as f:
                f.write(text)
            x, w = drawn(4, 8), drawn(8)
            for _ in range(2):  # known already the second time
                np.testing.assert_array_equal(nestor.compile(graph, ops=[path], threads=1)(x, w), x * w)
            with self.assertRaisesRegex(TypeError, "ops is a list"):
                nestor.compile(graph, ops=path)

    def test_temporary_files_arent_named(self):
        for model in ({"nodes": 3}, b"no model", "func f(in X: f32[4], out Y: f32[4]) {\n  for i in 4 {\n}"):
            with self.assertRaises(nestor.Error) as caught:
                nestor.compile(model)
            self.assertRegex(str(caught.exception), r"^model\.\w+")
            self.assertNotIn("/", str(caught.exception).split(":")[0])
        text = "func twice(in X: f32[4], out Y: f32[4]) {\n  for i in 4 {\n    block Y(v: S 4 = i) { Y[v] = X[v] + X[v] }\n  }\n}"
        self.assertNotIn("/", nestor.compile(text, threads=1).name)

    def test_errors_have_parts(self):
        with self.assertRaises(nestor.Error) as caught:
            nestor.compile("MatMull(f32[6,8], f32[8,4])")
        self.assertIn("MatMull", caught.exception.message)
        self.assertIn("MatMul", str(caught.exception))
        with self.assertRaisesRegex(TypeError, "a int is no model"):
            nestor.compile(3)
        with self.assertRaises(nestor.Error):
            nestor.compile("missing.onnx")
        with self.assertRaises(nestor.Error):
            nestor.load("missing.so")


if __name__ == "__main__":
    unittest.main()
