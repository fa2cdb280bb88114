"""Assignment to a part of a quantized tensor, in place and without rounding."""

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
from mdtensor.extend import check_broadcast
from mdtensor.kernels.numpy import int4
from mdtensor.quant.grids import combine
from mdtensor.quant.grids.combine import singles
from mdtensor.quant.ops.manipulation import name_errors
from mdtensor.quant.ops.scalars import codes_of
from mdtensor.quant.tensor import PackedTensor, QuantizedTensor


def _infer_setitem(x: TensorSpec, *, key: object, value: object) -> TensorSpec:
    """Infer an assignment: the spec of `x`, if the value fits the key."""
    rule = getitem.select(x.type).deduce
    _check_value(rule(x, key=key), value)
    return x


def _check_value(places: Any, value: Any) -> None:
    """Check that `places`, a tensor or a spec, can hold `value` exactly.

    Raises:
        OptionError: it is neither a tensor nor a number.
        PromotionError: it is not quantized.
        GridError: it is on another grid.
        CastError: the grid does not have a code for the number.
        ShapeError: it does not broadcast to `places`.
    """
    if isinstance(value, (int, float)):
        for single in singles(places.qparams):
            codes_of(single, (), value)
        return
    kind = value.type if isinstance(value, TensorSpec) else type(value)
    if not issubclass(kind, Tensor):
        raise OptionError(
            f"the value is a {kind.__name__}",
            "Pass codes on the same grid, or a number on the grid",
        )
    if not issubclass(kind, QuantizedTensor):
        raise PromotionError(
            f"{kind.__name__} is not quantized{grids((places,))}",
            "Use quantize(x, q.qparams) for numbers, type(q)(codes, q.qparams) for "
            "codes",
        )
    check_broadcast(value.shape, places.shape)
    combine.shared_grid((places, value), places.shape, is_rounded=False)


@method(setitem, deduce=_infer_setitem)
def setitem(x: QuantizedTensor, /, *, key: object, value: object) -> QuantizedTensor:
    return name_errors("setitem", x, lambda: _write(x, key, value))


def _check_writeable(x: QuantizedTensor) -> None:
    problem, fix = "the buffer is read-only", "Write into a deep copy"
    if isinstance(x, PackedTensor) and x.is_part:
        problem = "two codes share a byte, so this part is a copy"
        fix = "Write q[i, j] = v instead of q[i][j] = v, or into a deep copy"
    elif x.buffer.flags.writeable:
        return
    raise WriteError(problem, fix, describe("setitem", x))


def _copy_of_codes(x: QuantizedTensor) -> Any:
    """Return the codes in writable memory; of a packed tensor a copy."""
    if not isinstance(x, PackedTensor):
        return x.codes
    # The codes of a packed tensor are read-only, since writes would not reach it.
    return x.codes.wrap(x.codes.buffer.copy())


def _write(x: QuantizedTensor, key: object, value: object) -> QuantizedTensor:
    # Every check comes first, so that an error leaves the tensor as it was.
    places = getitem(x, key)
    _check_value(places, value)
    _check_writeable(x)
    codes = _copy_of_codes(x)
    if isinstance(value, QuantizedTensor):
        given = value.codes
        # A tensor names a rule only if all its codes were rounded by it.
        x.rounding = combine.shared_rule([x, value])
    else:
        given = type(codes).wrap(
            np.array(codes_of(places.qparams, places.shape, value))
        )
    setitem(codes, key, given)
    if isinstance(x, PackedTensor):
        x.buffer[...] = int4.pack(codes.buffer)
    return x
