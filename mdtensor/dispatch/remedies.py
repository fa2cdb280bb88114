"""Remedies for a call that no method accepts: advice for an argument, and casts.

The type of an argument may know ways to another type (`ways`), or have advice of its
own (`remedy`). Ways and casts are tried on the types of the call: an error names only
those after which a method exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from numbers import Number
from typing import Any

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.errors import CastError, DeviceError, DispatchError, PromotionError
from mdtensor.foreign import number_attribute

#: Target types of suggested casts, in this order; exact casts come before lossy ones.
CASTS = (
    dtypes.float32,
    dtypes.int64,
    dtypes.bool_,
    dtypes.float64,
    dtypes.complex64,
    dtypes.complex128,
)
_NUMBERS = (bool, int, float, complex)
#: Python types that `asarray` makes a tensor of.
VALUES = (list, tuple, range, *_NUMBERS)


def way_out(
    operation: Any, types: tuple[type, ...], culprit: type | None, name: str
) -> str:
    """Return the advice for the argument; it names only types that have a method."""
    if culprit is None or not hasattr(culprit, "ways"):
        return advice(culprit, name)
    found = []
    # Suggest only what works: each way is tried on the types before it is shown.
    for at, (words, _) in enumerate(culprit.ways()):
        changed = tuple(t.ways()[at][1] if hasattr(t, "ways") else t for t in types)
        selection = operation.find(changed)
        if selection and not _is_refused(selection):
            found.append(re.sub(r"\bx\b", name or "x", words))
    return f"Use {' or '.join(found)}" if found else ""


def advice(given: type | None, name: str) -> str:
    """Return the advice for an argument of the type `given`; may be empty."""
    x = name or "x"
    if given is None:
        return ""
    if given.__name__.lower().endswith("dtype"):
        return "Use astype(x, dtype) for another element type"
    if given.__module__.startswith("numpy") or given in VALUES:
        return f"Use asarray({x}) to make it a tensor"
    if hasattr(given, "__array__") and not hasattr(given, "with_dtype"):
        return _advice_for_array(given, x)
    if hasattr(given, "__dlpack__") and not hasattr(given, "with_dtype"):
        return f"Use from_dlpack({x}) to make it a tensor"
    if issubclass(given, Number):
        return f"Use float({x})"
    return str(getattr(given, "remedy", ""))


def _advice_for_array(given: type, x: str) -> str:
    """Return the advice for an array of another library."""
    numbers = number_attribute(given)
    return f"Use asarray({x}{numbers and '.'}{numbers}) to make it a tensor"


def working_casts(
    operation: Any, types: tuple[type, ...], nearest: Any, name: str
) -> Iterator[str]:
    """Yield casts of the tensors that do not fit, after which one method is found."""
    placed = list(zip(map(_open, types), nearest.fitting(types), strict=False))
    castable = [t for t, fits in placed if not fits]
    is_full = operation.sequence or len(types) == len(operation.dispatched)
    if not (is_full and castable and all(map(_is_plain, castable))):
        return
    sources = {t.dtype for t in castable}
    # The types of the other operands come first: a cast to one of them changes least.
    others = [t.dtype for t, fits in placed if fits and _is_plain(t)]
    known = [to for to in dict.fromkeys((*others, *CASTS)) if _is_allowed(sources, to)]
    x = name if len(castable) == 1 else "x"

    def found(to: DType) -> Any:
        try:
            cast = tuple(t if fits else t.with_dtype(to) for t, fits in placed)
        except DeviceError:  # it may have few tensor types
            return None
        return operation.find(cast)

    # Sorting is stable, so each group keeps the order of preference.
    for to in sorted(known, key=lambda to: bool(_loss(sources, to))):
        # An operation that accepts numbers would read a cast to bool as 0 and 1.
        is_useful = to is not dtypes.bool_ or not found(dtypes.int64)
        if is_useful and (selection := found(to)) and not _is_refused(selection):
            yield f"astype({x}, {to}){_loss(sources, to)}"


def _open(cls: type) -> Any:
    """Return `cls` as `Any`: the callers read attributes of tensor classes."""
    return cls


def _is_refused(selection: Any) -> bool:
    """Return whether the shape rule raises for these types, as without a common one."""
    kinds = selection.types
    if not all(kind in _NUMBERS or hasattr(kind, "spec") for kind in kinds):
        return False
    arguments = [k(1) if k in _NUMBERS else k.spec((2, 2)) for k in kinds]
    try:
        selection.deduce(*arguments)
    except (DeviceError, DispatchError, PromotionError, CastError):
        return True
    except Exception:  # the shapes and options are made up, so these errors say nothing
        return False
    return False


def _is_plain(cls: object) -> bool:
    """Return whether `cls` is a tensor type that `astype` casts."""
    dtype = getattr(cls, "dtype", None)
    return isinstance(dtype, DType) and (_is_number(dtype) or dtype.kind == "bool")


def _is_number(dtype: DType) -> bool:
    return dtype.is_integer or dtype.is_floating or dtype.is_complex


def _is_allowed(sources: set[DType], to: DType) -> bool:
    """Return whether `astype` casts to `to`: complex only to complex or bool."""
    keeps = to.is_complex or to.kind == "bool"
    return keeps or not any(dtype.is_complex for dtype in sources)


def _loss(sources: set[DType], to: DType) -> str:
    """Return the loss of a cast in words; empty if it is exact."""
    losing = [dtype for dtype in sources if not _is_exact(dtype, to)]
    if not losing:
        return ""
    keeps_integers = _is_number(to) and not to.is_integer
    if keeps_integers and all(dtype.is_integer for dtype in losing):
        return f", lossy beyond 2**{to.digits}"
    return ", lossy"


def _is_exact(dtype: DType, to: DType) -> bool:
    """Return whether `to` represents every value of `dtype`."""
    has_fractions = dtype.is_floating or dtype.is_complex
    keeps_fractions = to.is_floating or to.is_complex
    if has_fractions > keeps_fractions or dtype.is_complex > to.is_complex:
        return False
    return (
        to.minimum <= dtype.minimum
        and dtype.maximum <= to.maximum
        and dtype.digits <= to.digits
    )
