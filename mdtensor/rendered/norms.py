"""Normalizations in three launches: mean, mean of squares, and the quotient.

Sums are folds in the device's order (see `reduction`), so results differ from the
host's in the last bits.
"""

from __future__ import annotations

from math import prod
from typing import Any, Union

import numpy as np

from mdtensor.device import Device
from mdtensor.generics import normalization as norms
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Loop, Value, apply, cast
from mdtensor.rendered.launches import FLOATS, Operands, compute, launch, types_of
from mdtensor.rendered.methods import add
from mdtensor.rendered.movement import copied
from mdtensor.rendered.products import reshaped
from mdtensor.spec.options import number
from mdtensor.tensor import Tensor


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    floats: Any = Union[types_of(device, FLOATS)]
    weight: Any = Union[(*types_of(device, FLOATS), type(None))]
    add(norms.layer_norm, (floats, weight, weight), _layer_norm)
    add(norms.rms_norm, (floats, weight), _rms_norm)
    add(norms.group_norm, (floats, weight, weight), _group_norm)
    add(norms.instance_norm, (floats, weight, weight), _instance_norm)
    add(norms.batch_norm, (floats,) * 5, _batch_norm)
    folded = (floats, weight, *(floats,) * 4)
    add(norms.fold_batch_norm, folded, _fold_batch_norm)


def _layer_norm(
    x: Tensor, weight: Any, bias: Any, /, *, normalized_shape: Any, eps: float
) -> Any:
    options = {"normalized_shape": normalized_shape, "eps": eps}
    spec = infer(norms.layer_norm, x, weight, bias, **options)
    count = prod(norms.last_sizes(normalized_shape))
    pair = tuple(None if v is None else _flat(v, (1, count)) for v in (weight, bias))
    buffer = _rows(x, count)
    found = _standardized("layer_norm", x, buffer, pair, number(eps, "eps"), True)
    return spec.type.wrap(reshaped(found, x.shape))


def _rms_norm(x: Tensor, weight: Any, /, *, normalized_shape: Any, eps: Any) -> Any:
    options = {"normalized_shape": normalized_shape, "eps": eps}
    spec = infer(norms.rms_norm, x, weight, **options)
    count = prod(norms.last_sizes(normalized_shape))
    wide = np.dtype(ir.widen(ir.load(0, x.dtype.name)).type)
    least = float(np.finfo(wide).eps) if eps is None else number(eps, "eps")
    pair = None if weight is None else _flat(weight, (1, count)), None
    found = _standardized("rms_norm", x, _rows(x, count), pair, least, False)
    return spec.type.wrap(reshaped(found, x.shape))


def _group_norm(
    x: Tensor, weight: Any, bias: Any, /, *, num_groups: int, eps: float
) -> Any:
    infer(norms.group_norm, x, weight, bias, num_groups=num_groups, eps=eps)
    return _of_groups("group_norm", x, weight, bias, num_groups, eps)


def _instance_norm(x: Tensor, weight: Any, bias: Any, /, *, eps: float) -> Any:
    infer(norms.instance_norm, x, weight, bias, eps=eps)
    return _of_groups("instance_norm", x, weight, bias, max(x.shape[1], 1), eps)


def _of_groups(
    name: str, x: Tensor, weight: Any, bias: Any, groups: int, eps: float
) -> Any:
    """Normalize the channels of each group, and all later axes, together."""
    per = x.shape[1] // groups
    rest = prod(x.shape[2:])
    whole = copied(x).buffer
    buffer = reshaped(whole, (x.shape[0], groups, per, rest))
    shape = (1, groups, per, 1)
    pair = tuple(None if v is None else _flat(v, shape) for v in (weight, bias))
    found = _standardized(name, x, buffer, pair, number(eps, "eps"), True, 2)
    return x.wrap(reshaped(found, x.shape))


def _batch_norm(*given: Tensor, eps: float) -> Any:
    """Compute (x - mean) · s + bias, with s in float64, as the host does."""
    spec = infer(norms.batch_norm, *given, eps=eps)
    x = given[0]
    operands = Operands("batch_norm", given)
    element = ir.widen(operands.tensor(x))
    along = (-1,) + (1,) * (x.ndim - 2)
    mean, var, weight, bias = (
        operands.view(v.buffer.view(lambda array: array.reshape(along)))
        for v in given[1:]
    )
    least = operands.array(np.array(number(eps, "eps")))
    root = apply("sqrt", apply("add", cast(var, "float64"), least))
    scale = apply("div", cast(weight, "float64"), root)
    type = element.type
    centred = apply("sub", element, cast(mean, type))
    found = apply("add", apply("mul", centred, cast(scale, type)), cast(bias, type))
    loop = operands.loop(cast(found, x.dtype.name))
    return spec.type.wrap(launch(x.device, loop, x.shape, operands.buffers))


def _flat(x: Tensor, shape: tuple[int, ...]) -> Any:
    return reshaped(copied(x).buffer, shape)


def _rows(x: Tensor, count: int) -> Any:
    """Return a contiguous buffer [rows, count]."""
    lead = x.size // count if count else prod(x.shape[:-1])
    return reshaped(copied(x).buffer, (lead, count))


def _standardized(
    name: str,
    x: Tensor,
    buffer: Any,
    pair: tuple[Any, ...],
    eps: float,
    is_centred: bool,
    axes: int = 1,
) -> Any:
    """Return (x - mean) / sqrt(var + eps) · weight + bias over the last axes.

    Args:
        pair: buffers of weight and bias that broadcast, or None.
        is_centred: whether the mean is subtracted.
        axes: how many.
    """
    device, rank = x.device, len(buffer.shape)
    over = tuple(range(rank - axes, rank))
    kept = buffer.shape[: rank - axes] + (1,) * axes
    operands = Operands(name, (x,))
    value = ir.widen(operands.view(buffer))
    if is_centred:
        total = _mean(device, f"{name}_mean", operands, value, kept, over)
        value = apply("sub", value, operands.view(total))
    square = apply("mul", value, value)
    var = _mean(device, f"{name}_var", operands, square, kept, over)
    least = operands.array(np.array(eps, np.dtype(value.type)))
    root = apply("sqrt", apply("add", operands.view(var), least))
    found = apply("div", value, root)
    for other, combine in zip(pair, ("mul", "add"), strict=True):
        if other is not None:
            found = apply(combine, found, cast(operands.view(other), found.type))
    loop = operands.loop(cast(found, x.dtype.name))
    return launch(device, loop, buffer.shape, operands.buffers)


def _mean(
    device: Device,
    name: str,
    operands: Operands,
    value: Value,
    kept: tuple[int, ...],
    over: tuple[int, ...],
) -> Any:
    share = apply("div", ir.total(value.type), cast(ir.count(), value.type))
    loop = Loop(tuple(operands.inputs), value, "add", share, name=name)
    return launch(device, loop, kept, list(operands.buffers), over)


def _fold_batch_norm(
    w: Tensor,
    b: Tensor | None,
    mean: Tensor,
    var: Tensor,
    weight: Tensor,
    bias: Tensor,
    /,
    *,
    eps: Any,
) -> Any:
    """Compute (w · s, (b - mean) · s + bias) in float64, and round each once."""
    given = w, b, mean, var, weight, bias
    filters, shift = infer(norms.fold_batch_norm, *given, eps=eps)
    scale = _Channels("fold_batch_norm", given, w.ndim)
    folded = apply("mul", scale.wide(w.buffer), scale.factor(weight, var, eps))
    first = compute(filters, scale.operands, folded)
    scale = _Channels("fold_batch_norm", given, 1)
    before = ir.number(0, "float64") if b is None else scale.channel(b)
    moved = apply("sub", before, scale.channel(mean))
    product = apply("mul", moved, scale.factor(weight, var, eps))
    total = apply("add", product, scale.channel(bias))
    return first, compute(shift, scale.operands, total)


class _Channels:
    """Float64 values of channels, for a tensor whose first axis they are.

    Args:
        name, given: the call.
        rank: of the tensor.
    """

    def __init__(self, name: str, given: tuple[Any, ...], rank: int) -> None:
        self.operands = Operands(name, given)
        self._rank = rank

    def wide(self, buffer: Any) -> Value:
        """Return the element of a buffer."""
        return cast(self.operands.view(buffer), "float64")

    def channel(self, x: Tensor) -> Value:
        """Return the element of [c] that belongs to a channel."""
        key = (slice(None), *[None] * (self._rank - 1))
        return self.wide(x.buffer.view(lambda array: array[key]))

    def factor(self, weight: Tensor, var: Tensor, eps: Any) -> Value:
        """Return weight / sqrt(var + eps)."""
        least = self.operands.array(np.array(number(eps, "eps"), np.float64))
        root = apply("sqrt", apply("add", self.channel(var), least))
        return apply("div", self.channel(weight), root)
