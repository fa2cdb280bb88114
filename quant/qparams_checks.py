"""What makes no grid: types that are no codes, numbers that are no steps or zeros.

Each function gives what it was given in the form that a grid keeps, or refuses it.
"""

from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import (
    CastError,
    DType,
    GridError,
    MdtensorError,
    ShapeError,
    dtype as find_dtype,
)
from mdtensor.errors import shown
from mdtensor.quant.dtypes import FLOATS, SYMMETRIC, codes_like, qint8, qint32, quint8

#: What NumPy counts stays below.
MOST = 2**63
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def code_dtype(given: Any) -> DType:
    """Return the type of codes `given`, an element type or its name."""
    dtype = given if type(given) is DType else find_dtype(given)
    if dtype.kind != "quantized":
        fix = f"Use {codes_like(dtype) or 'qint8 or quint8'}"
        raise GridError(f"{dtype} is no type of codes", fix, "QParams")
    return dtype


def numbers(name: str, given: Any, dtype: Any = None) -> npt.NDArray[Any]:
    """`given` as an array of real numbers."""
    try:
        found = np.asarray(given)
        is_odd = found.dtype.kind == "O" and any(x is None for x in found.flat)
        if is_odd or found.dtype.kind == "b":
            raise TypeError  # of which NumPy would make NaN, and 0 or 1
        if found.dtype.kind != "c":  # of which NumPy would drop a part, and warn
            found = np.asarray(given, dtype)
    except (TypeError, ValueError, OverflowError, MdtensorError):
        found = np.asarray(None)
    if found.dtype.kind not in "iuf":
        raise GridError(
            f"{name} is a {type(given).__name__} that holds no numbers",
            "Give a number, or one for each index of axis",
            "QParams",
        )
    return found


def axis_of(given: Any) -> int | None:
    """The axis along which scales differ."""
    if given is None:
        return None
    if not isinstance(given, Integral) or not 0 <= int(given) < MOST:
        raise GridError(
            f"axis is {shown(given)}", "Count it from the front, from 0", "QParams"
        )
    return int(given)


def block_size_of(given: Any, axis: int | None) -> int | None:
    """How many indices of `axis` share a scale, if they do."""
    if given is None:
        return None
    is_size = isinstance(given, Integral) and not isinstance(given, bool)
    if not is_size or not 1 <= int(given) < MOST:
        raise GridError(
            f"block_size is {shown(given)}", "Use an integer from 1", "QParams"
        )
    if axis is None:
        raise GridError(
            f"block_size={given} without an axis",
            "Name the axis that is cut into blocks",
            "QParams",
        )
    return int(given)


def check_granularity(
    scales: FloatArray, zeros: IntArray, axis: int | None, block_size: int | None
) -> None:
    """Refuse scales of another shape than one grid a tensor, index or block has."""
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
            "Give one, or as many as scales",
            "QParams",
        )


def check_flag(name: str, given: Any, where: str = "grid_of") -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(given, bool):
        raise GridError(f"{name} is {shown(given)}", "Use True or False", where)


def check_narrow(narrow_range: Any, dtype: DType) -> bool:
    """Whether the smallest code is left out."""
    check_flag("narrow_range", narrow_range, "QParams")
    if narrow_range and (dtype is qint32 or dtype.storage.kind not in "iu"):
        raise GridError(
            f"{dtype} has no narrow range", "It is for integers to 16 bits", "QParams"
        )
    return bool(narrow_range)


def steps(exact: FloatArray, dtype: DType) -> FloatArray:
    """The scales, rounded to float32 unless those of accumulators."""
    narrow = dtype is not qint32
    with np.errstate(over="ignore", under="ignore"):
        rounded = exact.astype(np.float32).astype(np.float64) if narrow else exact
    smallest = float(np.finfo(np.float32 if narrow else np.float64).tiny)
    if not (np.isfinite(rounded) & (rounded >= smallest)).all():
        worst = exact.reshape(-1)[~(rounded.reshape(-1) >= smallest)][:1]
        text = f"{worst[0]:g}" if worst.size else "infinite"
        raise GridError(
            f"a scale is {text}",
            f"Use finite numbers from {smallest:.3g} on",
            "QParams",
        )
    return rounded


def ends(low: Any, high: Any) -> tuple[float, float]:
    """A range, widened to hold 0."""
    given = numbers("a range", [low, high], np.float64)
    if given.shape != (2,) or not np.isfinite(given).all() or given[0] > given[1]:
        raise GridError(
            f"a range is {shown(low)} to {shown(high)}",
            "Give finite numbers, the lower one first",
            "grid_of",
        )
    return min(float(given[0]), 0.0), max(float(given[1]), 0.0)


def zero_points(given: npt.NDArray[Any], dtype: DType, minimum: int) -> IntArray:
    """The zero points: codes from `minimum` on, 0 for symmetric types."""
    low, high = (0, 0) if dtype in SYMMETRIC else (minimum, int(dtype.maximum))
    whole = given.dtype.kind in "iu" or bool((given == np.rint(given)).all())
    if not whole or (given < low).any() or (given > high).any():
        fix = f"integers from {low} to {high}" if low < high else "0"
        raise GridError(
            f"a zero point is no code of {dtype}: given {_span(given)}",
            f"Use {fix}{_signed_otherwise(dtype, given) if whole else ''}",
            "QParams",
        )
    return given.astype(np.int64)


def _signed_otherwise(dtype: DType, given: npt.NDArray[Any]) -> str:
    """The other type of 8 bits, if it has these codes."""
    other = {qint8: quint8, quint8: qint8}.get(dtype)
    if other is None or given.min() < other.minimum or given.max() > other.maximum:
        return ""
    return f", or dtype={str(other)!r}"


def _span(values: npt.NDArray[Any]) -> str:
    low, high = values.min(), values.max()
    return f"{low}" if low == high else f"{low} to {high}"


def bytes_of(codes: Any, dtype: DType) -> Any:
    """The bytes of 8-bit floats; integers are taken as they are."""
    try:
        found = np.asarray(codes)
    except ValueError:
        problem = "codes are rows of different lengths"
        raise ShapeError(problem, "Give rows of one length") from None
    if found.dtype == dtype.storage:
        return found.view(np.uint8)
    if found.size and found.dtype.kind not in "iu":
        raise CastError(
            f"codes of {dtype} are the bytes of its floats, not {found.dtype}",
            f"Use quantize(asarray(a), QParams(s, dtype={str(dtype)!r})) for numbers, "
            f"an array of {dtype.storage} for such floats",
        )
    return codes if found.size else found.astype(np.uint8)


def _counted(codes: Any, dtype: DType) -> Any:
    """Lists of integers as arrays; numbers that are no integers are refused."""
    if not isinstance(codes, (list, tuple, int, float, np.ndarray)):
        return codes
    try:
        found = np.asarray(codes)
    except (ValueError, TypeError, OverflowError, MdtensorError):
        return codes
    if found.size and found.dtype.kind == "f":
        raise CastError(
            f"codes are integers, given {found.dtype} values {_span(found)}",
            f"Use quantize(asarray(a), QParams(s, dtype={str(dtype)!r})) for numbers",
        )
    return found if found.dtype.kind in "iu" else codes


def as_stored(codes: Any, dtype: DType, stored: np.dtype[Any]) -> Any:
    """Arrays and lists of integers as arrays that hold codes; all else as it is.

    Raises:
        CastError: integers that are no codes, or numbers, which want a grid.
    """
    codes = bytes_of(codes, dtype) if dtype in FLOATS else _counted(codes, dtype)
    is_array = isinstance(codes, np.ndarray) and codes.dtype.kind in "iu"
    if not is_array or codes.dtype == stored:
        return codes
    ends = np.iinfo(stored)
    if codes.size and not ends.min <= codes.min() <= codes.max() <= ends.max:
        raise CastError(
            f"codes are from {ends.min} to {ends.max}, given {_span(codes)}",
            "Use quantize, which saturates",
        )
    return codes.astype(stored)


def check_codes(codes: npt.NDArray[Any], grid: Any) -> None:
    """Refuse codes that the type of a grid, or its narrow range, has not."""
    if grid.dtype in FLOATS or not codes.size:
        return
    low, high = codes.min(), codes.max()
    if low < grid.minimum or high > grid.maximum:
        raise CastError(
            f"({grid.describe()}) has codes from {grid.minimum} to {grid.maximum}, "
            f"given {low} to {high}",
            "Use quantize, which saturates",
        )
