"""Operations on the places of elements: triangles, masks, picks by several indices.

A mask is turned into the places where it is true by a stable sort, since a loop writes
one element for each thread and none anywhere else. How many these are decides a
shape, so such calls wait for the device.
"""

from __future__ import annotations

from functools import partial, reduce
from math import prod
from typing import Any, Union

import numpy as np

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.errors import BoundsError, OptionError, ShapeError, describe
from mdtensor.generics import (
    arithmetic,
    attention,
    comparison,
    creation,
    indexing,
    manipulation,
    math,
    matmul as products,
    reduction,
    sorting,
)
from mdtensor.generics.conversion import astype
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Input, Loop, apply, cast, load, select
from mdtensor.ops.indexing import outside_axis
from mdtensor.registry import refuse_devices
from mdtensor.rendered.composed import rounded, widened
from mdtensor.rendered.launches import (
    ALL,
    FLOATS,
    INTEGERS,
    REAL,
    Operands,
    compute,
    count_true,
    launch,
    no_method,
    types_of,
)
from mdtensor.rendered.methods import add, unary
from mdtensor.spec.indices import is_mask, is_pick, key_parts
from mdtensor.spec.options import number
from mdtensor.spec.shapes import normalize_axis
from mdtensor.tensor import Tensor, from_numpy, leaf

#: Places of a matrix are added as int32.
LONGEST = 2**30


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    for name in ("tril", "triu"):
        operation = getattr(creation, name)
        unary(device, operation, ALL, partial(_triangle, operation, name == "tril"))
    unary(device, sorting.nonzero, REAL, _nonzero)
    unary(device, sorting.argwhere, REAL, _argwhere)
    unary(device, attention.one_hot, INTEGERS, _one_hot)
    real: Any = Union[types_of(device, REAL)]
    whole: Any = Union[types_of(device, INTEGERS)]
    add(manipulation.repeat, (Union[types_of(device, ALL)], whole), _repeat)
    floats: Any = Union[types_of(device, FLOATS)]
    add(sorting.isin, (real, real), _isin)
    attend = attention.scaled_dot_product_attention
    add(attend, (floats, floats, floats), _attention)


def places_of(device: Device, count: int, type: str = "int32") -> Any:
    """Return the buffer of 0, 1, 2 ... as integers of a type."""
    loop = Loop((), cast(ir.position(), type), name="places")
    return launch(device, loop, (count,), [])


def _below(device: Device, rows: int, columns: int, k: int) -> Any:
    """Return the buffer [rows, columns] of bools: column - row <= k."""
    row = places_of(device, rows).view(lambda array: array[:, None])
    given = [row, places_of(device, columns), np.array(k, np.int32)]
    inputs = Input("int32"), Input("int32"), Input("int32", is_number=True)
    most = apply("add", load(0, "int32"), ir.scalar(2, "int32"))
    loop = Loop(inputs, apply("less_equal", load(1, "int32"), most), name="triangle")
    return launch(device, loop, (rows, columns), given)


def _triangle(operation: Any, is_lower: bool, x: Tensor, /, *, k: int) -> Any:
    spec = infer(operation, x, k=k)
    rows, columns = x.shape[-2:]
    if max(rows, columns) > LONGEST:
        raise no_method(operation.__name__, x)
    # The upper triangle is what is not below.
    last = max(-rows - 1, min(k if is_lower else k - 1, columns))
    operands = Operands(operation.__name__, (x,))
    is_below = operands.view(_below(x.device, rows, columns, last))
    value = operands.tensor(x)
    zero = cast(ir.number(0, "int8"), x.dtype.name)
    pair = (value, zero) if is_lower else (zero, value)
    return compute(spec, operands, select(is_below, *pair))


def _nonzero(x: Tensor, /) -> Any:
    specs = infer(sorting.nonzero, x)
    return tuple(_unravelled(true_places(x), x.shape))[: len(specs)]


def _argwhere(x: Tensor, /) -> Any:
    spec = infer(sorting.argwhere, x)
    if not x.ndim:
        raise no_method("argwhere", x)
    found = list(_unravelled(true_places(x), x.shape))
    return rounded(manipulation.stack(found, axis=-1), spec.dtype)


def true_places(x: Tensor) -> Any:
    """Return int64 [n]: the places of elements that are not 0. Waits for the device."""
    truth = astype(manipulation.reshape(x, (-1,)), dtypes.bool_, casting="wrap")
    count = int(reduction.sum(truth))
    small = astype(truth, dtypes.int8)
    return sorting.argsort(small, descending=True, stable=True)[:count]


def _repeat(x: Tensor, repeats: Tensor, /, *, axis: int | None) -> Any:
    """Take each place as often as it has repeats. Waits for the device."""
    infer(manipulation.repeat, x, repeats, axis=axis)
    operands = Operands("repeat", (x, repeats))
    zero, count = cast(ir.number(0, "int8"), "int64"), operands.tensor(repeats)
    if count_true(operands, ir.compare("less", count, zero), x.device):
        problem, fix = "a number of repeats is below 0", "Use integers of 0 or more"
        raise OptionError(problem, fix, describe("repeat", x, repeats))
    flat = manipulation.reshape(x, (-1,)) if axis is None else x
    at = 0 if axis is None else normalize_axis(axis, x.ndim)
    wide = astype(manipulation.reshape(repeats, (-1,)), dtypes.int64, casting="check")
    each = manipulation.broadcast_to(wide, (flat.shape[at],))
    ends = reduction.cumulative_sum(each)
    total = int(reduction.sum(each))
    every = ends.wrap(places_of(x.device, total, "int64"))
    places = sorting.searchsorted(ends, every, side="right")
    return indexing.take(flat, places, axis=at)


def _unravelled(places: Any, shape: tuple[int, ...]) -> Any:
    """Yield the index along each axis of places in row-major order."""
    for axis, size in enumerate(shape):
        rest = prod(shape[axis + 1 :])
        # Of nothing there is no place, and no divisor either.
        whole = arithmetic.floor_divide(places, max(rest, 1))
        yield arithmetic.remainder(whole, max(size, 1))


def _one_hot(x: Tensor, /, *, num_classes: int) -> Any:
    spec = infer(attention.one_hot, x, num_classes=num_classes)
    call = describe("one_hot", x)
    if num_classes == -1 and not x.size:
        problem = "cannot find the number of classes of an empty tensor"
        raise ShapeError(problem, "Pass num_classes", call)
    is_found = num_classes == -1
    count = int(reduction.max(x)) + 1 if is_found else int(num_classes)
    operands = Operands("one_hot", (x,))
    element, length = operands.tensor(x), operands.array(np.array(count))
    low = ir.compare("less", element, ir.number(0, "int64"))
    outside = apply("bit_or", low, ir.compare("less_equal", length, element))
    if x.size and count_true(operands, outside, x.device):
        problem = f"an element is outside of {max(count, 0)} classes"
        fix = "Use integers of 0 or more, or a larger num_classes"
        raise BoundsError(problem, fix, call)
    operands = Operands("one_hot", (x,))
    element = operands.view(x.buffer.view(lambda array: array[..., None]))
    place = operands.view(places_of(x.device, count))
    value = cast(ir.compare("equal", element, place), spec.dtype.name)
    loop, shape = operands.loop(value), (*x.shape, count)
    return spec.type.wrap(launch(x.device, loop, shape, operands.buffers))


def _isin(x1: Tensor, x2: Tensor, /, *, invert: bool) -> Any:
    """Compare each element with all of x2, exactly, and join the answers."""
    spec = infer(sorting.isin, x1, x2, invert=invert)
    members = manipulation.reshape(x2, (-1,)).buffer
    apart = x1.buffer.view(lambda array: array[..., None])
    a, b = (load(at, x.dtype.name) for at, x in enumerate((x1, x2)))
    inputs = tuple(Input(x.dtype.name) for x in (x1, x2))
    finish = ir.total("bool")
    if invert:
        finish = apply("equal", finish, cast(ir.number(0, "int8"), "bool"))
    loop = Loop(inputs, ir.compare("equal", a, b), "bit_or", finish, name="isin")
    buffers = [apart, members]
    return spec.type.wrap(launch(x1.device, loop, x1.shape, buffers, (x1.ndim,)))


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    /,
    *,
    attn_mask: Any,
    is_causal: bool,
    scale: Any,
) -> Any:
    """Compute softmax(query · keyᵀ · scale + mask) · value; 0 if nothing is seen."""
    options = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale}
    attend = attention.scaled_dot_product_attention
    spec = infer(attend, query, key, value, **options)
    q, k, v = (widened(x, spec.dtype.name) for x in (query, key, value))
    factor = max(q.shape[-1], 1) ** -0.5 if scale is None else number(scale, "scale")
    columns = manipulation.permute_dims(k, (*range(k.ndim - 2), k.ndim - 1, k.ndim - 2))
    scores = products.matmul(arithmetic.mul(q, factor), columns)
    if is_causal:
        rows, keys = q.shape[-2], k.shape[-2]
        seen = leaf(dtypes.bool_, q.device).wrap(_below(q.device, rows, keys, 0))
        scores = sorting.where(seen, scores, -np.inf)
    elif attn_mask is not None and attn_mask.dtype is dtypes.bool_:
        scores = sorting.where(attn_mask, scores, -np.inf)
    elif attn_mask is not None:
        added = astype(attn_mask, scores.dtype, casting="wrap")
        scores = arithmetic.add(scores, added)
    if not scores.shape[-1]:
        found = products.matmul(scores, v)
        return rounded(found, spec.dtype)
    top = reduction.max(scores, axis=-1, keepdims=True)
    # -inf - -inf is NaN where a query sees no key.
    low = sorting.where(comparison.equal(top, -np.inf), 0.0, top)
    powers = math.exp(arithmetic.sub(scores, low))
    total = reduction.sum(powers, axis=-1, keepdims=True)
    shares = sorting.where(comparison.equal(total, 0), 1.0, total)
    return rounded(arithmetic.div(products.matmul(powers, v), shares), spec.dtype)


def picked(x: Tensor, key: Any) -> Any:
    """Return x[key] for a key with tensors. Waits for the device."""
    require_here("getitem", x, key if isinstance(key, tuple) else (key,))
    infer(indexing.getitem, x, key=key)
    parts = list(_without_masks(x, key))
    is_pick_at = [is_pick(one) or isinstance(one, int) for one in parts]
    basic: list[Any] = []
    axes: list[int] = []
    axis = 0
    for one, picks in zip(parts, is_pick_at, strict=True):
        if picks:
            axes.append(axis)
        basic.append(slice(None) if picks else one)
        rest = x.ndim - sum(p not in (None, ...) for p in _kinds(parts))
        axis += rest if one is Ellipsis else 1
    places = [at for at, picks in enumerate(is_pick_at) if picks]
    are_near = places[-1] - places[0] == len(places) - 1
    source = indexing.getitem(x, key=tuple(basic))
    indices = [one for one, picks in zip(parts, is_pick_at, strict=True) if picks]
    return _block(x, source, axes, indices, axes[0] if are_near else 0)


def require_here(name: str, x: Tensor, keys: Any) -> None:
    """Raise if an index is on another device than x; arrays of NumPy are on the host.

    Raises:
        DeviceError: it names both devices.
    """
    for one in keys:
        index = from_numpy(one) if isinstance(one, np.ndarray) else one
        if isinstance(index, Tensor) and index.device is not x.device:
            refuse_devices(name, x, index)


def _kinds(parts: list[Any]) -> list[Any]:
    """Return the parts of a key, with a number in the place of each tensor."""
    return [0 if isinstance(one, Tensor) else one for one in parts]


def _without_masks(x: Tensor, key: Any) -> Any:
    """Yield the parts of a key, and the places of a mask along each of its axes."""
    for one, sizes in key_parts(x.shape, key):
        if not is_mask(one):
            yield one
        elif not one.ndim:
            raise no_method("getitem", x)
        else:
            # A mask with an axis of size 0 fits every size.
            yield from _unravelled(true_places(one), one.shape[: len(sizes)])


def _block(
    x: Tensor, source: Any, axes: list[int], indices: list[Any], first: int
) -> Any:
    """Return a tensor with several axes picked: the block of them comes at `first`."""
    sizes = [source.shape[axis] for axis in axes]
    if len(axes) == 1:
        found = indexing.take(source, indices[0], axis=axes[0])
        return found if first == axes[0] else manipulation.moveaxis(found, axes[0], 0)
    kept = [axis for axis in range(source.ndim) if axis not in axes]
    turned = manipulation.permute_dims(source, (*axes, *kept))
    rest = turned.shape[len(axes) :]
    rows = manipulation.reshape(turned, (prod(sizes), *rest))
    terms = []
    for at, (one, size) in enumerate(zip(indices, sizes, strict=True)):
        whole = one if isinstance(one, int) else _whole(x, one, size)
        whole = whole + size if isinstance(one, int) and one < 0 else whole
        terms.append(whole * prod(sizes[at + 1 :]))
    place = reduce(lambda a, b: a + b, terms)
    found = indexing.take(rows, place, axis=0)
    block = len(place.shape)
    order = [*range(block, block + first), *range(block)]
    order += range(block + first, block + len(rest))
    return manipulation.permute_dims(found, tuple(order))


def _whole(x: Tensor, index: Any, size: int) -> Any:
    """Return indices as int64 that count from the front. Waits, to check them."""
    operands = Operands("getitem", (x,))
    element = operands.tensor(index)
    least, length = (operands.array(np.array(n)) for n in (-size, size))
    low = ir.compare("less", element, least)
    outside = apply("bit_or", low, ir.compare("less_equal", length, element))
    if index.size and count_true(operands, outside, x.device):
        raise outside_axis(size, index.dtype).within(describe("getitem", x))
    whole = astype(index, dtypes.int64, casting="check")
    return sorting.where(whole < 0, whole + size, whole)
