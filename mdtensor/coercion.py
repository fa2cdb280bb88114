"""Conversion of Python values and NumPy arrays to the host buffers of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.errors import CastError, MdtensorError, ShapeError
from mdtensor.foreign import require_plain
from mdtensor.promotion import (
    DEFAULT_COMPLEX,
    DEFAULT_FLOAT,
    DEFAULT_INTEGER,
    fit_scalar,
    promote_types,
    round_to_odd,
    wider_type,
    with_scalar,
)

#: Python's number types; each one represents all values of the types before it.
_NUMBERS = (bool, int, float, complex)
_READ = frozenset(_NUMBERS)
#: NumPy's own limit on axes.
_DEEPEST = 64


def host_array(values: object, dtype: DType) -> npt.NDArray[Any]:
    """Return `values` as a NumPy array of the storage type of `dtype`.

    Raises:
        CastError: `dtype` cannot represent a value, or an array has another type, or
            masked elements.
        ShapeError: sequences are ragged.
    """
    if isinstance(values, (np.ndarray, np.generic)):
        require_plain(values)
        if values.dtype != dtype.storage:
            raise CastError(
                f"the array holds {values.dtype}, not {dtype}",
                f"Use astype(asarray(a), {dtype})",
            )
        return np.asarray(values)
    return typed_array(values, dtype)[1]


def typed_array(
    values: object, dtype: DType | None = None
) -> tuple[DType, npt.NDArray[Any]]:
    """Return the element type of `values` and a NumPy array of them.

    Without `dtype`, NumPy scalars, arrays and tensors in a sequence determine the type,
    and Python numbers are weak. Python numbers alone give bool, int64, float32 or
    complex64, and uint64 for integers from 2**63 on.

    Raises:
        CastError: the type cannot represent a value, or an element is masked.
        PromotionError: there is no common type.
        ShapeError: sequences are ragged.

    Example:
        >>> typed_array([1, 2.5])[0], typed_array([np.uint8(1), 2])[0]
        (mdtensor.float32, mdtensor.uint8)
    """
    try:
        types = _element_types(values, _DEEPEST)
        if not types <= _READ:
            _check_numbers(types)
        found = _natural_array(values, types)
        chosen = dtype or _natural_dtype(types, found)
        return chosen, _from_python(found, chosen)
    except MdtensorError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise ShapeError(
            "the values do not form an array of numbers",
            "Give numbers, or sequences of equal length",
        ) from error


def _check_numbers(types: set[Any]) -> None:
    """Raise for numbers that NumPy must not compute with, such as named sizes."""
    for found in types:
        if getattr(found, "__array_ufunc__", found) is None:
            problem = f"a {found.__name__} is not a number before the operation runs"
            raise CastError(problem, "Give numbers")


def _natural_dtype(types: set[Any], found: npt.NDArray[Any]) -> DType:
    # A NumPy scalar in a list has a type of its own, which Python numbers follow.
    strong, weak = _split_types(types)
    if strong:
        return _with_scalars(promote_types(*strong), weak)
    if weak and weak[-1] is int and found.size and found.min() >= 0:
        is_large = found.max() > DEFAULT_INTEGER.maximum
        return dtypes.uint64 if is_large else DEFAULT_INTEGER
    # Python floats become float32 and not float64, as in PyTorch and JAX.
    alone = {bool: dtypes.bool_, int: DEFAULT_INTEGER, complex: DEFAULT_COMPLEX}
    return alone.get(weak[-1], DEFAULT_FLOAT) if weak else DEFAULT_FLOAT


# Not cached: the types may be classes of the caller, which a cache would keep alive.
def _split_types(types: set[Any]) -> tuple[list[DType], list[type]]:
    """Return the element types among `types`, and the kinds of Python numbers."""
    if types.issubset(_NUMBERS):
        return [], [kind for kind in _NUMBERS if kind in types]
    strong = [kind for kind in types if isinstance(kind, DType)]
    weak: list[type] = [
        kind for kind in _NUMBERS if any(_is_number(t, kind) for t in types)
    ]
    return strong, weak


def _element_types(values: object, depth: int) -> set[Any]:
    """Return the types of Python numbers in nested sequences, and all dtypes."""
    if hasattr(values, "dtype"):
        return {_dtype_of(values)}
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        require_plain(values)
        return {type(values)}
    # A list of plain numbers, the usual case, needs no call for each element.
    found: set[Any] = set(map(type, values))
    if found.issubset(_NUMBERS) or not depth:
        return found
    return set().union(*(_element_types(value, depth - 1) for value in values))


def _dtype_of(value: Any) -> DType:
    require_plain(value)
    own = value.dtype
    return own if isinstance(own, DType) else dtypes.dtype(np.asarray(value).dtype)


def _is_number(found: object, kind: type) -> bool:
    """Return whether `found` is a number class of exactly this kind."""
    if not isinstance(found, type) or not issubclass(found, kind):
        return False
    return kind is not int or not issubclass(found, bool)


def _with_scalars(strong: DType, weak: Sequence[type]) -> DType:
    for kind in weak:
        strong = with_scalar(strong, kind)
    return strong


def _natural_array(values: object, types: set[Any]) -> npt.NDArray[Any]:
    """Return `values` as NumPy reads them, but with exact integers of any size.

    `types` are the types of the elements. NumPy makes floats of [1, 2**63]; here they
    stay Python integers. NumPy makes objects of bfloat16 and other foreign floats; here
    they become floats.
    """
    found = np.array(values)
    # The floats of ml_dtypes have at most 16 bits, so float32 represents them exactly.
    if _is_foreign_float(found.dtype):
        return found.astype(np.float32)
    kind = found.dtype.kind
    if kind not in "fcO" or found.size == 0 or types in ({float}, {complex}):
        return found
    exact = np.array(values, object)
    if all(isinstance(value, (int, np.integer)) for value in exact.reshape(-1)):
        return _each(int, exact)
    if kind == "O":
        return np.array(_each(_plain, exact).tolist())
    # float64 would round a long integer a first time.
    is_long = types.issubset(_NUMBERS) and (np.abs(found) >= 2**53).any()
    return exact if is_long else found


def _each(convert: Callable[[Any], Any], exact: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(np.vectorize(convert, otypes=[object])(exact))


def _plain(value: Any) -> Any:
    is_foreign = isinstance(value, np.generic) and _is_foreign_float(value.dtype)
    return float(value) if is_foreign else value


def _is_foreign_float(storage: np.dtype[Any]) -> bool:
    """Return whether `storage` is a float type that NumPy does not define."""
    return storage.isbuiltin == 2 and dtypes.dtype(storage).is_floating


def _from_python(found: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    # An empty list is float64 to NumPy, but does not have values to check.
    if found.size == 0:
        return np.empty(found.shape, dtype.storage)
    kind = _kind(found)
    if kind not in ("biufc" if dtype.is_complex else "biuf"):
        raise CastError(
            f"values of type {_type_of(found)} are not numbers that {dtype} can "
            "represent",
            "Give numbers, or nested lists of them",
        )
    if dtype.is_floating or dtype.is_complex:
        return _round(found, dtype)
    if dtype.storage.kind == "b" != kind:
        problem = f"values of {found.dtype} are not bools"
        raise CastError(problem, "Use asarray(a) != 0")
    low, high = (int(n) if kind != "f" else n for n in (found.min(), found.max()))
    if kind not in "biu" or low < dtype.minimum or high > dtype.maximum:
        raise _misfit(found, dtype, low, high)
    return found.astype(dtype.storage)


def _misfit(found: npt.NDArray[Any], dtype: DType, low: Any, high: Any) -> CastError:
    """Return the error of numbers that an integer type cannot represent."""
    is_float = _kind(found) == "f"
    of_objects = "float" if is_float else "integer"
    values = of_objects if found.dtype.kind == "O" else found.dtype
    if is_float:
        is_inside = dtype.minimum <= low and high <= dtype.maximum
        policy = "round" if is_inside else "saturate"
        # NaN is the least and the largest of numbers that it is among.
        if low != low:
            problem = f"{dtype} represents integers, and nan is among the values"
            fix = "Replace it first, or use"
            way = f'astype(asarray(values), {dtype}, casting="saturate")'
            return CastError(problem, f"{fix} {way}, which makes it 0")
        return CastError(
            f"{dtype} represents integers, and the values are {values}, "
            f"{_span(low, high)}",
            f'Use astype(asarray(values), {dtype}, casting="{policy}")',
        )
    wide = wider_type(dtype, low, high)
    way = f'astype(asarray(values), {dtype}, casting="saturate")'
    # A list with longer integers does not have a type of its own to cast from.
    fixes = [f"dtype={wide}"] * bool(wide) + [way] * (found.dtype.kind != "O")
    return CastError(
        f"{dtype} represents {dtype.minimum} to {dtype.maximum}; cannot represent "
        f"{values} values {_span(low, high)}",
        f"Use {' or '.join(fixes)}" if fixes else "Use smaller numbers",
    )


def _span(low: Any, high: Any) -> str:
    """Return the numbers of an error, `from 1 to 300`; one number is written once."""
    return f"of {low}" if low == high else f"from {low} to {high}"


def _type_of(found: npt.NDArray[Any]) -> str:
    """Return the type of values that are not all numbers, in words of Python."""
    kinds = {"U": "str", "S": "bytes"}
    if found.dtype.kind != "O":
        return kinds.get(found.dtype.kind, str(found.dtype))
    types = (type(x).__name__ for x in found.flat if type(x) not in _NUMBERS)
    return next(types, "complex")


def _kind(found: npt.NDArray[Any]) -> str:
    """Return NumPy's kind letter of the elements, also of an array of objects."""
    if found.dtype.kind != "O":
        return found.dtype.kind
    types = set(map(type, found.flat))
    letters = zip("iifc", _NUMBERS, strict=True)
    present = [letter for letter, number in letters if number in types]
    return present[-1] if types.issubset(_NUMBERS) else "O"


def _round(found: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    is_foreign = dtype.storage.isbuiltin == 2
    # float64, which `_off_ties` starts from, does not hold larger integers.
    is_long = (
        found.dtype.kind in "iu" and not -(2**53) <= found.min() <= found.max() <= 2**53
    )
    if found.dtype.kind == "O" or (is_foreign and is_long):
        exact = found.astype(object)
        found = _each(lambda n: round_to_odd(fit_scalar(n, dtype), dtype), exact)
    with np.errstate(all="ignore"):
        # ml_dtypes converts through float32, which would round twice.
        near = _off_ties(found, dtype) if is_foreign else found
        rounded = near.astype(dtype.storage)
    _refuse_overflow(found, rounded, dtype)
    return rounded


def _refuse_overflow(
    found: npt.NDArray[Any], rounded: npt.NDArray[Any], dtype: DType
) -> None:
    """Raise if a finite number was rounded to something that is not finite."""
    is_finite = np.isfinite(rounded)
    if is_finite.all():
        return
    count = np.count_nonzero(np.isfinite(found.astype(np.complex128)) & ~is_finite)
    if count:
        raise CastError(
            f"{count} of {found.size} values outside; {dtype} represents "
            f"{dtype.minimum} to {dtype.maximum}",
            f"Use a wider type, or astype(asarray(values, dtype=float64), {dtype}, "
            'casting="saturate")',
        )


def _off_ties(found: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """Return float32 values that round to a narrow `dtype` as `found` does.

    Rounding to float32 first, and then to `dtype`, can differ from rounding once: if
    the float32 lies exactly halfway between two values of `dtype`, and the number did
    not. Such a float32 is replaced by its neighbour on the side of the number.
    """
    real = found.astype(np.float64)
    near = real.astype(np.float32)
    # A float32 halfway between two values has one digit more than `dtype`, then zeros.
    behind = (1 << (dtypes.float32.digits - dtype.digits - 1)) - 1
    is_halfway = (near.view(np.uint32) & behind) == 0
    side = np.where(real > near, np.inf, -np.inf).astype(np.float32)
    moved = np.where(is_halfway & (real != near), np.nextafter(near, side), near)
    return np.asarray(moved, np.float32)
