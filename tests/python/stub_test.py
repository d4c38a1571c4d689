"""_primitives.pyi says of the primitives what the compiler's table does. NESTOR_UPDATE=1 writes it anew."""
import ast
import keyword
import os
import unittest

import nestor
from nestor import _nestor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STUB = os.path.join(ROOT, "src", "python", "nestor", "_primitives.pyi")
HEAD = '''# Made of the table of primitives by tests/python/stub_test.py (NESTOR_UPDATE=1); not by hand.
from typing import Any, List, Sequence, Tuple, TypeVar, Union

_S = TypeVar("_S", bound="Primitives")
_Names = Union[str, List[str], Tuple[str, ...], None]

def word(value: Any, kinds: Sequence[str] = ...) -> str: ...

class Primitives:
    _native: Any
'''
TYPES = {"ints": "Union[str, Sequence[Union[int, str, None]]]", "integer": "Union[int, str]", "words": "Union[str, Sequence[Any]]",
         "loops": "Union[str, Sequence[str]]", "buffers": "Union[str, Sequence[str]]", "decision": "Any"}


def type_of_option(values):
    if values == "INT":
        return "Union[int, str]"
    if all(word.isidentifier() and word.islower() for word in values.split("|")):
        return "Union[str, bool]" if "yes" in values.split("|") else "str"
    return "Any"


def stub():
    out = HEAD
    for name, usage, summary, requirements, options, arguments, results in _nestor.primitives():
        if any(kind == "loops" for _, kind in arguments):  # Y (i j) is one word of a step, or two
            args = f", *loops: {TYPES['loops']}"
        else:
            kinds = [kind for _, kind in arguments]
            names = [kind + (str(kinds[:i].count(kind) + 1) if kinds.count(kind) > 1 else "") for i, kind in enumerate(kinds)]
            args = "".join(f", {'*' if kind in ('buffers', 'decision') and kind == kinds[-1] else ''}{name}: {TYPES.get(kind, 'str')}"
                           for name, kind in zip(names, kinds))
        named = "".join(f", {key}{'_' * keyword.iskeyword(key)}: {type_of_option(values)} = ..." for key, values, _ in options)
        star = "" if "*" in args else ", *"
        out += f'\n    def {name}(self: _S{args}{star}, results: _Names = ...{named}, **options: Any) -> _S:\n'
        lines = [summary, "", f"    {usage}"]
        out += '        """' + "\n        ".join(lines).replace("\n        \n", "\n\n") + '\n        """\n        ...\n'
    return out


class Stub(unittest.TestCase):
    def test_it_is_what_the_table_says(self):
        text = stub()
        if os.environ.get("NESTOR_UPDATE"):
            with open(STUB, "w") as f:
                f.write(text)
        with open(STUB) as f:
            self.assertEqual(f.read(), text, "NESTOR_UPDATE=1 writes it anew")
        (body,) = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        methods = [node.name for node in body.body if isinstance(node, ast.FunctionDef)]
        self.assertEqual(methods, [row[0] for row in _nestor.primitives()])
        for name in methods:
            self.assertTrue(callable(getattr(nestor.Schedule, name)), name)

    def test_the_package_is_typed(self):
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(nestor.__file__), "py.typed")))


if __name__ == "__main__":
    unittest.main()
