"""Validation of the arguments of `QParams`, and of codes.

Each function converts an argument to the form that a grid stores, or raises.
"""

from numbers import Integral
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from mdtensor import (
    CastError,
    DType,
    GridError,
    MdtensorError,
    ShapeError,
    dtype as find_dtype,
    from_numpy,
)
from mdtensor.errors import shown
from mdtensor.quant.dtypes import FLOATS, SYMMETRIC, codes_like, qint8, qint32, quint8

#: NumPy sizes and axes are below this.
MOST = 2**63
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


# A protocol, because `QParams` imports this module.
class Grid(Protocol):
    """The parts of `QParams` that `check_codes` reads."""

    @property
    def dtype(self) -> DType: ...

    @property
    def minimum(self) -> int: ...

    @property
    def maximum(self) -> int: ...

    def describe(self) -> str: ...


def code_dtype(given: object) -> DType:
    """Return the quantized element type `given`, a `DType` or its name."""
    dtype = given if type(given) is DType else find_dtype(given)
    if dtype.kind != "quantized":
        fix = f"Use {codes_like(dtype) or 'qint8 or quint8'}"
        raise GridError(f"{dtype} is not a quantized type", fix, "QParams")
    return dtype


#: Values in arrays of objects that NumPy would convert to numbers.
ODD = (type(None), str, bytes, np.datetime64, np.timedelta64)


def as_numbers(
    name: str, given: object, dtype: npt.DTypeLike | None = None
) -> npt.NDArray[Any]:
    """Return `given`, the argument `name`, as an array of real numbers."""
    try:
        given = _without_mask(given)
        found = np.asarray(given)
        is_odd = found.dtype.kind == "O" and any(isinstance(x, ODD) for x in found.flat)
        # NumPy would turn None into NaN, a bool into 0 or 1, and read dates and texts.
        if is_odd or found.dtype.kind in "bmMUS":
            raise TypeError
        # NumPy would drop the imaginary part of a complex number with a warning.
        if found.dtype.kind != "c":
            found = np.asarray(given, dtype)
    except (TypeError, ValueError, OverflowError, MdtensorError):
        # An array of a type that the next test rejects.
        found = np.asarray(None)
    if found.dtype.kind not in "iuf":
        raise GridError(
            f"{name} is a {type(given).__name__} that does not hold numbers",
            "Give a number, or one for each index of axis",
            "QParams",
        )
    return found


def _without_mask(given: object) -> object:
    """Return a masked array as an ordinary one, and all else unchanged.

    Raises:
        CastError: an element is masked.
    """
    # Only then is numpy.ma imported, which takes a part of the first call's time.
    is_subclass = isinstance(given, np.ndarray) and type(given) is not np.ndarray
    is_masked = is_subclass and isinstance(given, np.ma.MaskedArray)
    return np.asarray(from_numpy(given)) if is_masked else given


def check_axis(given: object) -> int | None:
    """Return the axis along which scales differ; raise if it is not an axis."""
    if given is None:
        return None
    # A grid does not know the rank of its tensor, so an axis cannot count from the end.
    # NumPy's spans of time are integers, too, and are converted to other classes.
    is_integer = isinstance(given, Integral) and not isinstance(given, np.timedelta64)
    at = int(cast(Any, given)) if is_integer else -1
    if not 0 <= at < MOST:
        raise GridError(
            f"axis is {shown(given)}",
            "Count axes from the front, starting at 0",
            "QParams",
        )
    return at


def check_block_size(given: object, axis: int | None) -> int | None:
    """Return the number of indices of `axis` that share a scale; raise if invalid."""
    if given is None:
        return None
    # True is an integer in Python, but not a size.
    if (
        not isinstance(given, Integral)
        or isinstance(given, bool)
        or not 1 <= int(given) < MOST
    ):
        raise GridError(
            f"block_size is {shown(given)}", "Use an integer of 1 or more", "QParams"
        )
    if axis is None:
        raise GridError(
            f"block_size={given} without an axis",
            "Pass the axis that is divided into blocks",
            "QParams",
        )
    return int(given)


def check_granularity(
    scales: FloatArray, zeros: IntArray, axis: int | None, block_size: int | None
) -> None:
    """Raise unless the shape of the scales fits `axis` and `block_size`.

    There is one scale for the tensor, for each index of `axis`, or for each block; and
    one zero point, or one for each scale.
    """
    if block_size is None and scales.ndim != (axis is not None):
        raise GridError(
            f"{scales.size} scales with axis={shown(axis)}",
            "Give one number, or a sequence and its axis",
            "QParams",
        )
    if block_size is not None and axis is not None and axis >= scales.ndim:
        raise GridError(
            f"scales of shape {scales.shape} with axis={axis}, block_size={block_size}",
            "Give them the shape of the tensor, with one for each block of the axis",
            "QParams",
        )
    if zeros.shape not in ((), scales.shape):
        raise GridError(
            f"{zeros.size} zero points for {scales.size} scales",
            "Give one, or one for each scale",
            "QParams",
        )


def check_flag(name: str, given: object, where: str = "grid_of") -> None:
    """Raise unless `given` is True or False."""
    if not isinstance(given, bool):
        raise GridError(f"{name} is {shown(given)}", "Use True or False", where)


def check_narrow(narrow_range: object, dtype: DType) -> bool:
    """Return whether the smallest code is excluded; raise if `dtype` does not allow it.

    Accumulators and 8-bit floats do not: narrow codes are for symmetric weights.
    """
    check_flag("narrow_range", narrow_range, "QParams")
    if narrow_range and (dtype is qint32 or dtype.storage.kind not in "iu"):
        raise GridError(
            f"{dtype} does not have a narrow range",
            "Use narrow_range=True with integers of at most 16 bits",
            "QParams",
        )
    return bool(narrow_range)


def check_scales(exact: FloatArray, dtype: DType) -> FloatArray:
    """Return the scales, rounded to float32 except for accumulators; raise if invalid.

    A scale is finite, positive and normal: kernels divide by it.
    """
    # ONNX stores float32 scales. An accumulator's scale is a product of two of them,
    # which only float64 represents.
    narrow = dtype is not qint32
    with np.errstate(over="ignore", under="ignore"):
        rounded = exact.astype(np.float32).astype(np.float64) if narrow else exact
    smallest = float(np.finfo(np.float32 if narrow else np.float64).tiny)
    if not (np.isfinite(rounded) & (rounded >= smallest)).all():
        worst = exact.reshape(-1)[~(rounded.reshape(-1) >= smallest)][:1]
        text = f"{worst[0]:g}" if worst.size else "infinite"
        raise GridError(
            f"a scale is {text}",
            f"Use finite numbers of {smallest:.3g} or more",
            "QParams",
        )
    return rounded


def check_range(low: object, high: object) -> tuple[float, float]:
    """Return the range [low, high], extended to contain 0; raise if it is invalid."""
    given = as_numbers("a range", [low, high], np.float64)
    if given.shape != (2,) or not np.isfinite(given).all() or given[0] > given[1]:
        raise GridError(
            f"a range is {shown(low)} to {shown(high)}",
            "Give finite numbers, the lower one first",
            "grid_of",
        )
    return min(float(given[0]), 0.0), max(float(given[1]), 0.0)


def check_zero_points(given: npt.NDArray[Any], dtype: DType, minimum: int) -> IntArray:
    """Return the zero points; raise unless they are codes of `dtype` from `minimum`.

    For symmetric types they must be 0.
    """
    low, high = (0, 0) if dtype in SYMMETRIC else (minimum, int(dtype.maximum))
    whole = given.dtype.kind in "iu" or bool((given == np.rint(given)).all())
    if not whole or (given < low).any() or (given > high).any():
        fix = f"integers from {low} to {high}" if low < high else "0"
        raise GridError(
            f"a zero point is not a code of {dtype}: given {_span(given)}",
            f"Use {fix}{_suggest_other_sign(dtype, given) if whole else ''}",
            "QParams",
        )
    return given.astype(np.int64)


def _suggest_other_sign(dtype: DType, given: npt.NDArray[Any]) -> str:
    """Return a hint to the other 8-bit type if all of `given` are codes of it."""
    other = {qint8: quint8, quint8: qint8}.get(dtype)
    if other is None or given.min() < other.minimum or given.max() > other.maximum:
        return ""
    return f", or dtype={str(other)!r}"


def _span(values: npt.NDArray[Any]) -> str:
    low, high = values.min(), values.max()
    return f"{low}" if low == high else f"{low} to {high}"


def as_float_bytes(codes: object, dtype: DType) -> object:
    """Return the bytes of an array of 8-bit floats; return integers unchanged."""
    try:
        found = np.asarray(codes)
    except ValueError:
        problem = "codes are rows of different lengths"
        raise ShapeError(problem, "Give rows of one length") from None
    if found.dtype == dtype.storage:
        return found.view(np.uint8)
    if found.size and found.dtype.kind not in "iu":
        raise CastError(
            f"codes of {dtype} are bytes or {dtype.storage}, not {found.dtype}",
            f"Use quantize(asarray(a), QParams(s, dtype={str(dtype)!r})) for real "
            f"values, or an array of {dtype.storage} for codes",
        )
    # NumPy makes an empty list an array of float64.
    return codes if found.size else found.astype(np.uint8)


def _as_integers(codes: object, dtype: DType) -> object:
    """Return lists and arrays of integers as arrays; raise for floats.

    All else is returned unchanged: the constructor of a plain tensor raises for it.
    """
    if not isinstance(codes, (list, tuple, int, float, np.ndarray)):
        return codes
    try:
        found = np.asarray(codes)
    except (ValueError, TypeError, OverflowError, MdtensorError):
        return codes
    # Floats are probably real numbers that should be quantized, even if they are whole.
    if found.size and found.dtype.kind == "f":
        raise CastError(
            f"codes are integers, given {found.dtype} values {_span(found)}",
            f"Use quantize(asarray(a), QParams(s, dtype={str(dtype)!r})) for real "
            "values",
        )
    return found if found.dtype.kind in "iu" else codes


def as_storage(codes: object, dtype: DType, stored: np.dtype[Any]) -> object:
    """Return arrays and lists of integers as arrays of the type `stored`.

    All else is returned unchanged.

    Raises:
        CastError: an integer is not a code, a code is masked, or `codes` are real
            numbers, which must be quantized first.
    """
    codes, is_float = _without_mask(codes), dtype in FLOATS
    codes = as_float_bytes(codes, dtype) if is_float else _as_integers(codes, dtype)
    if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iu":
        return codes
    if codes.dtype == stored:
        return codes
    ends = np.iinfo(stored)
    if codes.size and not ends.min <= codes.min() <= codes.max() <= ends.max:
        raise CastError(
            f"codes are from {ends.min} to {ends.max}, given {_span(codes)}",
            "Use quantize, which saturates",
        )
    return codes.astype(stored)


def check_codes(codes: npt.NDArray[Any], grid: Grid) -> None:
    """Raise unless all `codes` are in the range of `grid`.

    The range may exclude the smallest code of its type (narrow range).
    """
    # Every byte is a code of an 8-bit float.
    if grid.dtype in FLOATS or not codes.size:
        return
    low, high = codes.min(), codes.max()
    if low < grid.minimum or high > grid.maximum:
        raise CastError(
            f"({grid.describe()}) has codes from {grid.minimum} to {grid.maximum}, "
            f"given {low} to {high}",
            "Use quantize, which saturates",
        )
