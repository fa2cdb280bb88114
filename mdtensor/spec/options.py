"""Validation of options: numbers, names and bools that are not dispatched on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor.dtypes import DType
from mdtensor.errors import OptionError, shown
from mdtensor.foreign import is_plain

_SEPARATORS = tuple(filter(None, (os.sep, os.altsep)))
#: The names of an element type, all of which `dtype` understands.
DTypeName = DType | str | type | np.dtype[Any]


def number(value: Any, name: str, least: float | None = None) -> float:
    """Return `value` as a float, infinite if it is too large, or raise `OptionError`.

    Raises:
        OptionError: `value` is not a real number, or is below `least`.

    Example:
        >>> number(1, "eps"), number(2.5, "p", least=0)
        (1.0, 2.5)
    """
    given = value

    # The text is made for an error only: calls that read options are many.
    def refuse(fix: str) -> OptionError:
        bound = "" if least is None else f" of at least {least}"
        problem = f"{name} must be a real number{bound}, but is {shown(given)}"
        return OptionError(problem, fix)

    # Python's own numbers, the usual case, need no look for masks and units.
    if type(value) not in (float, int):
        if not is_plain(value):
            raise refuse("Give a number that is not masked, without a unit")
        # Tensors of one number, but not of one bool, are numbers as well.
        # NumPy's types have the shape of a number, too.
        is_array = getattr(value, "shape", None) == () and hasattr(value, "item")
        if is_array and not isinstance(value, np.generic):
            value = value.item()
        # A bool is an int to Python, but `eps=True` is a mistake.
        if not isinstance(value, Real) or isinstance(value, bool):
            raise refuse("Give a number, not a str or bool")
    try:
        found = float(value)
    except OverflowError:
        # An integer beyond float64 rounds to infinity, as in fit_scalar.
        found = float("inf") if abs(value) == value else float("-inf")
    # Written with `not`, so that NaN is rejected as well.
    if least is not None and not found >= least:
        raise refuse(f"Give {least} or more")
    return found


def choice(value: object, name: str, known: Sequence[str]) -> str:
    """Return `value` if it is one of the `known` names, or raise `OptionError`.

    Raises:
        OptionError: `value` is something else.
    """
    if not isinstance(value, str) or value not in known:
        listed = ", ".join(map(repr, known))
        raise OptionError(f"{name} is {shown(value)}", f"Use one of {listed}")
    return value


def flag(value: object, name: str) -> bool:
    """Return `value` if it is True or False, or raise `OptionError`.

    Raises:
        OptionError: `value` is something else.
    """
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {shown(value)}", "Use True or False")
    return value


def file_path(value: Any, name: str) -> Path:
    """Return `value` as the path of a file, which need not exist.

    Raises:
        OptionError: the value is neither a str nor a path, or not a valid file name,
            such as one that ends in a slash.
    """
    try:
        found = Path(value)
        # The system would raise a ValueError for a null byte only when the file is
        # opened.
        is_name = b"\0" not in os.fsencode(found)
    except (TypeError, UnicodeEncodeError):
        is_name = False
    if not is_name:
        raise OptionError(f"{name} is {shown(value)}", "Pass a str or a pathlib.Path")
    # `Path` drops the slash, so a file would get the name that a folder should have.
    if os.fsdecode(value).endswith(_SEPARATORS):
        problem = f"{name} is {shown(value)}, the name of a folder"
        raise OptionError(problem, "Add the name of a file")
    return found
