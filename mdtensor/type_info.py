"""Limits and kinds of element types, with the functions of the array API.

finfo(float32).eps           # the precision of a floating type
iinfo(int8).max              # the largest value of an integer type
isdtype(uint8, "integral")   # the kind of a type
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.errors import OptionError, shown

#: Names of groups of kinds.
KINDS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("integral", "real floating", "complex floating"),
}


class FloatInfo(NamedTuple):
    """Limits of a floating type; see `finfo`."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """Limits of an integer type; see `iinfo`."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: object, /) -> FloatInfo:
    """Return the limits of a floating type; for a complex type, of its real part.

    Args:
        type: an element type, a name for one, or a tensor.

    Returns:
        `bits` of one number, `eps` (the distance from 1 to the next number), `min` and
        `max` of the finite numbers, `smallest_normal`, all as Python numbers; and
        `dtype`.

    Raises:
        OptionError: `type` is not a floating or complex type.

    Example:
        >>> finfo("bfloat16").eps, finfo("complex128").dtype
        (0.0078125, mdtensor.float64)

    Source: array API 2024.12, `finfo`.
    """
    found = _element_type(type)
    # A complex number is two floats of half its width.
    if found.is_complex:
        found = dtypes.dtype(f"float{found.bits // 2}")
    if not found.is_floating:
        fix = "Use iinfo" if found.is_integer else ""
        raise OptionError(f"{found} is not a floating type", fix, "finfo")
    # Imported late: NumPy's own function does not know bfloat16 (decision 0091).
    import ml_dtypes

    numbers: Any = ml_dtypes.finfo(found.storage)  # type: ignore[no-untyped-call]
    return FloatInfo(
        bits=found.bits,
        eps=float(numbers.eps),
        max=float(numbers.max),
        min=float(numbers.min),
        smallest_normal=float(numbers.smallest_normal),
        dtype=found,
    )


def iinfo(type: object, /) -> IntegerInfo:
    """Return the limits of an integer type.

    Args:
        type: an element type, a name for one, or a tensor.

    Returns:
        `bits`, `min` and `max`, Python integers; and `dtype`.

    Raises:
        OptionError: `type` is not an integer type.

    Example:
        >>> iinfo("int8").min, iinfo("uint64").max == 2**64 - 1
        (-128, True)

    Source: array API 2024.12, `iinfo`.
    """
    found = _element_type(type)
    if not found.is_integer:
        fix = "Use finfo" if found.is_floating or found.is_complex else ""
        raise OptionError(f"{found} is not an integer type", fix, "iinfo")
    return IntegerInfo(found.bits, int(found.maximum), int(found.minimum), found)


def isdtype(dtype: object, kind: object) -> bool:
    """Return whether an element type is of a kind.

    Args:
        dtype: an element type, or a name for one.
        kind: an element type, which must be the same; a name: `bool`, `signed integer`,
            `unsigned integer`, `integral`, `real floating`, `complex floating`,
            `numeric`, or the kind of a registered type such as `quantized`; or a tuple
            of these, of which one must fit.

    Raises:
        OptionError: there is no such kind.

    Example:
        >>> isdtype("int8", "integral"), isdtype("bool", ("integral", "real floating"))
        (True, False)

    Source: array API 2024.12, `isdtype`.
    """
    found = dtypes.dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, member) for member in kind)
    if isinstance(kind, DType):
        return found is kind
    if not isinstance(kind, str) or kind not in (*KINDS, *dtypes.kinds()):
        names = ", ".join([*dtypes.kinds(), *KINDS])
        raise OptionError(f"no kind {shown(kind)}", f"Known are {names}", "isdtype")
    return found.kind == kind or isdtype(found, KINDS.get(kind, ()))


def _element_type(type: object) -> DType:
    found = getattr(type, "dtype", None)
    return found if isinstance(found, DType) else dtypes.dtype(type)
