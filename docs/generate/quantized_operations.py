"""Write docs/reference/quantized-operations.md by calling every operation.

    python docs/generate/quantized_operations.py

The script reads types, operations and methods from the registry, and takes the form
of each call from `mdtensor.support`. It replaces the text between `begin` and `end` and
keeps the prose.
tests/quant/test_promotion_table.py compares the page with what the calls give.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QParams
from mdtensor.support_table import Form, call_of, find_form

PAGE = Path(__file__).parents[1] / "reference" / "quantized-operations.md"

LEAVES = [kind for kind in md.leaves() if kind.device is md.cpu]
QUANTIZED = [kind for kind in LEAVES if issubclass(kind, quant.QuantizedTensor)]
#: The operands next to codes: dense tensors, and Python numbers.
NUMBERS: list[Any] = [True, 2, 0.5, 2j]
REAL: list[Any] = [kind for kind in LEAVES if kind not in QUANTIZED] + NUMBERS
OPERANDS: list[Any] = [*REAL, *QUANTIZED]
#: Scales of the operands; and another, which the result of no pair has.
SAME, OTHER, OUT = (0.5, 0.5), (0.5, 0.75), QParams(0.25)


class Called(NamedTuple):
    """An operation with the form of call that some element type takes."""

    function: Any
    form: Form

    @property
    def places(self) -> list[int]:
        """Return the positions of the tensors that may have any type."""
        fixed = dict(self.form.fixed)
        return [at for at in range(len(self.form.ranks)) if at not in fixed]

    @property
    def rounds(self) -> bool:
        return "out" in self.function.operation.options


def names_codes(operation: Any) -> bool:
    """Return whether a method has a parameter for quantized tensors."""
    hints = [
        hint
        for method in operation.methods
        for hint in method.signature.expand_varargs(len(operation.dispatched))
    ]
    classes = [c for hint in hints for c in getattr(hint, "__args__", (hint,))]
    known = [c for c in classes if isinstance(c, type)]
    return any(issubclass(c, quant.QuantizedTensor) for c in known)


@cache
def operations() -> dict[str, Called]:
    """Return all operations with a method for quantized tensors, by name.

    Raises:
        LookupError: it is not known how one of them is called.
    """
    found = {}
    # Not in the order of declaration, which depends on what was imported first.
    for name, function in sorted(md.operations().items()):
        if names_codes(function.operation):
            form = find_form(function.operation)
            if form is None:
                raise LookupError(f"no form of call was found for {name}")
            found[function.operation.name] = Called(function, form)
    return found


def of_operands(count: int) -> list[str]:
    """Return the operations that take `count` tensors of any type."""
    return [name for name, one in operations().items() if len(one.places) == count]


@cache
def value(kind: Any, shape: tuple[int, ...], scale: float) -> Any:
    """Return a tensor of ones; a Python number is returned as it is."""
    if not isinstance(kind, type):
        return kind
    ones = np.ones(shape, np.float32)
    if not issubclass(kind, quant.QuantizedTensor):
        return md.astype(md.from_numpy(ones), kind.dtype)  # type: ignore[attr-defined]
    codes = ones.astype(kind.dtype.storage)
    return kind(codes, scale=scale)


def prepared(
    name: str, kinds: tuple[Any, ...], scales: tuple[float, ...] = SAME
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments of these types, and the options of a call."""
    arguments, options = form_of(name, next(k for k in kinds if k in QUANTIZED))
    tensors = (at for at, x in enumerate(arguments) if isinstance(x, md.TensorSpec))
    made = list(arguments)
    found = iter(zip(kinds, scales, strict=False))
    for place, at in enumerate(tensors):
        spec = arguments[at]
        is_free = place in operations()[name].places
        kind, scale = next(found) if is_free else (spec.type, SAME[0])
        scale = 1.0 if name == "acosh" else scale  # its domain starts at 1
        made[at] = value(kind, spec.shape, scale)
    return made, options


@cache
def form_of(name: str, kind: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments without elements, and options, for tensors of one type."""
    function, form = operations()[name]
    return call_of(function.operation, kind, form)


def call(name: str, arguments: list[Any], **options: Any) -> Any:
    function = operations()[name].function
    if function.operation.sequence:
        return function(arguments, **options)
    return function(*arguments, **options)


def outcome(compute: Callable[[], Any]) -> str:
    """Return `QInt32`, or `PromotionError: <problem>. <fix>.`"""
    try:
        found = compute()
    except md.NoMethodError as error:
        fix = error.fix.split(". Nearest")[0]
        return f"NoMethodError: no method takes these types. {fix}."
    except md.MdtensorError as error:
        return f"{type(error).__name__}: {error.problem}. {error.fix}."
    if isinstance(found, tuple):
        return f"{short(type(found[0]))}, ..."
    return short(type(found))


class Cell(NamedTuple):
    """The results for one tuple of operand types.

    Args:
        alike: on grids of one scale: the name of the result's type, or an error.
        unlike: the same on grids of two scales.
        rounded: the same with `out=`; empty where the operation has none.
    """

    alike: str
    unlike: str
    rounded: str


@cache
def cell(name: str, *kinds: Any) -> Cell:
    def found(scales: tuple[float, ...] = SAME, **more: Any) -> str:
        arguments, options = prepared(name, kinds, scales)
        return outcome(lambda: call(name, arguments, **{**options, **more}))

    alike = found()
    both = all(kind in QUANTIZED for kind in kinds) and len(kinds) > 1
    unlike = found(OTHER) if both else alike
    return Cell(alike, unlike, found(out=OUT) if operations()[name].rounds else "")


def pairs() -> Iterator[tuple[Any, Any]]:
    """Yield all pairs with at least one quantized type."""
    for first, second in product(OPERANDS, OPERANDS):
        if first in QUANTIZED or second in QUANTIZED:
            yield first, second


class Notes:
    """Numbers for errors, in order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> str:
        if ": " not in text:
            return text
        grid = r"\(scale=.*?\)( of \w+)?"
        text = re.sub(rf"(; the grids? (is|are)|:) {grid}( and {grid})?", "", text)
        names = "|".join(operations())
        start = r"\w+: (the result of )?"
        text = re.sub(rf"^({start})({names}) ", r"\1the operation ", text)
        return f"E{self.numbers.setdefault(text, len(self.numbers) + 1)}"

    def shown(self, found: Cell) -> str:
        """Return the type of the result, such as `QInt32*` or `QInt8 →`.

        A star stands for equal grids only, an arrow for `out=`.
        """
        text = self(found.alike)
        if not text.startswith("E") and self(found.unlike).startswith("E"):
            text += "*"
        rounds = found.rounded and ": " not in found.rounded
        return f"{text} →" if rounds else text


def short(kind: Any) -> str:
    """Return `Int8` for a type, `int` for a Python number."""
    if isinstance(kind, type):
        return kind.__name__.removesuffix("Tensor")
    return f"`{type(kind).__name__}`"


def merged(lines: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Merge lines with the same cells and list all their names."""
    found: dict[tuple[str, ...], list[str]] = {}
    for head, cells in lines:
        found.setdefault(tuple(cells), []).append(head)
    return [(", ".join(heads), list(cells)) for cells, heads in found.items()]


def table_of_pairs(name: str, notes: Notes) -> str:
    """Return a table: rows are the first operand, columns the second."""

    def one(first: Any, second: Any) -> str:
        return notes.shown(cell(name, first, second))

    def row(first: Any) -> tuple[str, list[str]]:
        return short(first), [one(first, second) for second in QUANTIZED]

    rows = [*merged(list(map(row, REAL))), *map(row, QUANTIZED)]
    heads = list(map(short, QUANTIZED))
    behind = [(short(x), [one(q, x) for q in QUANTIZED]) for x in REAL]
    if behind != list(map(row, REAL)):
        for head, cells in merged(behind):
            heads.append(head)
            blank = [""] * (len(rows) - len(QUANTIZED))
            for (_, line), text in zip(rows, [*blank, *cells], strict=True):
                line.append(text)
    return markdown(heads, rows)


def table_of_ones(notes: Notes) -> str:
    """Return a table with a row for each operation."""
    rows = [
        (f"`{name}`", [notes.shown(cell(name, kind)) for kind in QUANTIZED])
        for name in of_operands(1)
    ]
    return markdown(list(map(short, QUANTIZED)), merged(rows))


def markdown(heads: list[str], rows: list[tuple[str, list[str]]]) -> str:
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    lines += [f"| **{head}** | {' | '.join(cells)} |" for head, cells in rows]
    return "\n".join(lines)


def tables() -> str:
    """Return all tables; operations with equal tables share one."""
    notes = Notes()
    groups: dict[str, list[str]] = {}
    for name in of_operands(2):
        groups.setdefault(table_of_pairs(name, notes), []).append(name)
    parts = [
        f"### {', '.join(f'`{name}`' for name in names)}\n\n{text}"
        for text, names in groups.items()
    ]
    parts += ["### One operand", table_of_ones(notes)]
    legend = [f"- **E{n}** {text}" for text, n in notes.numbers.items()]
    return "\n\n".join([*parts, "### Errors", "\n".join(legend)])


def page(text: str) -> str:
    """Return the page with its generated block written again."""
    marked = re.compile(r"(<!-- begin: tables -->).*?(<!-- end -->)", re.DOTALL)
    found = tables()
    return marked.sub(lambda m: f"{m[1]}\n\n{found}\n\n{m[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
