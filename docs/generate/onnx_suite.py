"""Run the backend tests of the onnx package and write docs/reference/onnx.md.

    python docs/generate/onnx_suite.py

The script replaces the text between `begin` and `end` and keeps the prose.
tests/quant/test_onnx_backend.py compares page and `onnx_skipped.toml` with a new run.
"""

import importlib
import re
import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from onnx import numpy_helper
from onnx.backend.test.case import node as written
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner, _normalize_tensor as as_array

from mdtensor.errors import MdtensorError
from mdtensor.quant import load
from mdtensor.quant.onnx_backend import prepare

HERE = Path(__file__).parent
PAGE = HERE.parent / "reference" / "onnx.md"
SKIPPED = tomllib.loads((HERE / "onnx_skipped.toml").read_text())
#: The operators of quantization, with the modules that write their cases.
QUANTIZATION = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
QUANTIZATION += ("QLinearMatMul", "QLinearConv", "MatMulInteger", "ConvInteger")


def cases(*operators: str) -> list[Any]:
    """Return the package's cases for these operators; without any, all cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package, while it makes its data
        if not operators:
            return list(load_model_tests(kind="node"))
        for name in operators:
            importlib.import_module(f"{written.__name__}.{name.lower()}")
    chosen = set(operators)
    return [c for c in written._NodeTestCases if chosen & kinds(c)]


def kinds(case: Any) -> set[str]:
    """Return the operators in the model of a case."""
    return {
        ".".join(filter(None, [n.domain, n.op_type])) for n in case.model.graph.node
    }


def compare(wanted: Any, found: Any, rtol: float, atol: float) -> None:
    """Raise unless floats are near, as the package has it, and all else is equal."""
    wanted, found = list(tensors(wanted)), list(tensors(found))
    Runner.assert_similar_outputs(wanted, found, rtol, atol)
    for theirs, ours in zip(wanted, found, strict=True):
        is_near = getattr(theirs, "dtype", None) in NEAR
        if isinstance(theirs, np.ndarray) and not is_near:
            assert ours.tobytes() == theirs.tobytes(), f"{ours} is not {theirs}"


def tensors(values: Any) -> Iterator[Any]:
    """Yield the tensors of results, with the length of each sequence before it.

    The package compares the elements of a sequence as if they were sequences.
    """
    for value in values:
        if isinstance(value, list):
            yield np.array(len(value))
            yield from map(as_array, value)
        else:
            yield np.array("absent") if value is None else value


NEAR = {np.dtype(t) for t in ("f2", "f4", "f8", "c8", "c16", "bfloat16")}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case, `passes`, `refused` or `differs`, and its message."""

    kind: str
    said: str = ""


def outcome(case: Any) -> Outcome:
    """Run one case; only an mdtensor error counts as `refused`."""
    try:
        prepared = prepare(case.model)
        for inputs, wanted in case.data_sets:
            found = prepared.run([as_array(x) for x in inputs])
            compare([as_array(x) for x in wanted], found, case.rtol, case.atol)
    except MdtensorError as error:
        return Outcome("refused", str(error))
    except AssertionError as error:
        return Outcome("differs", str(error))
    return Outcome("passes")


def reasons(case: Any) -> Iterator[str]:
    """Return the reason that `onnx_skipped.toml` gives for skipping a case."""
    for entry in SKIPPED["operators"]:
        if kinds(case) & set(entry["names"]):
            yield entry["because"]
    for entry in SKIPPED["cases"]:
        if any(fnmatchcase(case.name, pattern) for pattern in entry["names"]):
            yield entry["because"]


def table(found: dict[str, tuple[Any, Outcome]], operators: Any) -> Iterator[str]:
    """Return a Markdown table: cases of each operator, and passing ones."""
    yield "| operator | cases | pass |"
    yield "| --- | ---: | ---: |"
    for operator in operators:
        own = [o.kind for case, o in found.values() if operator in kinds(case)]
        yield f"| {operator} | {len(own)} | {own.count('passes')} |"


def outcomes() -> dict[str, tuple[Any, Outcome]]:
    """Run every case and return the outcomes by name."""
    return {case.name: (case, outcome(case)) for case in cases()}


def page(text: str, found: dict[str, tuple[Any, Outcome]]) -> str:
    """Return the page with every generated block written again."""
    ended = [o.kind for _, o in found.values()]
    blocks = {
        "counts": f"{ended.count('passes')} of {len(ended)} cases pass, "
        f"{ended.count('refused')} raise an error, {ended.count('differs')} differ.",
        "quantization": "\n".join(table(found, QUANTIZATION)),
        "skipped": "\n".join(skipped(found)),
        "supported": listed(supported(found)),
        "unread": listed(unread(found)),
    }
    marked = re.compile(r"(<!-- begin: (\w+) -->).*?(<!-- end -->)", re.DOTALL)
    return marked.sub(lambda m: f"{m[1]}\n\n{blocks[m[2]]}\n\n{m[3]}", text)


def skipped(found: dict[str, tuple[Any, Outcome]]) -> Iterator[str]:
    """Yield a Markdown table: the number of skipped cases for each reason."""
    yield "| reason | cases |"
    yield "| --- | ---: |"
    entries = [*SKIPPED["operators"], *SKIPPED["cases"]]
    for because in dict.fromkeys(entry["because"] for entry in entries):
        count = sum(because in set(reasons(case)) for case, _ in found.values())
        yield f"| {because} | {count} |"


def supported(found: dict[str, tuple[Any, Outcome]]) -> list[str]:
    """Return the operators of all passing cases."""
    passing = (kinds(case) for case, o in found.values() if o.kind == "passes")
    return sorted(set().union(*passing))


def listed(names: list[str]) -> str:
    return (", ".join(f"`{name}`" for name in names) or "none") + "."


def unread(found: dict[str, tuple[Any, Outcome]]) -> list[str]:
    """Return the operators that `load` reads in none of the passing cases."""
    left = set(supported(found))
    for case, o in found.values():
        if o.kind == "passes" and left & kinds(case) and is_read(case):
            left -= kinds(case)
    return sorted(left)


def is_read(case: Any) -> bool:
    """Return whether `load` reads it with none, all but one, or all inputs constant."""
    model = type(case.model)()
    model.CopyFrom(case.model)
    names = [value.name for value in model.graph.input]
    values = case.data_sets[0][0]
    if any(value is None or isinstance(value, list) for value in values):
        return False  # an input of a model is a tensor
    pairs = list(zip(names, values, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        for known in ([], pairs[1:], pairs[:1]):
            for name, value in known:
                array = numpy_helper.from_array(as_array(value), name)
                model.graph.initializer.append(array)
            path.write_bytes(model.SerializeToString())
            with suppress(MdtensorError):
                load(path)
                return True
    return False


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), outcomes()))
