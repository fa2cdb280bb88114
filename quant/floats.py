"""The one place where numbers are rounded to 8-bit floats: half to even, exactly.

    round(x / scale) to the digits of the type, at most its largest finite number

A number past the largest finite one, or infinite, becomes that: quantized tensors
saturate, whatever the type.

Source: OCP 8-bit Floating Point Specification, section 5; ONNX `Cast`, `saturate=1`.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DType
from mdtensor.quant import saturation
from mdtensor.quant.qparams import QParams

Array = npt.NDArray[Any]
#: A quotient of numbers that took two roundings errs by less than this part of itself.
ERROR = 2.0**-50
#: Smallest normal numbers, as powers of 2.
NORMAL = {"qfloat8_e4m3": -6, "qfloat8_e5m2": -14}

Exactly = Callable[[Array], list[Fraction]]


def to_floats(quotient: Array, dtype: DType, exactly: Exactly | None = None) -> Array:
    """Quotients as the nearest elements of `dtype`.

    Args:
        quotient: float64 without NaN, any shape.
        dtype: a type of scaled floats.
        exactly: the quotients at the places of a mask, where those given are rounded
            and a tie may not be one.

    Example:
        >>> from mdtensor.quant.dtypes import qfloat8_e4m3
        >>> to_floats(np.array([1.0625, 1.1875, 500.0]), qfloat8_e4m3).tolist()
        [1.0, 1.25, 448.0]
    """
    largest = float(dtype.maximum)
    inside = np.clip(quotient, -2 * largest, 2 * largest)
    _, power = np.frexp(inside)
    least = np.maximum(power - 1, NORMAL[dtype.name]) - (dtype.digits - 1)
    steps = np.ldexp(inside, -least)
    nearest = np.asarray(np.rint(steps))
    if exactly is not None:
        doubt = np.abs(np.abs(steps - nearest) - 0.5) <= np.abs(steps) * ERROR
        pairs = zip(exactly(doubt), least[doubt].tolist(), strict=True)
        nearest[doubt] = [round(q / Fraction(2) ** e) for q, e in pairs]
    floats = np.ldexp(nearest, least)
    saturation.note(lambda: np.abs(floats) > largest)
    found = np.clip(floats, -largest, largest)
    return np.asarray(found.astype(np.float32).astype(dtype.storage))


def to_grid(values: Array, grid: QParams, is_wide: bool) -> Array:
    """Numbers of float64 as floats on `grid`.

    Args:
        values: any shape, no NaN.
        grid: of scaled floats; of any granularity.
        is_wide: whether they have more than 41 bits, so that a quotient by a float32
            may seem a tie that it is not.
    """
    scale = np.asarray(grid.along(grid.scale, values.shape))
    with np.errstate(over="ignore", under="ignore"):
        quotient = np.asarray(values / scale)

    def exactly(doubt: Array) -> list[Fraction]:
        scales = np.broadcast_to(scale, doubt.shape)[doubt]
        rows = zip(values[doubt].tolist(), scales.tolist(), strict=True)
        return [Fraction(v) / Fraction(s) for v, s in rows]

    return to_floats(quotient, grid.dtype, exactly if is_wide else None)


def numbers_of(x: Any) -> Array:
    """The real numbers of scaled floats, exact in float64: 28 bits at most."""
    scale = x.qparams.along(x.qparams.scale, x.shape)
    with np.errstate(invalid="ignore"):
        return np.asarray(x.buffer.astype(np.float64) * scale)
