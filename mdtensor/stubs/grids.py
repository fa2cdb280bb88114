"""Grids that know of which type the tensors on them are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from mdtensor.dtypes import DType
from mdtensor.stubs.render import function
from mdtensor.stubs.sources import Skeleton
from mdtensor.tensor import leaf

VARIABLE = "_T_co"


def skeleton(grid: type) -> Skeleton:
    """The stub of the module of a class of grids, which is generic in the tensors.

    Args:
        grid: its `dtype` is the tensors', given to `__init__` or with a default there.
    """
    made = [line[4:] for line in function("__init__", list(_made(grid)))]
    bases = {grid.__name__: f"Generic[{VARIABLE}]"}
    return Skeleton({"__init__": made}, bases, {"dtype": f"DType[{VARIABLE}]"})


def _made(grid: type) -> Iterator[str]:
    """`__init__` without a dtype, which is of the default's tensors, and with one."""
    given = list(inspect.signature(grid).parameters.values())
    default = next(p.default for p in given if p.name == "dtype")
    if isinstance(default, DType):
        own = f"{grid.__name__}[{leaf(default).__name__}]"
        yield _signature([p for p in given if p.name != "dtype"], f"self: {own}")
    yield _signature(given, "self")


def _signature(given: list[inspect.Parameter], first: str) -> str:
    words, is_named = [first], False
    for p in given:
        if p.kind is p.KEYWORD_ONLY and not is_named:
            words, is_named = [*words, "*"], True
        hint = inspect.formatannotation(p.annotation).replace("typing.", "")
        if p.name == "dtype":
            words.append(f"dtype: DType[{VARIABLE}]")
        else:
            default = "" if p.default is p.empty else f" = {p.default!r}"
            words.append(f"{p.name}: {hint}{default}")
    return f"({', '.join(words)}) -> None"
