"""Operations that are made of a few others, which a plan joins to fewer launches.

Narrow floats are computed in float32 and rounded once, as on the host. Sums of floats
have the order of a device, so results differ from the host's in the last bits.
"""

from __future__ import annotations

from functools import partial
from math import inf, prod
from typing import Any, Union

import numpy as np

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.errors import OptionError, describe
from mdtensor.generics import (
    activation,
    arithmetic,
    conversion,
    creation,
    fft,
    linalg,
    manipulation,
    math,
    matmul as products,
    normalization,
    reduction,
    resize,
)
from mdtensor.generics.conversion import astype
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Value, apply, cast, select
from mdtensor.rendered.activation import sigmoid
from mdtensor.rendered.launches import (
    ALL,
    FLOATS,
    NUMBERS,
    Operands,
    compute,
    no_method,
    types_of,
)
from mdtensor.rendered.methods import add, unary
from mdtensor.rendered.movement import copied, filled, view
from mdtensor.spec.options import number
from mdtensor.spec.shapes import normalize_axes, normalize_axis
from mdtensor.spec.windows import single
from mdtensor.tensor import Tensor


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    for operation, kinds, run in (
        (reduction.diff, NUMBERS, _diff),
        (linalg.diagonal, ALL, _diagonal),
        (linalg.trace, NUMBERS, _trace),
        (linalg.vector_norm, FLOATS, _vector_norm),
        (linalg.matrix_norm, FLOATS, _matrix_norm),
        (normalization.normalize, FLOATS, _normalize),
        (activation.glu, FLOATS, _glu),
        (fft.fftshift, ALL, partial(_shifted, fft.fftshift, 1)),
        (fft.ifftshift, ALL, partial(_shifted, fft.ifftshift, -1)),
        (resize.pixel_shuffle, ALL, _pixel_shuffle),
        (resize.pixel_unshuffle, ALL, _pixel_unshuffle),
    ):
        unary(device, operation, kinds, run)
    numbers: Any = Union[types_of(device, NUMBERS)]
    floats: Any = Union[types_of(device, FLOATS)]
    add(products.tensordot, (numbers, numbers), _tensordot)
    add(products.cross, (numbers, numbers), _cross)
    add(activation.prelu, (floats, floats), _prelu)
    name: Any = Union[dtypes.DType, str, type, np.dtype]
    add(conversion.reduce_precision, (floats, name), _reduce_precision)
    add(manipulation.repeat, (Union[types_of(device, ALL)], int), _repeat)
    add(products.matrix_power, (numbers, int), _matrix_power)


def widened(x: Tensor, type: str | None = None) -> Any:
    """Return x in a type, its own by default, or in float32 for a narrow float."""
    wide = ir.widen(ir.load(0, type or x.dtype.name)).type
    return x if x.dtype.name == wide else astype(x, wide, casting="wrap")


def rounded(x: Tensor, dtype: Any) -> Any:
    """Return x, rounded to a type once."""
    return x if x.dtype is dtype else astype(x, dtype, casting="wrap")


def _cut(x: Any, at: int, part: slice) -> Any:
    return x[(slice(None),) * at + (part,)]


def _diff(x: Tensor, /, *, axis: int, n: int, prepend: Any, append: Any) -> Any:
    ends = {"prepend": prepend, "append": append}
    spec = infer(reduction.diff, x, axis=axis, n=n, **ends)
    at = normalize_axis(axis, x.ndim)
    parts = [part for part in (prepend, x, append) if part is not None]
    found = [widened(part, spec.dtype.name) for part in parts]
    y = found[0] if len(found) == 1 else manipulation.concat(found, axis=at)
    for _ in range(min(int(n), y.shape[at])):
        y = arithmetic.sub(_cut(y, at, slice(1, None)), _cut(y, at, slice(-1)))
    return rounded(y, spec.dtype)


def _diagonal(x: Tensor, /, *, offset: int) -> Any:
    infer(linalg.diagonal, x, offset=offset)
    rows, columns = x.shape[-2:]
    at = max(-rows, min(offset, columns))
    return view(x, lambda array: array.diagonal(at, -2, -1))


def _trace(x: Tensor, /, *, offset: int, dtype: Any) -> Any:
    infer(linalg.trace, x, offset=offset, dtype=dtype)
    return reduction.sum(linalg.diagonal(x, offset=offset), axis=-1, dtype=dtype)


def _vector_norm(x: Tensor, /, *, axis: Any, keepdims: bool, ord: Any) -> Any:
    spec = infer(linalg.vector_norm, x, axis=axis, keepdims=keepdims, ord=ord)
    size, power = arithmetic.abs(widened(x)), number(ord, "ord")
    along = {"axis": axis, "keepdims": keepdims}
    is_empty = not prod(x.shape[a] for a in normalize_axes(axis, x.ndim))
    if power in (1, inf) and is_empty:
        found = reduction.sum(size, **along)
    elif power in (inf, -inf):
        found = (reduction.max if power > 0 else reduction.min)(size, **along)
    elif power == 0:
        found = reduction.sum(astype(size != 0, size.dtype), **along)
    elif power == 1:
        found = reduction.sum(size, **along)
    elif power == 2:
        found = math.sqrt(reduction.sum(arithmetic.mul(size, size), **along))
    else:
        total = reduction.sum(arithmetic.pow(size, power), **along)
        found = arithmetic.pow(total, 1 / power)
    return rounded(found, spec.dtype)


def _matrix_norm(x: Tensor, /, *, keepdims: bool, ord: Any) -> Any:
    spec = infer(linalg.matrix_norm, x, keepdims=keepdims, ord=ord)
    last = (-2, -1)
    if ord in (None, "fro"):
        return linalg.vector_norm(x, axis=last, keepdims=keepdims)
    if ord not in (1, -1, inf, -inf):
        # Singular values need a decomposition.
        raise no_method("matrix_norm", x)
    size = arithmetic.abs(widened(x))
    sums = reduction.sum(size, axis=-2 if abs(ord) == 1 else -1, keepdims=True)
    extreme = reduction.max if ord > 0 else reduction.min
    return rounded(extreme(sums, axis=last, keepdims=keepdims), spec.dtype)


def _normalize(x: Tensor, /, *, p: Any, axis: Any, eps: Any) -> Any:
    spec = infer(normalization.normalize, x, p=p, axis=axis, eps=eps)
    wide = widened(x)
    norm = linalg.vector_norm(wide, axis=axis, keepdims=True, ord=number(p, "p"))
    found = arithmetic.div(wide, arithmetic.maximum(norm, number(eps, "eps")))
    return rounded(found, spec.dtype)


def _reduce_precision(x: Tensor, dtype: Any, /) -> Any:
    infer(conversion.reduce_precision, x, dtype)
    narrow = rounded(x, dtypes.dtype(dtype))
    return copied(x) if narrow is x else rounded(narrow, x.dtype)


def _glu(x: Tensor, /, *, axis: int) -> Any:
    spec = infer(activation.glu, x, axis=axis)
    at = normalize_axis(axis, x.ndim)
    half, operands = x.shape[at] // 2, Operands("glu", (x,))
    values = list[Value]()
    for part in (slice(half), slice(half, None)):
        key = (slice(None),) * at + (part,)
        buffer = x.buffer.view(lambda array, key=key: array[key])
        values.append(ir.widen(operands.view(buffer)))
    return compute(spec, operands, apply("mul", values[0], sigmoid(values[1])))


def _prelu(x: Tensor, weight: Tensor, /) -> Any:
    spec = infer(activation.prelu, x, weight)
    along = (-1, *(1,) * (x.ndim - 2)) if weight.size != 1 else ()
    slopes, operands = manipulation.reshape(weight, along), Operands("prelu", (x,))
    value = operands.tensor(x)
    slope = cast(operands.tensor(slopes), x.dtype.name)
    zero = cast(ir.number(0, "int8"), ir.widen(value).type)
    is_kept = apply("less_equal", zero, ir.widen(value))
    return compute(spec, operands, select(is_kept, value, apply("mul", value, slope)))


def _shifted(operation: Any, sign: int, x: Tensor, /, *, axes: Any) -> Any:
    infer(operation, x, axes=axes)
    along = normalize_axes(axes, x.ndim)
    steps = tuple(sign * (x.shape[axis] // 2) for axis in along)
    return manipulation.roll(x, steps, axis=along) if along else x


def _pixel_shuffle(x: Tensor, /, *, upscale_factor: int) -> Any:
    spec = infer(resize.pixel_shuffle, x, upscale_factor=upscale_factor)
    r = single(upscale_factor, "upscale_factor", 1)
    *batch, channels, height, width = x.shape
    apart = manipulation.reshape(x, (*batch, channels // r**2, r, r, height, width))
    return manipulation.reshape(_last_four(apart, (2, 0, 3, 1)), spec.shape)


def _pixel_unshuffle(x: Tensor, /, *, downscale_factor: int) -> Any:
    spec = infer(resize.pixel_unshuffle, x, downscale_factor=downscale_factor)
    r = single(downscale_factor, "downscale_factor", 1)
    *batch, channels, height, width = x.shape
    apart = manipulation.reshape(x, (*batch, channels, height // r, r, width // r, r))
    return manipulation.reshape(_last_four(apart, (1, 3, 0, 2)), spec.shape)


def _last_four(x: Any, order: tuple[int, ...]) -> Any:
    first = x.ndim - 4
    axes = (*range(first), *(first + axis for axis in order))
    return manipulation.permute_dims(x, axes)


def _tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any) -> Any:
    spec = infer(products.tensordot, x1, x2, axes=axes)
    first, second = products.pair_axes(x1.shape, x2.shape, axes)
    count = prod(x1.shape[a] for a in first)
    free1 = tuple(a for a in range(x1.ndim) if a not in first)
    free2 = tuple(a for a in range(x2.ndim) if a not in second)
    rows, columns = (
        prod(x.shape[a] for a in free) for x, free in ((x1, free1), (x2, free2))
    )
    left = manipulation.permute_dims(x1, (*free1, *first))
    right = manipulation.permute_dims(x2, (*second, *free2))
    a = manipulation.reshape(left, (rows, count))
    b = manipulation.reshape(right, (count, columns))
    return manipulation.reshape(products.matmul(a, b), spec.shape)


def _cross(x1: Tensor, x2: Tensor, /, *, axis: int) -> Any:
    spec = infer(products.cross, x1, x2, axis=axis)
    at = products.pair_axis(x1.shape, x2.shape, axis)
    a, b = (widened(x, spec.dtype.name) for x in (x1, x2))

    def product(left: int, right: int) -> Any:
        turned = (manipulation.roll(x, n, axis=at) for x, n in ((a, left), (b, right)))
        return arithmetic.mul(*turned)

    # Element i is a[i + 1] b[i + 2] - a[i + 2] b[i + 1].
    return rounded(arithmetic.sub(product(-1, -2), product(-2, -1)), spec.dtype)


def _matrix_power(x: Tensor, n: int, /) -> Any:
    """Multiply squares, as the host does; narrow floats are rounded once."""
    infer(products.matrix_power, x, n)
    if n < 0:
        # An inverse needs a decomposition.
        raise no_method("matrix_power", x, n)
    if n < 2:
        return copied(x) if n else _identity(x)
    square: Any = None
    found: Any = None
    for bit in reversed(f"{n:b}"):
        squared = widened(x) if square is None else products.matmul(square, square)
        if bit == "1":
            found = squared if found is None else products.matmul(found, squared)
        square = squared
    return rounded(found, x.dtype)


def _identity(x: Tensor) -> Any:
    one = filled(x.device, x.shape, np.ones((), x.dtype.storage))
    return creation.tril(creation.triu(x.wrap(one)))


def _repeat(x: Tensor, repeats: int, /, *, axis: int | None) -> Any:
    spec = infer(manipulation.repeat, x, repeats, axis=axis)
    if repeats < 0:
        problem, fix = "a number of repeats is below 0", "Use integers of 0 or more"
        raise OptionError(problem, fix, describe("repeat", x, repeats))
    flat = manipulation.reshape(x, (-1,)) if axis is None else x
    at = 0 if axis is None else normalize_axis(axis, x.ndim)
    apart = manipulation.expand_dims(flat, axis=at + 1)
    shape = (*flat.shape[: at + 1], repeats, *flat.shape[at + 1 :])
    many = manipulation.broadcast_to(apart, shape)
    return manipulation.reshape(many, spec.shape, copy=True)
