"""Writes the tables of docs/quantized.md by calling every operation on every pair.

    python docs/generate_quantized.py

What stands between `begin` and `end` is replaced, the rest is prose and stays.
tests/quant/test_promotion_table.py compares the page with what the calls give.
"""

import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QParams

PAGE = Path(__file__).parent / "quantized.md"

REAL = (md.Int8Tensor, md.Int32Tensor, md.Int64Tensor)
REAL += (md.Float16Tensor, md.BFloat16Tensor, md.Float32Tensor)
QUANTIZED = (quant.QInt4Tensor, quant.QUInt4Tensor, quant.QInt8Tensor)
QUANTIZED += (quant.QUInt8Tensor, quant.QInt16Tensor, quant.QInt32Tensor)
QUANTIZED += (quant.QFloat8E4M3Tensor, quant.QFloat8E5M2Tensor)
TYPES = (*REAL, *QUANTIZED)
#: Another scale, which the result of no pair has.
OTHER, OUT = 0.75, QParams(0.25)


def conv2d(x1: Any, x2: Any, **options: Any) -> Any:
    """Of images and filters with one element."""
    four = [md.reshape(x, (2, 2, 1, 1)) for x in (x1, x2)]
    return md.conv2d(*four, **options)


def joined(x1: Any, x2: Any) -> Any:
    return md.concat([x1, x2])


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": md.add,
    "sub": md.sub,
    "mul": md.mul,
    "div": md.div,
    "matmul": md.matmul,
    "linear": md.linear,
    "conv2d": conv2d,
    "minimum": md.minimum,
    "maximum": md.maximum,
    "equal": md.equal,
    "less": md.less,
    "concat": joined,
}
WITHOUT_OUT = {"equal", "less", "concat"}


class Cell(NamedTuple):
    """What a pair of types gives.

    Args:
        alike: on grids of one scale: the name of the result's type, or an error.
        unlike: the same on grids of two scales.
        rounded: the same with `out=`; empty where the operation has none.
    """

    alike: str
    unlike: str
    rounded: str


def tensor(kind: Any, scale: float) -> Any:
    """Ones, of two by two elements."""
    ones = np.ones((2, 2), np.float32)
    if not issubclass(kind, quant.QuantizedTensor):
        return md.astype(md.from_numpy(ones), kind.dtype)
    return kind(ones.astype(kind.dtype.storage), scale=scale)


def outcome(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """`QInt32`, or `PromotionError: what is wrong. What would work.`"""
    try:
        found = type(call(*arguments, **options)).__name__
    except md.MdtensorError as error:
        return f"{type(error).__name__}: {error.problem}. {error.fix}."
    return found.removesuffix("Tensor")


def cell(name: str, first: Any, second: Any) -> Cell:
    call = OPERATIONS[name]
    a, b, c = tensor(first, 0.5), tensor(second, 0.5), tensor(second, OTHER)
    rounded = "" if name in WITHOUT_OUT else outcome(call, a, b, out=OUT)
    return Cell(outcome(call, a, b), outcome(call, a, c), rounded)


def pairs() -> Iterator[tuple[Any, Any]]:
    """All pairs with at least one quantized type."""
    for first, second in product(TYPES, TYPES):
        if {first, second} & set(QUANTIZED):
            yield first, second


def table(name: str) -> dict[tuple[Any, Any], Cell]:
    return {(a, b): cell(name, a, b) for a, b in pairs()}


class Notes:
    """Numbers for errors, in the order in which they are met."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> str:
        if ": " not in text:
            return text
        text = re.sub(
            r"(; the grids? (is|are)|:) \(scale=.*?\)( and \(.*?\))?", "", text
        )
        names = "|".join(OPERATIONS)
        text = re.sub(rf"^(\w+: )({names}) ", r"\1this ", text)
        return f"E{self.numbers.setdefault(text, len(self.numbers) + 1)}"


def shown(found: Cell, notes: Notes) -> str:
    """`QInt32*`: of equal scales only; `QInt8 out`: with out= only."""
    text = notes(found.alike)
    if not text.startswith("E") and notes(found.unlike).startswith("E"):
        text += "*"
    return f"{text} →" if found.rounded and ": " not in found.rounded else text


def short(kind: Any) -> str:
    return str(kind.__name__).removesuffix("Tensor")


def markdown(cells: dict[tuple[Any, Any], Cell], notes: Notes) -> str:
    lines = ["| | " + " | ".join(map(short, QUANTIZED)) + " |"]
    lines.append("|---" * (len(QUANTIZED) + 1) + "|")
    for first in TYPES:
        row = [shown(cells[first, second], notes) for second in QUANTIZED]
        lines.append(f"| **{short(first)}** | " + " | ".join(row) + " |")
    return "\n".join(lines)


def tables() -> str:
    """One table for operations that have the same."""
    notes, groups = Notes(), {}
    for name in OPERATIONS:
        groups.setdefault(markdown(table(name), notes), []).append(name)
    parts = [
        f"### {', '.join(f'`{name}`' for name in names)}\n\n{text}"
        for text, names in groups.items()
    ]
    legend = [f"- **E{n}** {text}" for text, n in notes.numbers.items()]
    return "\n\n".join([*parts, "### Errors", "\n".join(legend)])


def page(text: str) -> str:
    """The page with its generated block anew."""
    marked = re.compile(r"(<!-- begin: tables -->).*?(<!-- end -->)", re.DOTALL)
    found = tables()
    return marked.sub(lambda m: f"{m[1]}\n\n{found}\n\n{m[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
