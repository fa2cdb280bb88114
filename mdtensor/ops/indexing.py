"""Indexing methods for dense tensors on the host."""

from typing import Any

import numpy as np

from mdtensor import dtypes
from mdtensor.device import cpu
from mdtensor.dispatch.operation import method
from mdtensor.dtypes import DType
from mdtensor.errors import BoundsError, MdtensorError, WriteError, checked, describe
from mdtensor.foreign import is_array_like, read_array
from mdtensor.generics.conversion import astype
from mdtensor.generics.indexing import (
    check_value,
    getitem,
    scatter,
    setitem,
    take,
    take_along_axis,
    take_axis,
)
from mdtensor.kernels.numpy import indexing as kernel
from mdtensor.ops import steps
from mdtensor.ops.bound_calls import bound
from mdtensor.ops.direct import direct_take
from mdtensor.ops.operands import (
    NUMBERS,
    PLAIN,
    Dense,
    deduced,
    fast_number,
    new,
    number,
    on_host,
)
from mdtensor.promotion import is_weak, may_overflow
from mdtensor.spec.indices import index_shape, is_mask, is_pick, key_parts
from mdtensor.spec.shapes import normalize_axis
from mdtensor.tensor import Tensor, announce_write, from_numpy, leaves
from mdtensor.types import BoolTensor, IntegerTensor

#: Index types for which NumPy agrees with us and returns views.
_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})
#: Index types for which NumPy agrees with us and copies. It does not for large uint64,
#: which it counts from the end.
_PICKS = frozenset(
    kind
    for kind in leaves()
    if kind.device is cpu
    and (kind.dtype.is_integer or kind.dtype is dtypes.bool_)
    and kind.dtype is not dtypes.uint64
)
_ALIKE = _BASIC | _PICKS


def _get_path(kind: type[Tensor]) -> Any:
    """Return the `fast_path=` of `getitem`: NumPy's indexing, while both agree."""
    if not issubclass(kind, Tensor) or kind.device is not cpu:
        return None
    general = getitem.select(kind).method.implementation

    def run(x: Tensor, /, *, key: Any) -> Tensor:
        try:
            part = _read(x.buffer, key)
        except (IndexError, OverflowError, TypeError, ValueError):
            part = None
        if part is None:
            found: Tensor = general(x, key=key)
            return found
        result = new(kind)
        result.buffer = part
        return result

    return run


@method(
    getitem,
    fast_path=_get_path,
    prepare=steps.view_step(steps.index_view),
)
def getitem(x: Dense, /, *, key: object) -> Tensor:
    part = _part(x, key, _ALIKE, kernel.getitem)
    # NumPy does not check the ranges of several indices whose result is empty.
    if part is not None and (part.size or not isinstance(key, tuple)):
        return x.wrap(part)
    indices = _indices("getitem", x, key)

    def check() -> None:
        _shape(x, indices)
        _check_ranges(x, indices)

    checked("getitem", (x,), check)
    return x.wrap(kernel.getitem(x.buffer, tuple(map(_buffer, indices))))


def _part(x: Tensor, key: object, alike: frozenset[type], read: Any) -> Any:
    """Return the part for a key of the types `alike`; None if checks are needed.

    Args:
        read: the kernel, `getitem` or `view`.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if x.device is not cpu or not alike.issuperset(map(type, keys)):
        return None
    try:
        return read(x.buffer, tuple(map(_buffer, keys)))
    # NumPy's errors do not name the call; the checked path raises ours.
    except (IndexError, OverflowError, TypeError, ValueError):
        return None


def _set_path(kind: type[Tensor]) -> Any:
    """Return the `fast_path=` of `setitem`: for values that surely fit."""
    if kind not in PLAIN and kind is not BoolTensor:
        return None
    general = setitem.select(kind).method.implementation
    numbers = NUMBERS if kind in PLAIN else frozenset({bool})

    def run(x: Tensor, /, *, key: Any, value: Any) -> Tensor:
        given = type(value)
        if given is kind:
            buffer = value.buffer
        else:
            buffer = fast_number(value, kind.dtype) if given in numbers else None
        if buffer is None or not _write(x.buffer, key, buffer, given is kind):
            general(x, key=key, value=value)
        return x

    return run


def _write(x: Any, key: Any, value: Any, is_tensor: bool) -> bool:
    """Write a value whose type fits; return False, and write nothing, if in doubt."""
    if not x.flags.writeable:
        return False
    keys: tuple[Any, ...] = ()
    try:
        if type(key) in _PICKS:
            # NumPy checks all indices before it writes the first element.
            shape = *key.buffer.shape, *x.shape[1:]
            part, keys = x, (_buffer(key),)
            is_fit = not is_tensor or not (is_mask(key) or 0 in shape)
        else:
            part = _view(x, key)
            is_fit, shape = part is not None, getattr(part, "shape", ())
        if not is_fit or (is_tensor and shape != value.shape):
            return False
        announce_write(x)
        if is_tensor or keys:
            kernel.setitem(part, keys, value)
        else:
            part[...] = value
    except (IndexError, OverflowError, TypeError, ValueError):
        return False
    return True


def _view(x: Any, key: Any) -> Any:
    """Return the view of basic indices, never a scalar; None for other indices."""
    if type(key) is slice:
        return x[key]
    keys = key if type(key) is tuple else (key,)
    if not _BASIC.issuperset(map(type, keys)):
        return None
    return x[keys if Ellipsis in keys else (*keys, ...)]


# An element is a copy, as in NumPy (decision 0107).
def _read(x: Any, key: Any) -> Any:
    """Return the part of basic indices, never a scalar; None for other indices."""
    if type(key) is slice:
        return x[key]
    keys = key if type(key) is tuple else (key,)
    if not _BASIC.issuperset(map(type, keys)):
        return None
    if Ellipsis in keys:
        return x[keys]
    part = x[(*keys, ...)]
    return part if part.ndim else part.copy()


@method(setitem, fast_path=_set_path)
def setitem(x: Dense, /, *, key: object, value: Any) -> Tensor:
    given = from_numpy(value) if _is_numpy(value) else value
    on_host("setitem", x, given)
    # Only basic indices give views; writing into a copy would be lost.
    view = _part(x, key, _BASIC, kernel.view)
    if view is None and is_weak(given) and _fill(x, key, given):
        return x
    indices = () if view is not None else _indices("setitem", x, key)

    def check() -> None:
        check_value(x.dtype, _shape(x, indices) if view is None else view.shape, given)
        if view is None:
            _check_ranges(x, indices)

    # Equal type and shape cannot fail a check, so the common case skips it.
    is_alike = type(given) is type(x) and view is not None
    if not (is_alike and given.shape == view.shape):
        checked("setitem", (x, given), check)
    if not x.buffer.flags.writeable:
        call = describe("setitem", x, given)
        fix = "Write into asarray(x, copy=True)"
        if x.dtype.is_integer and x.dtype.bits == 8:
            # The codes of 4-bit tensors are unpacked copies, which look like this.
            fix += "; if x is q.codes of a 4-bit tensor q, assign q[key] = value"
        raise WriteError("the buffer is read-only", fix, call)
    if isinstance(given, Tensor) and may_overflow(given.dtype, x.dtype):
        given = astype(given, x.dtype)
    target = x.buffer if view is None else view
    announce_write(x.buffer)
    kernel.setitem(target, tuple(map(_buffer, indices)), number(given, x.dtype))
    return x


def _fill(x: Tensor, key: object, value: object) -> bool:
    """Write a number into the elements that one index tensor or mask picks.

    Return whether it was written. After False nothing has changed, and the caller takes
    the general way. A number fits every shape, and NumPy checks the whole index before
    it writes the first element.
    """
    if type(key) not in _PICKS or x.device is not cpu or not x.buffer.flags.writeable:
        return False
    announce_write(x.buffer)
    try:
        kernel.setitem(x.buffer, (_buffer(key),), number(value, x.dtype))
    except (IndexError, MdtensorError):
        return False
    return True


@method(
    take,
    fast_path=bound(take, direct_take),
    prepare=steps.take_step,
    direct=direct_take,
)
def take(x: Dense, indices: IntegerTensor, /, *, axis: int | None) -> Tensor:
    deduced(take, x, indices, axis=axis)
    at = take_axis(axis, x.ndim)
    try:
        return x.wrap(kernel.take(x.buffer, indices.buffer, at))
    except IndexError:
        # NumPy checks the indices as it reads them; a check of our own would be one
        # more pass.
        error = outside_axis(x.shape[at], indices.dtype)
        raise error.within(describe("take", x, indices)) from None


@method(take_along_axis)
def take_along_axis(x: Dense, indices: IntegerTensor, /, *, axis: int) -> Tensor:
    deduced(take_along_axis, x, indices, axis=axis)
    at, given = normalize_axis(axis, x.ndim), (x, indices)
    checked("take_along_axis", given, lambda: _check_range(indices, x.shape[at]))
    return x.wrap(kernel.take_along_axis(x.buffer, indices.buffer, at))


@method(scatter)
def scatter(
    x: Dense, indices: IntegerTensor, updates: Dense, /, *, axis: int, reduction: str
) -> Tensor:
    deduced(scatter, x, indices, updates, axis=axis, reduction=reduction)
    at, given = normalize_axis(axis, x.ndim), (x, indices, updates)
    checked("scatter", given, lambda: _check_range(indices, x.shape[at]))
    added = updates if updates.dtype is x.dtype else astype(updates, x.dtype)
    return x.wrap(kernel.scatter(x.buffer, indices.buffer, added.buffer, at, reduction))


def _indices(name: str, x: Tensor, key: object) -> tuple[Any, ...]:
    """Return the indices of a key, with NumPy's arrays converted to tensors."""
    keys = key if isinstance(key, tuple) else (key,)
    indices = tuple(_index(k) for k in keys)
    on_host(name, x, *indices)
    return indices


def _index(index: object) -> Any:
    """Return an index with arrays, also of other libraries, as tensors."""
    if isinstance(index, Tensor) or not is_array_like(index):
        return index
    given = index if _is_numpy(index) else read_array(index)
    # Any other array is an error, which names the class that the caller passed.
    return from_numpy(given) if _is_index_array(given) else index


def _is_index_array(index: object) -> bool:
    is_array = _is_numpy(index) and not isinstance(index, np.integer)
    return is_array and (is_mask(index) or is_pick(index))


def _is_numpy(value: object) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def _shape(x: Tensor, indices: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of x[indices]."""
    return index_shape(
        x.shape, indices, lambda mask: int(np.count_nonzero(mask.buffer))
    )


def _check_ranges(x: Tensor, indices: tuple[Any, ...]) -> None:
    for index, sizes in key_parts(x.shape, indices):
        if isinstance(index, Tensor) and is_pick(index):
            _check_range(index, sizes[0])


def _check_range(indices: Tensor, size: int) -> None:
    if kernel.outside(indices.buffer, size):
        raise outside_axis(size, indices.dtype)


def outside_axis(size: int, dtype: DType) -> BoundsError:
    """Return the error of an index that an axis of this size does not have.

    Args:
        size: the size of the axis.
        dtype: the type of the indices; an unsigned one does not count from the end.
    """
    problem = f"an index is outside an axis of size {size}"
    least = -size if dtype.minimum else 0
    return BoundsError(problem, f"Indices go from {least} to {size - 1}")


def _buffer(index: object) -> Any:
    """Return an index for NumPy; a 0-d tensor of integers becomes an integer."""
    if not isinstance(index, Tensor):
        return index
    return index.buffer if index.ndim or is_mask(index) else int(index.buffer)
