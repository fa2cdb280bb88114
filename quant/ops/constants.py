"""Python numbers among codes: a number has a code, or it is refused."""

from fractions import Fraction
from typing import Any, Union

import numpy as np

from mdtensor import CastError
from mdtensor.errors import shown
from mdtensor.quant import floats
from mdtensor.quant.dtypes import FLOATS
from mdtensor.quant.lookup.build import exactly, is_number
from mdtensor.quant.pieces import by_pieces
from mdtensor.quant.qparams import QParams

#: What a tensor of numbers takes for an operand without a type.
PythonNumber = Union[int, float]


def codes_of(grid: QParams, shape: tuple[int, ...], number: Any) -> Any:
    """The codes of `number` on `grid`, for each element of `shape`.

    Args:
        grid: of any granularity; it fits `shape`.

    Raises:
        CastError: the number lies between two codes, or beyond all.
    """
    zeros = np.zeros((1,) * len(shape) if grid.axis is None else shape, np.int64)
    width = np.uint8 if grid.dtype in FLOATS else grid.dtype.storage
    found = by_pieces(
        lambda _, single: np.asarray(_code(single, number)), width, (zeros, grid)
    )
    return np.broadcast_to(found, shape)


def _code(grid: QParams, number: Any) -> int:
    """The code of `number` on a grid of one scale; of floats the byte."""
    if is_number(number):
        quotient = exactly(number) / grid.fraction
        code = _float_code(grid, quotient) if grid.dtype in FLOATS else quotient
        if code is not None and code.denominator == 1:
            code += grid.zero
            if grid.dtype in FLOATS or grid.minimum <= code <= grid.maximum:
                return int(code)
    raise CastError(
        f"{shown(number)} is no code of ({grid.describe()})",
        f"Give a number on the grid, such as {_near(grid, number)}",
    )


def _near(grid: QParams, number: Any) -> str:
    """The number of the nearest code, in full: a scale of 0.1 is a float32."""
    near = 0.0
    if is_number(number) and grid.dtype not in FLOATS:
        exact = _step(grid, number) * grid.fraction
        near = float(exact) if Fraction(float(exact)) == exact else 0.0
    short = f"{near:g}"
    return short if float(short) == near else repr(near)


def _step(grid: QParams, number: Any) -> int:
    """How many steps from real 0 the nearest code is."""
    code = round(exactly(number) / grid.fraction) + grid.zero
    return min(max(code, grid.minimum), grid.maximum) - grid.zero


def _float_code(grid: QParams, quotient: Fraction) -> Fraction | None:
    """The byte of the float that `quotient` is."""
    if abs(quotient) > int(grid.dtype.maximum):
        return None
    found = floats.to_floats(np.array([float(quotient)]), grid.dtype)
    if Fraction(float(found[0])) != quotient:
        return None
    return Fraction(int(found.view(np.uint8)[0]))
