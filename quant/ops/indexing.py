"""Writing codes in place: of tensors on the same grid, and of numbers it has."""

from typing import Any

import numpy as np

from mdtensor import (
    OptionError,
    PromotionError,
    Tensor,
    TensorSpec,
    WriteError,
    getitem,
    method,
    setitem,
)
from mdtensor.errors import describe, grids
from mdtensor.kernels.numpy import int4
from mdtensor.quant.grids import combine
from mdtensor.quant.grids.combine import singles
from mdtensor.quant.ops.manipulation import named
from mdtensor.quant.ops.scalars import codes_of
from mdtensor.quant.tensor import PackedTensor, QuantizedTensor
from mdtensor.spec.shapes import check_broadcast


def _assigned(x: TensorSpec, *, key: Any, value: Any) -> TensorSpec:
    """Type, shape and grid of the argument, whose places the value may take."""
    rule = getitem.select(x.type).deduce
    _check(rule(x, key=key), value)
    return x


def _check(places: Any, value: Any) -> None:
    """Refuse a value that places, a tensor or a spec of one, do not hold exactly."""
    if isinstance(value, (int, float)):
        for single in singles(places.qparams):
            codes_of(single, (), value)
        return
    kind = value.type if isinstance(value, TensorSpec) else type(value)
    if not issubclass(kind, Tensor):
        raise OptionError(
            f"the value is a {kind.__name__}",
            "Give codes on the same grid, or a number that it has",
        )
    if not issubclass(kind, QuantizedTensor):
        raise PromotionError(
            f"{kind.__name__} has no grid{grids((places,))}",
            "Use quantize(x, q.qparams) for numbers, type(q)(codes, q.qparams) for "
            "codes",
        )
    check_broadcast(value.shape, places.shape)
    combine.shared_grid((places, value), places.shape, is_rounded=False)


@method(setitem, deduce=_assigned)
def setitem(x: QuantizedTensor, /, *, key: Any, value: Any) -> Any:
    return named("setitem", x, lambda: _written(x, key, value))


def _check_writeable(x: Any) -> None:
    problem, fix = "the buffer is read-only", "Write into a deep copy"
    if isinstance(x, PackedTensor) and x.is_part:
        problem = "two codes share a byte, so that this is a copy of a part"
        fix = "Write q[i, j] = v instead of q[i][j] = v, or into a deep copy"
    elif x.buffer.flags.writeable:
        return
    raise WriteError(problem, fix, describe("setitem", x))


def _writable(x: Any) -> Any:
    """Return the codes in memory that may be written."""
    if not isinstance(x, PackedTensor):
        return x.codes
    # Those of a packed tensor are a read-only copy, which this one replaces.
    return x.codes.wrap(x.codes.buffer.copy())


def _written(x: Any, key: Any, value: Any) -> Any:
    places = getitem(x, key)
    _check(places, value)
    _check_writeable(x)
    codes = _writable(x)
    if isinstance(value, QuantizedTensor):
        given = value.codes
        x.rounding = combine.shared_rule([x, value])
    else:
        given = type(codes).wrap(
            np.array(codes_of(places.qparams, places.shape, value))
        )
    setitem(codes, key, given)
    if isinstance(x, PackedTensor):
        x.buffer[...] = int4.pack(codes.buffer)
    return x
