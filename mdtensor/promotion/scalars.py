"""Python numbers as elements."""

from __future__ import annotations

import sys
from math import ldexp
from numbers import Complex, Number, Real
from typing import Any

from mdtensor.dtypes import DType
from mdtensor.errors import CastError, OptionError, shown


def fit_scalar(value: Any, target: DType) -> Any:
    """`value` if an element of type `target` can hold it, else an error.

    Floats and complex numbers hold every number, rounded to nearest: too large is an
    infinity.

    Raises:
        OptionError: no number at all.
        CastError: no integer, or one outside the range of an integer `target`, or a
            complex number for a real one.
    """
    if not isinstance(value, Number):
        raise OptionError(f"{shown(value)} is no number", "Give a Python number")
    if target.is_complex:
        return value if isinstance(value, complex) else _as_float(value)
    if isinstance(value, Complex) and not isinstance(value, Real):
        raise CastError(f"{target} represents real numbers; cannot represent {value}")
    if target.is_floating:
        return value if isinstance(value, float) else _as_float(value)
    is_exact = target.is_integer or target.kind == "bool"
    if is_exact and not _is_element(value, target):
        raise CastError(
            f"{target} represents {target.minimum} to {target.maximum}; "
            f"cannot represent {shown(value)}",
            "Use astype(x, ...) to a wider type first",
        )
    return value


def _is_element(value: Any, target: DType) -> bool:
    return bool(target.minimum <= value <= target.maximum and value == int(value))


def _as_float(value: Any) -> Any:
    try:
        float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def shortened(value: Any, target: DType) -> Any:
    """`value`, or if it has more bits than float64, a float that rounds alike.

    The last of its 53 bits is 1 if any below it was: so rounding to the fewer bits of
    `target` sees no tie where there is none.

    Source: S. Boldo, G. Melquiond, "When double rounding is odd".
    """
    if not isinstance(value, int) or -(2**53) < value < 2**53:
        return value
    has_fractions = target.is_floating or target.is_complex
    is_narrow = has_fractions and target.maximum < sys.float_info.max
    if not is_narrow:
        return value
    rest = abs(value).bit_length() - 53
    size = abs(value) >> rest
    size |= size << rest != abs(value)
    return ldexp(-size if value < 0 else size, rest)
