"""Functions that make tensors from sizes and numbers, and the `..._like` methods."""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from math import isfinite, nan
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np

from mdtensor import dtypes
from mdtensor.device import Device, cpu, device as find_device
from mdtensor.dispatch.call_errors import explain_wrong_calls
from mdtensor.dispatch.operation import method
from mdtensor.dtypes import DType
from mdtensor.errors import CastError, OptionError, ShapeError, checked, describe, shown
from mdtensor.foreign import require_plain
from mdtensor.generics.creation import (
    check_diagonal,
    empty_like,
    full_like,
    ones_like,
    tril,
    triu,
    zeros_like,
)
from mdtensor.generics.manipulation import reshape
from mdtensor.kernels.numpy import creation as kernel
from mdtensor.ops.conversion import asarray
from mdtensor.ops.manipulation import broadcast_arrays
from mdtensor.ops.operands import (
    NUMBERS,
    Dense,
    allocate,
    deduced,
    fast_number,
    on_host,
)
from mdtensor.promotion import (
    DEFAULT_COMPLEX,
    DEFAULT_FLOAT,
    DEFAULT_INTEGER,
    overflows,
)
from mdtensor.spec.options import DTypeName, flag
from mdtensor.spec.shapes import MOST_SIZE, is_size, shape_sizes
from mdtensor.tensor import Tensor, element, leaf

#: Bound of integers, below which no range is too large for the memory of a machine.
MOST_QUICK = 2**24


@explain_wrong_calls
def full(
    shape: object,
    fill_value: object,
    *,
    dtype: DTypeName | None = None,
    device: Device | str | None = None,
) -> Any:
    """Return a tensor of `shape` with all elements equal to `fill_value`.

    Args:
        shape: a size, or a sequence of them.
        fill_value: a number or a 0-d tensor.
        dtype: element type; by default the type of `asarray(fill_value)`.
        device: by default cpu.

    Raises:
        ShapeError: a size is negative, or the result does not fit into memory.
        CastError: `dtype` cannot represent the value.

    Example:
        >>> import mdtensor as md
        >>> md.full((2,), 7, dtype=md.int8).tolist()
        [7, 7]

    Source: array API 2024.12, `full`.
    """
    wanted = element(dtype, None)
    home = cpu if device is None else find_device(device)
    # With a type given, a number is converted as Python's are: exactly, or not at all.
    one = _one_element(fill_value, wanted)
    on_host("full", one)
    if one.ndim:
        call = describe("full", shape, one)
        raise ShapeError(
            f"fill_value has shape {one.shape}, not ()", "Use broadcast_to", call
        )
    made = partial(np.full, _sizes("full", shape), one.buffer, one.dtype.storage)
    return make_on(made, one.dtype, home, "full", shape, fill_value)


def _one_element(value: object, dtype: DType | None) -> Any:
    """Return the tensor of a fill value."""
    if dtype is None:
        return asarray(value)
    # Only True and False are elements of bool without a check.
    kinds = NUMBERS if dtype.kind != "bool" else (bool,)
    found = fast_number(value, dtype) if type(value) in kinds else None
    if found is not None:
        return leaf(dtype).wrap(found)
    return asarray(_plain(value), dtype=dtype)


def make_on(
    make: Callable[[], Any], dtype: DType, device: Any, name: str, *arguments: Any
) -> Any:
    """Return the tensor of the host array `make()` on `device`, by default on cpu.

    `name` and `arguments` are the call, for errors.
    """
    target = _find_type(dtype, device)
    made = allocate(make, name, *arguments)
    return target.wrap(target.device.from_host(made))


def _find_type(dtype: DType, device: Any) -> type[Tensor]:
    found = leaf(dtype)
    return found if device is None else found.with_device(find_device(device))


def _sizes(name: str, shape: object) -> tuple[int, ...]:
    if type(shape) is tuple and all(type(n) is int for n in shape):
        return checked(name, (shape,), lambda: _read_sizes(shape))
    return checked(name, (shape,), lambda: shape_sizes(shape))


#: Returns the sizes of a tuple of integers; programs create the same shapes many times.
_read_sizes = lru_cache(256)(shape_sizes)


@explain_wrong_calls
def zeros(
    shape: object, *, dtype: DTypeName | None = None, device: Device | str | None = None
) -> Any:
    """Return a tensor of zeros, by default float32.

    Example:
        >>> import mdtensor as md
        >>> md.zeros((2, 2))
        Float32Tensor[2,2]([[0., 0.],
                            [0., 0.]])

    Source: array API 2024.12, `zeros`.
    """
    sizes, found = _sizes("zeros", shape), element(dtype, DEFAULT_FLOAT)
    made = partial(np.zeros, sizes, found.storage)
    return make_on(made, found, device, "zeros", shape)


@explain_wrong_calls
def ones(
    shape: object, *, dtype: DTypeName | None = None, device: Device | str | None = None
) -> Any:
    """Return a tensor of ones, by default float32.

    Example:
        >>> import mdtensor as md
        >>> md.ones((2,), dtype=md.int32).tolist()
        [1, 1]

    Source: array API 2024.12, `ones`.
    """
    sizes, found = _sizes("ones", shape), element(dtype, DEFAULT_FLOAT)
    made = partial(np.ones, sizes, found.storage)
    return make_on(made, found, device, "ones", shape)


@explain_wrong_calls
def empty(
    shape: object, *, dtype: DTypeName | None = None, device: Device | str | None = None
) -> Any:
    """Return a tensor with undefined elements, by default float32.

    Example:
        >>> import mdtensor as md
        >>> md.empty((3,)).shape
        (3,)

    Source: array API 2024.12, `empty`.
    """
    sizes, found = (
        _sizes("empty", shape),
        _find_type(element(dtype, DEFAULT_FLOAT), device),
    )
    made = partial(found.device.alloc, sizes, found.dtype.storage)
    return found.wrap(allocate(made, "empty", shape))


@explain_wrong_calls
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeName | None = None,
    device: Device | str | None = None,
) -> Any:
    """Return a matrix with ones on diagonal `k` and zeros elsewhere.

    Args:
        n_rows, n_cols: sizes; by default as many columns as rows.
        k: 0 is the main diagonal, 1 the one above it, -1 the one below it.
        dtype: by default float32.
        device: by default cpu.

    Example:
        >>> import mdtensor as md
        >>> md.eye(2, 3, k=1, dtype=md.int8).tolist()
        [[0, 1, 0], [0, 0, 1]]

    Source: array API 2024.12, `eye`.
    """
    shape = n_rows, n_rows if n_cols is None else n_cols
    (rows, columns), found = _sizes("eye", shape), element(dtype, DEFAULT_FLOAT)
    checked("eye", shape, lambda: check_diagonal(k))
    made = partial(kernel.eye, rows, columns, k, found.storage)
    return make_on(made, found, device, "eye", *shape)


# These methods read shape and type only, so x may be on any device.
@method(empty_like, anywhere=True)
def empty_like(x: Dense, /, *, dtype: object, device: Device | str | None) -> Tensor:
    return empty(x.shape, **_like_options(x, dtype, device))  # type: ignore[no-any-return]


@method(full_like, anywhere=True)
def full_like(
    x: Dense, /, *, fill_value: object, dtype: object, device: Device | str | None
) -> Tensor:
    made = full(x.shape, fill_value, **_like_options(x, dtype, device))
    return made  # type: ignore[no-any-return]


@method(ones_like, anywhere=True)
def ones_like(x: Dense, /, *, dtype: object, device: Device | str | None) -> Tensor:
    return ones(x.shape, **_like_options(x, dtype, device))  # type: ignore[no-any-return]


@method(zeros_like, anywhere=True)
def zeros_like(x: Dense, /, *, dtype: object, device: Device | str | None) -> Tensor:
    return zeros(x.shape, **_like_options(x, dtype, device))  # type: ignore[no-any-return]


def _like_options(
    x: Tensor, dtype: object, device: Device | str | None
) -> dict[str, Any]:
    return {
        "dtype": x.dtype if dtype is None else dtype,
        "device": x.device if device is None else device,
    }


@method(tril)
def tril(x: Dense, /, *, k: int) -> Tensor:
    deduced(tril, x, k=k)
    return x.wrap(kernel.tril(x.buffer, k))


@method(triu)
def triu(x: Dense, /, *, k: int) -> Tensor:
    deduced(triu, x, k=k)
    return x.wrap(kernel.triu(x.buffer, k))


# Evenly spaced numbers, and coordinate grids.


@explain_wrong_calls
def arange(
    start: object,
    /,
    stop: object = None,
    step: object = 1,
    *,
    dtype: DTypeName | None = None,
    device: Device | str | None = None,
) -> Any:
    """Return the numbers start + i · step, for all i from 0, that are before `stop`.

    Args:
        start, stop, step: numbers or 0-d tensors; a single one is `stop`, with
            `start` 0.
        dtype: element type; by default int64 for integers, else float32. Integers are
            exact over the whole range of `dtype`; floats are computed in float64 and
            rounded. The number of elements is always exact.
        device: by default cpu.

    Raises:
        OptionError: a bound is not a finite number, or the step is 0.
        CastError: `dtype` cannot represent the numbers, such as fractions in integers.
        ShapeError: the result does not fit into memory.

    Example:
        >>> import mdtensor as md
        >>> md.arange(3).tolist(), md.arange(1, 2, 0.5).tolist()
        ([0, 1, 2], [1.0, 1.5])

    Source: array API 2024.12, `arange`.
    """
    # The usual call needs no fractions, and no text for an error.
    if device is None and (quick := _quick_range(start, stop, step, dtype)) is not None:
        return quick
    start, stop, step = map(_scalar, (start, stop, step))
    given = (0, start) if stop is None else (start, stop)
    call = describe("arange", *given, step)
    first, last, width = (_real(value, call) for value in (*given, step))
    if width == 0:
        raise OptionError("step is 0", "Use another step", call)
    is_whole = all(isinstance(value, int) for value in (first, last, width))
    found = element(dtype, DEFAULT_INTEGER if is_whole else DEFAULT_FLOAT)
    # Fractions, because rounding could add or lose the last element.
    whole = first, last, width
    first_, last_, width_ = whole if is_whole else map(Fraction, whole)
    count = max(0, -((first_ - last_) // width_))
    if count >= MOST_SIZE:
        raise ShapeError(
            f"{count} numbers do not fit into memory", "Ask for fewer", call
        )
    if is_whole and found.is_integer:
        # If both ends fit the type, all elements between them do.
        _check_ends(first, first + max(count - 1, 0) * width, found, call)
        made = partial(kernel.whole_range, first, width, count, found.storage)
    else:
        _check_fractions(call, found)
        begin, by = _float(first, call), _float(width, call)
        _check_ends(begin, begin + max(count - 1, 0) * by, found, call)
        made = partial(kernel.float_range, begin, by, count, found.storage)
    return make_on(made, found, device, "arange", *given, step)


def _quick_range(start: Any, stop: Any, step: Any, dtype: Any) -> Tensor | None:
    """Return the range of small integers that surely fit; None for any other."""
    first, last = (0, start) if stop is None else (start, stop)
    given = (first, last, step)
    if any(type(n) is not int or abs(n) >= MOST_QUICK for n in given) or not step:
        return None
    found = element(dtype, DEFAULT_INTEGER)
    count = max(0, -((first - last) // step))
    ends = (first, first + max(count - 1, 0) * step)
    if count >= MOST_QUICK or not all(
        found.minimum <= n <= found.maximum for n in ends
    ):
        return None
    if found.is_integer:
        return leaf(found).wrap(kernel.whole_range(first, step, count, found.storage))
    if found.is_floating:
        made = kernel.float_range(float(first), float(step), count, found.storage)
        return leaf(found).wrap(made)
    return None


@explain_wrong_calls
def linspace(
    start: object,
    stop: object,
    /,
    num: int,
    *,
    dtype: DTypeName | None = None,
    device: Device | str | None = None,
    endpoint: bool = True,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`; both ends are exact.

    Args:
        start, stop: numbers or 0-d tensors, real or complex.
        num: the number of elements, 0 or more.
        dtype: by default float32, or complex64 for complex ends. Computed in float64
            and rounded; integers between integers are exact and rounded down.
        device: by default cpu.
        endpoint: whether `stop` is the last element.

    Raises:
        OptionError: an end is not a finite number, or `num` is not a size.
        CastError: `dtype` cannot represent the numbers.

    Example:
        >>> import mdtensor as md
        >>> md.linspace(0, 1, 5).tolist(), md.linspace(0, 1, 2, endpoint=False).tolist()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.5])

    Source: array API 2024.12, `linspace`.
    """
    start, stop = _scalar(start), _scalar(stop)
    call = describe("linspace", start, stop, num)
    first, last = (_number(value, call) for value in (start, stop))
    if not is_size(num) or num < 0:
        raise OptionError(f"num is {shown(num)}", "Use a size of 0 or more", call)
    parts = int(num) - 1 if flag(endpoint, "endpoint") else int(num)
    if dtype is not None and dtypes.dtype(dtype).is_integer:
        # float64 does not hold all 64-bit integers, so they are computed as integers.
        return _whole_between(start, stop, int(num), parts, dtypes.dtype(dtype), device)
    is_complex = isinstance(first, complex) or isinstance(last, complex)
    # Without dtype= the ends decide between a real and a complex result.
    found = element(dtype, DEFAULT_COMPLEX if is_complex else DEFAULT_FLOAT)
    _check_fractions(call, found)
    if is_complex and not found.is_complex:
        raise CastError(
            f"{found} cannot represent complex numbers", "Use complex64", call
        )
    _check_ends(first, last, found, call)
    made = partial(kernel.linspace, first, last, int(num), parts, found.storage)
    return make_on(made, found, device, "linspace", start, stop, num)


def _whole_between(
    start: object,
    stop: object,
    num: int,
    parts: int,
    dtype: DType,
    device: Device | str | None,
) -> Any:
    """Return `linspace` between integers, rounded down to an integer type."""
    call = describe("linspace", start, stop, num)
    if not (isinstance(start, Integral) and isinstance(stop, Integral)):
        raise CastError(f"{dtype} represents integers only", "Use integer bounds", call)
    first, last = int(start), int(stop)
    _check_ends(first, last, dtype, call)
    made = partial(kernel.whole_between, first, last, num, parts, dtype.storage)
    return make_on(made, dtype, device, "linspace", start, stop, num)


def _plain(value: Any) -> Any:
    """Return a 0-d host tensor, or a number of NumPy, as a Python number."""
    is_here = type(value) is np.ndarray or (
        isinstance(value, Tensor) and value.device is cpu
    )
    if not (isinstance(value, np.generic) or (is_here and value.ndim == 0)):
        return value
    found = value.item()
    return found if type(found) in (bool, int, float, complex) else value


def _scalar(value: object) -> object:
    """Return a 0-d tensor or array as its Python number, and all else unchanged.

    Raises:
        CastError: the number is masked or has a unit.
    """
    require_plain(value)
    if isinstance(value, (Tensor, np.ndarray)) and value.shape == ():
        return value.item()
    return value


def _real(value: object, call: str) -> Any:
    """Return an integer of any size, or a finite float."""
    if isinstance(value, Integral):
        return int(value)
    return _float(value, call)


def _number(value: object, call: str) -> Any:
    """Return a finite float, or a complex number of two finite floats."""
    if isinstance(value, Complex) and not isinstance(value, Real):
        parts = value.real, value.imag
        return complex(*(_float(part, call) for part in parts))
    return _float(value, call)


def _float(value: object, call: str) -> float:
    try:
        found = float(value) if isinstance(value, Real) else nan
    except OverflowError:
        found = nan
    if not isinstance(value, Real):
        fix = "Give a number, or a 0-d tensor"
        raise OptionError(f"a bound is a {type(value).__name__}", fix, call)
    if not isfinite(found):
        fix = "Give finite numbers in the range of float64"
        raise OptionError("a bound is not a finite number", fix, call)
    return found


def _check_fractions(call: str, dtype: DType) -> None:
    if not (dtype.is_floating or dtype.is_complex):
        raise CastError(
            f"{dtype} cannot represent fractions", "Use a floating type", call
        )


def _check_ends(first: Any, last: Any, dtype: DType, call: str) -> None:
    if dtype.is_integer:
        is_outside = (
            min(first, last) < dtype.minimum or max(first, last) > dtype.maximum
        )
    else:
        is_outside = overflows(first, dtype) or overflows(last, dtype)
    if is_outside:
        problem = f"{dtype} represents {dtype.minimum} to {dtype.maximum} only"
        raise CastError(problem, "Use a wider type", call)


@explain_wrong_calls
def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """Return coordinate grids: each array along its axis, repeated along the others.

    Args:
        arrays: tensors of at most one axis; each keeps its type.
        indexing: "ij" puts the i-th array along axis i; "xy" swaps the first two, as
            columns and rows of an image.

    Returns:
        One read-only view for each array, all of the same shape.

    Raises:
        ShapeError: an array has more than one axis.
        OptionError: `indexing` is neither "xy" nor "ij".

    Example:
        >>> import mdtensor as md
        >>> x, y = md.meshgrid(md.asarray([1, 2, 3]), md.asarray([4, 5]))
        >>> x.tolist(), y.tolist()
        ([[1, 2, 3], [1, 2, 3]], [[4, 4, 4], [5, 5, 5]])

    Source: array API 2024.12, `meshgrid`.
    """
    call = describe("meshgrid", *arrays)
    if not isinstance(indexing, str) or indexing not in ("xy", "ij"):
        raise OptionError(f"indexing is {shown(indexing)}", 'Use "xy" or "ij"', call)
    flat = [reshape(x, (-1,)) for x in arrays]
    if any(x.ndim > 1 for x in arrays):
        raise ShapeError(
            "an array has more than one axis", "Use broadcast_arrays", call
        )
    axes = list(range(len(arrays)))
    # Images have rows first, but x runs along columns.
    if indexing == "xy":
        axes[:2] = axes[:2][::-1]
    lines = [
        reshape(x, tuple(-1 if at == axis else 1 for at in range(len(axes))))
        for x, axis in zip(flat, axes, strict=True)
    ]
    return broadcast_arrays(*lines)
