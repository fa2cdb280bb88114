"""Checks of the library in the working directory: `python check.py CHANGE`.

All three libraries pass the same, before a change and after it: existing
types work as before, the new part works, and calls without a meaning still raise.
"""

import importlib.util
import sys
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))
import library

X, Y = [100, -3, 0, 7], [100, 2, -5, 7]
#: What saturates, and where.
RANGES = {"int8": (-128, 127), "int32": (-(2**31), 2**31 - 1), "fixed8": (-8, 127 / 16)}


def module(name: str) -> Any:
    """A part of the library, wherever it is kept: inside it, or beside it."""
    inside = importlib.util.find_spec(f"library.{name}") is not None
    return importlib.import_module(f"library.{name}" if inside else name)


def tensor(kind: str, values: list[float]) -> Any:
    codes = [round(v * 16) for v in values] if kind == "fixed8" else values
    if hasattr(library, "DType"):
        return library.Tensor(codes, library.DType[kind.upper()])
    home = module("fixed8") if kind == "fixed8" else library
    return getattr(home, kind.title())(codes)


def held(kind: str, value: float) -> float:
    low, high = RANGES.get(kind, (-float("inf"), float("inf")))
    if kind == "fixed8":
        value = round(value * 16) / 16
    return min(max(value, low), high)


def joint(first: str, second: str) -> str | None:
    """The type of a result; none where two do not mix."""
    if "float32" in (first, second):
        return "float32"
    return first if first == second else None


def elements(kind: str, values: list[int]) -> list[float]:
    """Whole numbers; for Fixed8, whole sixteenths."""
    return [value / 16 for value in values] if kind == "fixed8" else list(values)


def check(kinds: list[str], functions: dict[str, Any]) -> None:
    for first, second in product(kinds, repeat=2):
        kind = joint(first, second)
        x, y = tensor(first, elements(first, X)), tensor(second, elements(second, Y))
        pairs = list(zip(library.values(x), library.values(y), strict=True))
        for name, exact in functions.items():
            home = module(name) if name == "maximum" else library
            function = getattr(home, name)
            if kind is None:
                refused(function, x, y)
                continue
            wanted = [held(kind, exact(a, b)) for a, b in pairs]
            found = library.values(function(x, y))
            assert found == wanted, (name, first, second, found, wanted)
        assert library.total(x) == sum(library.values(x)), first


def refused(function: Any, x: Any, y: Any) -> None:
    try:
        function(x, y)
    except TypeError:
        return
    raise AssertionError(f"{function} takes {x} and {y}")


def main(change: str) -> None:
    kinds = ["float32", "int32", "int8"]
    functions = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}
    check(kinds, functions)
    if change in ("add_type", "add_both"):
        module("fixed8")
        check([*kinds, "fixed8"], functions)
    if change in ("add_operation", "add_both"):
        check(kinds, functions | {"maximum": max})
    if change == "add_both":
        if importlib.util.find_spec("fixed8_maximum"):
            importlib.import_module("fixed8_maximum")
        check([*kinds, "fixed8"], functions | {"maximum": max})


if __name__ == "__main__":
    main(sys.argv[1])
