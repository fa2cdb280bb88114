"""Assignment to a part of a quantized tensor, in place and without rounding."""

from typing import Any

import numpy as np

from mdtensor import (
    IntegerTensor,
    OptionError,
    PromotionError,
    Tensor,
    TensorSpec,
    WriteError,
    getitem,
    method,
    setitem,
    take,
    take_along_axis,
)
from mdtensor.errors import describe, grids
from mdtensor.extend import (
    announce_write,
    check_broadcast,
    normalize_axis,
)
from mdtensor.kernels.cpu.program.steps import Take
from mdtensor.kernels.numpy.conversion import pack_int4
from mdtensor.quant.deduction import (
    on_grid,
    result_shape,
)
from mdtensor.quant.grids import combine, moves
from mdtensor.quant.grids.combine import singles
from mdtensor.quant.ops.kernels import NotCompiled
from mdtensor.quant.ops.manipulation import (
    LAST,
    Codes,
    layout,
    move_codes,
    name_errors,
    view_step,
)
from mdtensor.quant.ops.scalars import codes_of
from mdtensor.quant.tensor import (
    PackedTensor,
    QuantizedTensor,
)


def _infer_setitem(x: TensorSpec, *, key: object, value: object) -> TensorSpec:
    """Infer an assignment: the spec of `x`, if the value fits the key."""
    rule = getitem.select(x.type).deduce
    _check_value(rule(x, key=key), value)
    return x


def _check_value(places: Any, value: Any) -> None:
    """Check that `places`, a tensor or a spec, can hold `value` exactly.

    Raises:
        OptionError: `value` is neither a tensor nor a number.
        PromotionError: `value` is not quantized.
        GridError: `value` is on another grid.
        CastError: the grid does not have a code for the number.
        ShapeError: `value` does not broadcast to `places`.
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
        written = places.type if isinstance(places, TensorSpec) else type(places)
        name = written.__name__
        raise PromotionError(
            f"the value is a {kind.__name__}, but {name} takes only codes on its grid"
            f"{grids((places,))}",
            "Use quantize(value, q.qparams) for real numbers, or "
            f"{name}(value, q.qparams) for integers that are codes; q is the tensor "
            "that you write to",
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
    """Return the codes in writable memory: a copy if the tensor is packed."""
    if not isinstance(x, PackedTensor):
        return x.codes
    # The codes of a packed tensor are read-only, since writes would not reach it.
    return x.codes.wrap(x.codes.buffer.copy())


def _write(x: QuantizedTensor, key: object, value: object) -> QuantizedTensor:
    # Every check comes first, so that an error leaves the tensor as it was.
    places = getitem(x, key)
    _check_value(places, value)
    _check_writeable(x)
    announce_write(x.buffer)
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
        x.buffer[...] = pack_int4(codes.buffer)
    return x


def _infer_take_along(x: TensorSpec, indices: object, *, axis: int) -> TensorSpec:
    """Infer take_along_axis: one grid along the axis, as in the argument."""
    shape = result_shape(take_along_axis, x, indices, axis=axis)
    at = normalize_axis(axis, x.ndim)
    grid = moves.reduce(x.qparams, [at], keepdims=True)
    one = (*x.shape[:at], 1, *x.shape[at + 1 :])
    return on_grid(shape, moves.broadcast(grid, one, shape))


@method(take_along_axis, deduce=_infer_take_along)
def take_along_axis(
    x: QuantizedTensor, indices: IntegerTensor, /, *, axis: int
) -> QuantizedTensor:
    return move_codes("take_along_axis", take_along_axis, x, indices, axis=axis)


def take_step(x: TensorSpec, indices: Any, /, *, axis: int) -> Take:
    """Return the step that takes codes at constant indices along one axis.

    Raises:
        NotCompiled: the indices are not constant, not of one axis, or out of bounds.
    """
    layout(x)
    if isinstance(indices, TensorSpec) or indices.ndim != 1:
        raise NotCompiled("a compiled take has constant indices along one axis")
    at = 0 if axis is None else normalize_axis(axis, x.ndim)
    places = indices.buffer
    if ((places < -x.shape[at]) | (places >= x.shape[at])).any():
        raise NotCompiled("a compiled take has indices inside the axis")
    return Take(places, LAST[at] if x.ndim == 4 else at)


def index_view(codes: Codes, *, key: Any) -> Codes:
    view: Codes = codes[key]
    return view


def _infer_getitem(x: TensorSpec, *, key: object) -> TensorSpec:
    shape = result_shape(getitem, x, key=key)
    return on_grid(shape, moves.getitem(x.qparams, x.shape, key))


@method(getitem, deduce=_infer_getitem, prepare=view_step(index_view))
def getitem(x: QuantizedTensor, /, *, key: object) -> QuantizedTensor:
    return move_codes("getitem", getitem, x, key=key)


def _infer_take(x: TensorSpec, indices: Any, *, axis: int) -> TensorSpec:
    shape, grid = result_shape(take, x, indices, axis=axis), x.qparams
    # The rule has checked that only a vector may omit its axis.
    at = normalize_axis(0 if axis is None else axis, x.ndim)
    key = (*[slice(None)] * at, indices)
    return on_grid(shape, moves.getitem(grid, x.shape, key))


@method(take, deduce=_infer_take, prepare=take_step)
def take(
    x: QuantizedTensor, indices: IntegerTensor, /, *, axis: int | None
) -> QuantizedTensor:
    return move_codes("take", take, x, indices, axis=axis)
