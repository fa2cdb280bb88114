"""Exact rounding to codes, half to even: the reference for every path of the library.

Compiled kernels have a proof of their own (`kernels/rescale.py`), and tests compare
them with these functions.

`steps` are codes minus their zero point, which is the real number in units of the
scale. Results are steps too; `to_codes` adds the zero point and saturates.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DType
from mdtensor.kernels.numpy import empty
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor

# A context variable instead of a parameter: only `losses` counts, and every function
# between it and the rounding would have to pass the parameter on.
_COUNTS: ContextVar[list[int] | None] = ContextVar("saturations", default=None)


@contextmanager
def count_saturations() -> Iterator[list[int]]:
    """Count the numbers beyond the ends of the grid to which they are rounded.

        with count_saturations() as counts:
            md.add(x, y, out=grid)
        sum(counts)

    The list gets one entry for each array that is rounded inside the block.
    """
    counts: list[int] = []
    token = _COUNTS.set(counts)
    try:
        yield counts
    finally:
        _COUNTS.reset(token)


def is_counting() -> bool:
    """Return whether a `count_saturations` block is open."""
    return _COUNTS.get() is not None


def note(outside: Callable[[], npt.NDArray[np.bool_]]) -> None:
    """Count the True elements of `outside()` if a `count_saturations` block is open."""
    counts = _COUNTS.get()
    # A function, so that calls outside of such a block do not compute the mask.
    if counts is not None:
        counts.append(int(np.count_nonzero(outside())))


# Rounding to 8-bit floats.

Array = npt.NDArray[Any]
#: The relative error of a float64 quotient is below this, if its operands and the
#: division were rounded.
ERROR = 2.0**-50
#: The exponents of the smallest normal numbers.
NORMAL = {"qfloat8_e4m3": -6, "qfloat8_e5m2": -14}

Exactly = Callable[[Array], list[Fraction]]


def to_floats(quotient: Array, dtype: DType, exactly: Exactly | None = None) -> Array:
    """Round quotients to elements of `dtype`, half to even, exactly.

    A number beyond the largest finite element, or an infinity, becomes that element:
    quantized tensors of every type saturate.

    Args:
        quotient: float64 without NaN, any shape.
        dtype: a type of scaled floats.
        exactly: returns the exact quotients where a mask is True. Pass it if the
            quotients are rounded, because a tie may then not be one.

    Example:
        >>> from mdtensor.quant.dtypes import qfloat8_e4m3
        >>> to_floats(np.array([1.0625, 1.1875, 500.0]), qfloat8_e4m3).tolist()
        [1.0, 1.25, 448.0]

    Source: OCP 8-bit Floating Point Specification, section 5; ONNX `Cast`,
    `saturate=1`.
    """
    largest = float(dtype.maximum)
    # An infinity does not have an exponent. Twice the largest element still counts as
    # saturated below, and a clip to the largest one itself would not.
    inside = np.clip(quotient, -2 * largest, 2 * largest)
    _, power = np.frexp(inside)
    # The exponent of the last digit; subnormal numbers share the smallest normal one.
    least = np.maximum(power - 1, NORMAL[dtype.name]) - (dtype.digits - 1)
    digits = np.ldexp(inside, -least)
    nearest = np.asarray(np.rint(digits))
    if exactly is not None:
        doubt = np.abs(np.abs(digits - nearest) - 0.5) <= np.abs(digits) * ERROR
        pairs = zip(exactly(doubt), least[doubt].tolist(), strict=True)
        nearest[doubt] = [round(q / Fraction(2) ** e) for q, e in pairs]
    floats = np.ldexp(nearest, least)
    note(lambda: np.abs(floats) > largest)
    found = np.clip(floats, -largest, largest)
    return np.asarray(found.astype(np.float32).astype(dtype.storage))


def to_grid(values: Array, grid: QParams, is_wide: bool) -> Array:
    """Round float64 numbers to the floats of `grid`.

    Args:
        values: any shape, without NaN.
        grid: a grid of scaled floats, of any granularity.
        is_wide: whether the numbers have more than 41 bits. Only then can the float64
            quotient by a float32 look like a tie without being one.
    """
    scale = np.asarray(grid.along(grid.scale, values.shape))
    # An overflow to infinity saturates, and an underflow to 0 rounds to 0.
    with np.errstate(over="ignore", under="ignore"):
        quotient = np.asarray(values / scale)

    def exactly(doubt: Array) -> list[Fraction]:
        scales = np.broadcast_to(scale, doubt.shape)[doubt]
        rows = zip(values[doubt].tolist(), scales.tolist(), strict=True)
        return [Fraction(v) / Fraction(s) for v, s in rows]

    return to_floats(quotient, grid.dtype, exactly if is_wide else None)


def numbers_of(x: QuantizedTensor) -> Array:
    """Return the real numbers of scaled floats; exact in float64.

    A product of an 8-bit float with 4 digits and a float32 scale has at most 28 bits.
    """
    scale = x.qparams.along(x.qparams.scale, x.shape)
    # Codes may be NaN, and then stay NaN.
    with np.errstate(invalid="ignore"):
        return np.asarray(x.buffer.astype(np.float64) * scale)


# Rounding to integers.

IntArray = npt.NDArray[np.int64]
#: Steps beyond this saturate on any grid of 32 bits or fewer.
LARGE = 2.0**40
#: The error of a float64 sum of products is below this part of the sum of magnitudes.
EXACT_ERROR = 2.0**-48
#: Products with ratios up to this stay finite in float64.
FINITE = Fraction(2) ** 900


# Near ties need exact arithmetic, because float64 does not prove anything there either
# (decision 0003).
def round_sum(*terms: tuple[npt.NDArray[Any], Fraction]) -> IntArray:
    """Compute round_half_even(sum of values · ratio), exact; limited to ±2**40.

    Float64 decides all elements but near ties, which rational numbers decide.

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
    # `float` raises for a fraction past its range. Without finite factors every element
    # is in doubt below, and the zeros do not matter.
    factors = [float(ratio) if is_finite else 0.0 for ratio in ratios]
    products = [v * f for (v, _), f in zip(terms, factors, strict=True)]
    total = np.asarray(sum(products[1:], products[0]))
    # int64 cannot represent every float64, and numbers beyond ±LARGE saturate anyway.
    nearest = np.rint(np.clip(total, -LARGE, LARGE))
    result: IntArray = np.asarray(nearest).astype(np.int64)
    if is_finite and _is_exact(*terms):
        return result
    # An error is relative to magnitudes, since terms may cancel each other.
    error = sum((np.abs(p) for p in products[1:]), np.abs(products[0])) * EXACT_ERROR
    doubt = np.abs(np.abs(total - nearest) - 0.5) <= error
    # Rational numbers are slow, so sums that saturate anyway are not computed again.
    doubt &= np.abs(total) - error < LARGE
    doubt |= not is_finite
    columns = [np.broadcast_to(v, result.shape)[doubt].tolist() for v, _ in terms]
    rows = zip(*columns, strict=True)
    result[doubt] = [_round_exactly(row, ratios) for row in rows]
    return result


def _is_exact(*terms: tuple[npt.NDArray[Any], Fraction]) -> bool:
    """Return whether float64 holds every product and their sum.

    With power-of-two denominators all of them are multiples of 1 / `unit`, and float64
    holds every multiple below 2**53 / `unit`.
    """
    unit = max(ratio.denominator for _, ratio in terms)
    if any(ratio.denominator & (ratio.denominator - 1) for _, ratio in terms):
        return False
    largest = [int(np.abs(values).max(initial=0)) for values, _ in terms]
    sizes = zip(largest, terms, strict=True)
    return sum(most * abs(ratio) * unit for most, (_, ratio) in sizes) < 2**53


def _round_exactly(values: Iterable[int], ratios: list[Fraction]) -> int:
    limit = int(LARGE)
    exact = sum(v * r for v, r in zip(values, ratios, strict=True))
    # Python rounds a fraction half to even, as `rint` does.
    return min(max(round(exact), -limit), limit)


def round_quotient(a: IntArray, b: IntArray, ratio: Fraction) -> IntArray:
    """Return round(a / b · ratio), clipped to ±2**40; a / 0 is infinite, 0 / 0 is 0.

    float64 decides all quotients except near ties; rational numbers decide these, once
    for each distinct pair of integers.
    """
    if not 1 / FINITE < ratio < FINITE:
        return _quotient_exactly(a.ravel(), b.ravel(), ratio).reshape(a.shape)
    # Dividing by 0 is defined here: the quotient saturates.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.clip(np.nan_to_num(a / b * float(ratio)), -LARGE, LARGE)
    nearest = np.rint(found)
    error = np.abs(found) * ERROR
    doubt = np.abs(np.abs(found - nearest) - 0.5) <= error
    rounded = np.asarray(nearest, np.int64)
    rounded[doubt] = _quotient_exactly(a[doubt], b[doubt], ratio)
    return rounded


def _quotient_exactly(a: IntArray, b: IntArray, ratio: Fraction) -> IntArray:
    # Few distinct pairs are near a tie, and each rational number is slow.
    pairs, index = np.unique(np.stack([a, b], 1), axis=0, return_inverse=True)
    limit = int(LARGE)
    values = [
        min(max(round(Fraction(int(p), int(q)) * ratio), -limit), limit)
        if q
        else int(np.sign(p)) * limit
        for p, q in pairs
    ]
    return np.array(values, np.int64)[index.ravel()]


def to_codes(steps: npt.NDArray[Any], grid: QParams) -> npt.NDArray[Any]:
    """Return the codes of `grid` for integer steps; saturates."""
    codes = steps + grid.along(grid.zero_point, steps.shape)
    note(lambda: (codes < grid.minimum) | (codes > grid.maximum))
    return np.asarray(np.clip(codes, grid.minimum, grid.maximum), grid.dtype.storage)


def steps_of(x: QuantizedTensor) -> IntArray:
    """Return the steps of a tensor of integer codes: codes minus their zero point."""
    # A difference of two codes does not fit their own type.
    codes = x.code_array.astype(np.int64)
    steps: IntArray = codes - x.qparams.along(x.qparams.zero_point, codes.shape)
    return steps


def is_zero(x: QuantizedTensor) -> npt.NDArray[np.bool_]:
    """Return where a tensor of integer codes is 0."""
    codes = x.code_array
    zeros = x.qparams.along(x.qparams.zero_point, codes.shape)
    return np.asarray(codes == zeros.astype(codes.dtype))


def short_steps(x: QuantizedTensor) -> npt.NDArray[np.int32]:
    """Return the steps of a tensor of codes of at most 16 bits, as int32."""
    codes = empty(x.shape, np.int32, 1 << 20)
    np.copyto(codes, x.code_array)
    if x.qparams.zero_point.any():
        zeros = x.qparams.zero_point.astype(np.int32)
        codes -= x.qparams.along(zeros, codes.shape)
    return codes


def reals(x: QuantizedTensor) -> npt.NDArray[Any]:
    """Return the real numbers of codes; exact in float64 except for accumulators."""
    if x.dtype in FLOATS:
        return numbers_of(x)
    return np.asarray(steps_of(x) * x.qparams.along(x.qparams.scale, x.shape))


def rescale(
    steps: npt.NDArray[Any], source: QParams, target: QParams
) -> npt.NDArray[Any]:
    """Return the codes on `target` for steps of `source`; rounds once.

    Args:
        steps: integer codes minus their zero point.
        source, target: grids of any granularity.
    """
    return to_codes(rescale_steps(steps, source, target), target)


def is_past(x: QuantizedTensor, target: QParams) -> npt.NDArray[np.bool_]:
    """Return which elements of `x` round to numbers beyond the ends of `target`."""
    steps = rescale_steps(steps_of(x), x.qparams, target)
    codes = steps + target.along(target.zero_point, steps.shape)
    return np.asarray((codes < target.minimum) | (codes > target.maximum))


def rescale_steps(
    steps: npt.NDArray[Any], source: QParams, target: QParams
) -> IntArray:
    """Return steps of `source` as steps of `target`, rounded but not saturated."""
    if source.axis is None and target.axis is None:
        return round_sum((steps, source.fraction / target.fraction))
    above, below = (np.asarray(g.along(g.scale, steps.shape)) for g in (source, target))
    is_short = qint32 not in (source.dtype, target.dtype)
    return _round_quotients(steps, above, below, is_short)


def _round_quotients(
    steps: npt.NDArray[Any],
    source: npt.NDArray[Any],
    target: npt.NDArray[Any],
    is_short: bool,
) -> IntArray:
    """Compute round_half_even(steps · source / target), exact; limited to ±2**40.

    Scales are arrays here: `round_sum` takes one ratio for all elements.

    Args:
        steps: integers that broadcast with the scales.
        source, target: the scales.
        is_short: whether `steps · source` has at most 41 bits and `target` 24. Then a
            float64 quotient is a tie exactly where the real one is, unless it saturates
            16 bits.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        quotient = np.asarray(steps * source / target)
    nearest = np.rint(np.clip(np.nan_to_num(quotient), -LARGE, LARGE))
    rounded: IntArray = np.asarray(nearest).astype(np.int64)
    if is_short:
        return rounded
    doubt = np.abs(np.abs(quotient - nearest) - 0.5) <= np.abs(quotient) * EXACT_ERROR
    # The product of steps and source may overflow although the quotient is small.
    doubt = (doubt & (np.abs(quotient) < 2 * LARGE)) | ~np.isfinite(quotient)
    columns = [np.broadcast_to(v, doubt.shape)[doubt] for v in (steps, source, target)]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    rounded[doubt] = [
        _round_exactly([n], [Fraction(a) / Fraction(b)]) for n, a, b in rows
    ]
    return rounded
