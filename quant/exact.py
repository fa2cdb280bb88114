"""The one place where numbers are rounded to codes: half to even, exactly.

Every path of the library that rounds to a grid gives these results. The compiled
kernels have a proof of their own (`kernels/rescale.py`) and are tested against this.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DType
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.qparams import QParams

# How many numbers lay past the ends of the grid that they were rounded to.
#
#     with counted() as counts:
#         md.add(x, y, out=grid)
#     sum(counts)
#
# It is asked for by `losses`, and costs nothing otherwise.

_COUNTS: ContextVar[list[int] | None] = ContextVar("saturations", default=None)


@contextmanager
def counted() -> Iterator[list[int]]:
    """A block, and a number for each array that is rounded to a grid in it."""
    counts: list[int] = []
    token = _COUNTS.set(counts)
    try:
        yield counts
    finally:
        _COUNTS.reset(token)


def note(outside: Callable[[], Any]) -> None:
    """Count where `outside()` is true, if anybody asked."""
    counts = _COUNTS.get()
    if counts is not None:
        counts.append(int(np.count_nonzero(outside())))


# The one place where numbers are rounded to 8-bit floats: half to even, exactly.
#
#     round(x / scale) to the digits of the type, at most its largest finite number
#
# A number past the largest finite one, or infinite, becomes that: quantized tensors
# saturate, whatever the type.
#
# Source: OCP 8-bit Floating Point Specification, section 5; ONNX `Cast`, `saturate=1`.

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
    note(lambda: np.abs(floats) > largest)
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


IntArray = npt.NDArray[np.int64]
#: Steps beyond this saturate on any grid of 32 bits or fewer.
LARGE = 2.0**40
#: A float64 sum of products errs by less than this part of the sum of magnitudes.
EXACT_ERROR = 2.0**-48
#: Products with ratios up to this stay finite in float64.
FINITE = Fraction(2) ** 900


# Near ties need exact arithmetic, because float64 does not prove anything there either
# (decision 0003).
def round_sum(*terms: tuple[npt.NDArray[Any], Fraction]) -> IntArray:
    """round_half_even(sum of values · ratio), exact; cut to ±2**40.

    Float64 decides all but near ties, which are decided by rational numbers.

    Args:
        terms: pairs of integers, |value| < 2**53, and a ratio; shapes broadcast.

    Returns:
        int64, the broadcast shape.

    Example:
        >>> round_sum((np.array([1, 3, 5]), Fraction(1, 2))).tolist()
        [0, 2, 2]
    """
    ratios = [ratio for _, ratio in terms]
    is_finite = all(abs(ratio) <= FINITE for ratio in ratios)
    factors = [float(ratio) if is_finite else 0.0 for ratio in ratios]
    products = [v * f for (v, _), f in zip(terms, factors, strict=True)]
    total = np.asarray(sum(products[1:], products[0]))
    nearest = np.rint(np.clip(total, -LARGE, LARGE))
    result: IntArray = np.asarray(nearest).astype(np.int64)
    if is_finite and _is_exact(*terms):
        return result
    error = sum((np.abs(p) for p in products[1:]), np.abs(products[0])) * EXACT_ERROR
    doubt = np.abs(np.abs(total - nearest) - 0.5) <= error
    doubt &= np.abs(total) - error < LARGE
    doubt |= not is_finite
    columns = [np.broadcast_to(v, result.shape)[doubt].tolist() for v, _ in terms]
    rows = zip(*columns, strict=True)
    result[doubt] = [_round_exactly(row, ratios) for row in rows]
    return result


def _is_exact(*terms: tuple[npt.NDArray[Any], Fraction]) -> bool:
    """Whether float64 holds every product and their sum."""
    unit = max(ratio.denominator for _, ratio in terms)
    if any(ratio.denominator & (ratio.denominator - 1) for _, ratio in terms):
        return False
    largest = [int(np.abs(values).max(initial=0)) for values, _ in terms]
    sizes = zip(largest, terms, strict=True)
    return sum(most * abs(ratio) * unit for most, (_, ratio) in sizes) < 2**53


def _round_exactly(values: Iterable[int], ratios: list[Fraction]) -> int:
    limit = int(LARGE)
    exact = sum(v * r for v, r in zip(values, ratios, strict=True))
    return min(max(round(exact), -limit), limit)


def to_codes(steps: npt.NDArray[Any], grid: QParams) -> npt.NDArray[Any]:
    """Steps from real 0 as codes of `grid`, saturated."""
    codes = steps + grid.along(grid.zero_point, steps.shape)
    note(lambda: (codes < grid.minimum) | (codes > grid.maximum))
    return np.asarray(np.clip(codes, grid.minimum, grid.maximum), grid.dtype.storage)


def steps_of(x: Any) -> IntArray:
    """Steps from real 0 of a quantized tensor: codes less their zero point."""
    codes = x.code_array.astype(np.int64)
    steps: IntArray = codes - x.qparams.along(x.qparams.zero_point, codes.shape)
    return steps


def reals(x: Any) -> npt.NDArray[Any]:
    """The real numbers of codes; exact in float64 unless they are accumulators."""
    if x.dtype in FLOATS:
        return numbers_of(x)
    return np.asarray(steps_of(x) * x.qparams.along(x.qparams.scale, x.shape))


def rescale(steps: npt.NDArray[Any], source: QParams, target: QParams) -> Any:
    """Codes on `target` for integer steps of `source`; rounds once.

    Args:
        steps: codes less their zero point.
        source, target: of any granularity.
    """
    return to_codes(rescaled(steps, source, target), target)


def is_past(x: Any, target: QParams) -> npt.NDArray[Any]:
    """Which codes of `x` come to lie past the ends of `target`."""
    steps = rescaled(steps_of(x), x.qparams, target)
    codes = steps + target.along(target.zero_point, steps.shape)
    return np.asarray((codes < target.minimum) | (codes > target.maximum))


def rescaled(steps: npt.NDArray[Any], source: QParams, target: QParams) -> IntArray:
    """Steps of `source` as steps of `target`, which may be past its ends."""
    if source.axis is None and target.axis is None:
        return round_sum((steps, source.fraction / target.fraction))
    above, below = (np.asarray(g.along(g.scale, steps.shape)) for g in (source, target))
    is_short = qint32 not in (source.dtype, target.dtype)
    return _round_quotients(steps, above, below, is_short)


def _round_quotients(steps: Any, source: Any, target: Any, is_short: bool) -> IntArray:
    """round_half_even(steps · source / target), exact; cut to ±2**40.

    A quotient of numbers that are `is_short`, 41 bits by 24, is a tie in float64
    exactly when it is one, unless it saturates 16 bits.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        quotient = np.asarray(steps * source / target)
    nearest = np.rint(np.clip(np.nan_to_num(quotient), -LARGE, LARGE))
    rounded: IntArray = np.asarray(nearest).astype(np.int64)
    if is_short:
        return rounded
    doubt = np.abs(np.abs(quotient - nearest) - 0.5) <= np.abs(quotient) * EXACT_ERROR
    doubt = (doubt & (np.abs(quotient) < 2 * LARGE)) | ~np.isfinite(quotient)
    columns = [np.broadcast_to(v, doubt.shape)[doubt] for v in (steps, source, target)]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    rounded[doubt] = [
        _round_exactly([n], [Fraction(a) / Fraction(b)]) for n, a, b in rows
    ]
    return rounded
