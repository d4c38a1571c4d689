"""Runs the onnx package's cases of one operator each by Nestor's Python package, and checks that none is wrong.

usage: node_cases.py [--json | --page] [NAME]    PYTHONPATH names the package; with NAME only cases that have it in their name

--json gives each model in ONNX's JSON mapping instead of as its message. Which cases are refused, and why, is the end of
docs/models.md; --page writes that anew.

A case passes if each output is within the case's own tolerance of the expected one. Where expected values were computed
in f16 or bf16, two units of that type are added, and one part in 2^22 of the largest element where a case's absolute
tolerance is below what f32 resolves. Inputs whose values shapes depend on are bound, as `nestor run` does.
"""
import collections
import os
import re
import sys
import textwrap
import warnings

import numpy as np
import onnx
from google.protobuf.json_format import MessageToDict
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

import nestor

# Of the cases with plain tensors; the others are of element types or operators that limits.md names.
LEAST_PASSED = 1772
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "models.md")
UNITS = {"float16": 2.0**-9, "bfloat16": 2.0**-6}


def is_plain(value):
    return value.type.HasField("tensor_type") and value.type.tensor_type.elem_type != onnx.TensorProto.STRING


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def typed(got, wanted):
    """Bytes as the type of 8 bits or less that they stand for: floats by their bits, integers as they are."""
    name = wanted.dtype.name
    if name.startswith(("float8", "float4")):
        return got.view(wanted.dtype) if got.dtype == np.uint8 else got
    if name in ("int4", "int2", "uint4", "uint2"):
        return got.astype(wanted.dtype) if got.dtype == (np.int8 if name[0] == "i" else np.uint8) else got
    return got


def difference(got, wanted, case):
    wanted = np.asarray(wanted)
    got = typed(np.asarray(got), wanted)
    if got.shape != wanted.shape:
        return f"shape {got.shape} instead of {wanted.shape}"
    if got.dtype != wanted.dtype:
        return f"type {got.dtype} instead of {wanted.dtype}"
    x, y = got.astype(np.float64), wanted.astype(np.float64)
    largest = np.abs(y[np.isfinite(y)]).max(initial=0)
    bound = case.atol + 2.0**-22 * largest + (case.rtol + UNITS.get(wanted.dtype.name, 0)) * np.abs(y)
    with np.errstate(all="ignore"):
        bad = ~((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound))
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{bad.sum()} of {bad.size} elements, first at {list(at)}: {got[at]} instead of {wanted[at]}"


def may_say_shapes(value):
    return value.dtype.kind in "iub" and value.size <= 64


def run(model, feeds):
    """The model's outputs; values that shapes may depend on are bound where it can't be compiled without."""
    bound = {}
    for small in (may_say_shapes, lambda v: v.size <= 64):
        try:
            compiled = nestor.compile(model, const=bound, threads=1)
            break
        except Exception:
            bound = {name: value for name, value in feeds.items() if small(value)}
    else:
        compiled = nestor.compile(model, const=bound, threads=1)
    outputs = compiled(*[value for name, value in feeds.items() if name not in bound])
    return outputs if isinstance(outputs, (tuple, list)) else (outputs,)


def run_all(only, given):
    """How many cases pass, sentences on those that don't, and the refused ones by reason."""
    passed, wrong, refused = 0, [], collections.defaultdict(list)
    for case in collect_testcases(None):
        graph = case.model.graph
        if only not in case.name or not all(map(is_plain, [*graph.input, *graph.output])):
            continue
        inputs, wanted = ([array(v) for v in values] for values in case.data_sets[0])
        try:
            got = run(given(case.model), dict(zip([i.name for i in graph.input], inputs)))
        except Exception as error:
            first = re.sub(r"^\S+: error: ", "", str(error).split("\n")[0])
            if first.startswith("DLPack"):
                first = "operands of 8-bit floats, or of less than 8 bits, aren't supported"
            refused[re.sub(r" that makes `.*?`| \(opset.*?\)", "", first)].append(case.name)
            continue
        problems = [d for d in map(difference, got, wanted, [case] * len(wanted)) if d]
        passed += not problems
        wrong += [f"{case.name}: {problems[0]}"] if problems else []
    return passed, wrong, refused


def page_of(passed, refused):
    out = f"## Node cases\n\nThe onnx package {onnx.__version__} has cases of one operator each. Of those whose operands are all " \
          f"tensors of numbers, {passed} pass and none is wrong. These are refused:\n\n```text\n"
    for reason, names in sorted(refused.items(), key=lambda e: (-len(e[1]), e[0])):
        listed = textwrap.wrap(" ".join(sorted(n.removeprefix("test_") for n in names)), 120, break_on_hyphens=False)
        out += f"{reason}\n" + "".join(f"  {line}\n" for line in listed)
    return out + "```\n"


def main():
    warnings.simplefilter("ignore")
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    only = arguments[0] if arguments else ""
    passed, wrong, refused = run_all(only, MessageToDict if "--json" in sys.argv else lambda model: model)
    if not only:
        page = open(PAGE, encoding="utf-8").read()
        at = page.index("## Node cases")
        if "--page" in sys.argv:
            open(PAGE, "w", encoding="utf-8").write(page[:at] + page_of(passed, refused))
        elif page[at:] != page_of(passed, refused):
            sys.exit("docs/models.md doesn't say what is refused: node_cases.py --page writes it anew")
    for reason, names in sorted(refused.items(), key=lambda entry: -len(entry[1])):
        print(f"{len(names)} refused: {reason} ({', '.join(names[:3])}{' ...' if len(names) > 3 else ''})")
    print("\n".join(f"WRONG {w}" for w in wrong))
    print(f"{passed} pass, {len(wrong)} wrong, {sum(map(len, refused.values()))} refused")
    sys.exit(bool(wrong) or (not only and passed < LEAST_PASSED))


if __name__ == "__main__":
    main()
