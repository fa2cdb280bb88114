"""Magnitudes, signs and powers of codes: exact on grids of their own, or tables."""

from typing import Any

import numpy as np

from mdtensor import TensorSpec, abs, method, reciprocal, sign, square
from mdtensor.errors import checked
from mdtensor.quant import elementary, rounding
from mdtensor.quant.deduction import Grid, Ruled, curve, rounded
from mdtensor.quant.dtypes import qint4, qint8, quint4, quint8
from mdtensor.quant.grids import combine
from mdtensor.quant.lookup import build
from mdtensor.quant.ops.activation import looked_up, step_of
from mdtensor.quant.ops.bound import bound
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, quantized
from mdtensor.spec.elementwise import same


def _from_zero(grid: QParams) -> QParams:
    """The same steps, counted from 0: as many as there are codes, so none is lost."""
    dtype = quint4 if grid.dtype.bits == 4 else quint8
    return grid.replace(zero_point=0, dtype=dtype, narrow_range=False)


def _of_signs(grid: QParams) -> QParams:
    return QParams(1, dtype=qint4 if grid.dtype.bits == 4 else qint8)


def _magnitude(x: TensorSpec, _: int) -> QParams:
    return _from_zero(x.qparams)


def _sign(x: TensorSpec, _: int) -> QParams:
    return _of_signs(x.qparams)


def _square(x: TensorSpec, _: int) -> QParams:
    return combine.of_product(x, x)


def _on(exact: Grid) -> Ruled:
    """On `out`, or on the grid that holds the result exactly."""
    return Ruled(rounded(same, exact))


@method(abs, deduce=_on(_magnitude), prepare=step_of(build.magnitude))
@bound
def abs(x: NarrowTensor, /, *, out: Any = None) -> Any:
    if out is None:
        grid = _from_zero(x.qparams)
        return lambda x: quantized(np.abs(rounding.steps_of(x)), grid)
    return looked_up(abs, build.magnitude, x, out)


@method(sign, deduce=_on(_sign), prepare=step_of(build.sign))
@bound
def sign(x: NarrowTensor, /, *, out: Any = None) -> Any:
    if out is None:
        grid = _of_signs(x.qparams)
        return lambda x: quantized(np.sign(rounding.steps_of(x)), grid)
    return looked_up(sign, build.sign, x, out)


@method(square, deduce=_on(_square), prepare=step_of(build.square))
@bound
def square(x: NarrowTensor, /, *, out: Any = None) -> Any:
    if out is None:
        grid = checked("square", (x,), lambda: combine.of_product(x, x))
        return lambda x: quantized(rounding.steps_of(x) ** 2, grid)
    return looked_up(square, build.square, x, out)


@method(reciprocal, deduce=curve, prepare=step_of(elementary.reciprocal))
@bound
def reciprocal(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(reciprocal, elementary.reciprocal, x, out)
