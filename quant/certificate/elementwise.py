"""Cases of elementwise steps, pools, means, and quantization."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import cycle
from typing import Any

import numpy as np

from mdtensor.kernels.cpu.program import steps
from mdtensor.kernels.reference import conv, elementwise
from mdtensor.quant.certificate import case
from mdtensor.quant.certificate.case import Array, Case, Pair, Sides, run

#: Each row: zero points of both inputs, zero point of the result, clamp.
GRIDS = (((0, 3), 128, (0, 255)), ((9, 255), 0, (7, 201)))
# Powers of 2 give many ties; then ratios of float32; then ratios that differ much,
# where one operand loses its low bits.
SUMS = (
    (Fraction(1, 2), Fraction(1, 4)),
    (Fraction(11744051, 2**24), Fraction(15099494, 2**24)),
    (Fraction(13958644, 2**30), Fraction(8808038, 2**22)),
    (Fraction(9318267, 2**39), Fraction(16609444, 2**24)),
)
FACTORS = (Fraction(1, 256), Fraction(8808038, 2**31), Fraction(9747759, 2**38))
#: Each row: shape, window, stride, padding (top, left, bottom, right).
WINDOWS = (
    ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((2, 7, 9, 3), (2, 2), (2, 2), (0, 0, 1, 1)),
    ((1, 8, 6, 17), (3, 3), (2, 2), (1, 1, 1, 1)),
    ((1, 5, 5, 64), (5, 3), (1, 2), (2, 1, 2, 1)),
    ((1, 2, 3, 5), (2, 2), (7, 5), (0, 0, 0, 0)),
    ((1, 1, 1, 2), (3, 3), (1, 1), (1, 1, 1, 1)),
)
#: Each row: codes per channel, channels.
MEANS = ((1, 1), (1, 3), (49, 17), (192, 64), (2304, 8), (7, 200))
#: float32 scales: mantissa, exponent.
SCALES = ((1, 0), (13421773, -27), (8388609, -30), (16777215, -20))
PIXELS = ((1, 1, 4), (3, 35, 4), (3, 70, 3), (4, 64, 4), (2, 9, 3), (17, 5, 20))


def cases() -> Iterator[Case]:
    """Return the cases of this module."""
    for length in (1, 63, 64, 65, 640, 2087):
        yield table(length)
    for pair, grid in zip(SUMS, cycle(GRIDS), strict=False):
        yield sum_of_codes(pair, *grid)
    for factor, grid in zip(FACTORS, cycle(GRIDS), strict=False):
        yield product_of_codes(factor, *grid)
        yield factors(factor, *grid)
    for row in WINDOWS:
        yield largest(*row)
        yield from (averages(*row, is_counted) for is_counted in (False, True))
    yield from (mean(*row) for row in MEANS)
    for scale in SCALES:
        yield quantization(scale)
        yield dequantization(scale)
        yield from (pixels(scale, *row) for row in PIXELS)


def table(length: int) -> Case:
    """Make the test case that compares a lookup table with its oracle."""
    kernel, name = "table", f"{length} codes"
    x = case.uint8_codes("any", f"{kernel}: {name}: x", (length,))
    entries = case.uint8_codes("any", f"{kernel}: {name}: table", (256,))
    return Case(
        *(kernel, name),
        lambda threads: run(steps.Lookup(entries), (x,), threads),
        lambda: elementwise.lookup_u8(x, entries),
    )


def pairs(name: str, ties: bool) -> tuple[Any, Any]:
    """Return all pairs of codes where ties are common, otherwise some pairs."""
    if ties:
        a, b = np.indices((256, 256), dtype=np.uint8)
        return a, b
    return (
        case.uint8_codes("any", f"{name}: a", (8321,)),
        case.uint8_codes("any", f"{name}: b", (8321,)),
    )


def sum_of_codes(
    ratios: tuple[Fraction, Fraction], zeros: Pair, zero: int, clamp: Pair
) -> Case:
    """Make the case of the sum of two quantized tensors, for two ratios of scales."""
    kernel, name = "sum", f"{ratios[0]} and {ratios[1]}, zeros {zeros} {zero}"
    a, b = pairs(f"{kernel}: {name}", ratios == SUMS[0])
    step = (ratios, zeros, zero, clamp)
    return Case(
        *(kernel, name),
        lambda threads: run(steps.Add(*step), (a, b), threads),
        lambda: elementwise.add_u8u8u8(a, b, ratios, zeros, zero, *clamp),
    )


def product_of_codes(factor: Fraction, zeros: Pair, zero: int, clamp: Pair) -> Case:
    """Make the case of the product of two quantized tensors."""
    kernel, name = "product", f"{factor}, zeros {zeros} {zero}"
    a, b = pairs(f"{kernel}: {name}", factor == FACTORS[0])
    return Case(
        *(kernel, name),
        lambda threads: run(steps.Mul(factor, zeros, zero, clamp), (a, b), threads),
        lambda: elementwise.mul_u8u8u8(a, b, factor, zeros, zero, *clamp),
    )


def factors(factor: Fraction, zeros: Pair, zero: int, clamp: Pair) -> Case:
    """Make the test case of a product with one factor for each image and channel."""
    kernel, name = "product", f"a factor per channel, {factor}, zeros {zeros} {zero}"
    a = case.uint8_codes("any", f"{kernel}: {name}: a", (2, 5, 7, 17))
    b = case.uint8_codes("any", f"{kernel}: {name}: b", (2, 1, 1, 17))
    return Case(
        *(kernel, name),
        lambda threads: run(steps.Mul(factor, zeros, zero, clamp), (a, b), threads),
        lambda: elementwise.mul_u8u8u8(a, b, factor, zeros, zero, *clamp),
    )


def largest(
    size: tuple[int, int, int, int], window: Pair, stride: Pair, padding: Sides
) -> Case:
    """Make the test case that compares a max pool with its oracle."""
    kernel, name = "max pool", f"{size}, {window}, {stride}, {padding}"
    x = case.uint8_codes("any", f"{kernel}: {name}: x", size)
    step = (window, stride, padding)
    return Case(
        *(kernel, name),
        lambda threads: run(steps.MaxPool(*step), (x,), threads),
        lambda: conv.max_pool_u8(x, *step),
    )


def averages(
    size: tuple[int, int, int, int],
    window: Pair,
    stride: Pair,
    padding: Sides,
    is_counted: bool,
) -> Case:
    """Make the test case that compares an average pool with its oracle."""
    border = "with" if is_counted else "without"
    kernel = "average pool"
    name = f"{size}, {window}, {stride}, {padding}, {border} border"
    x = case.uint8_codes("any", f"{kernel}: {name}: x", size)
    step = (window, stride, padding)
    ratio = Fraction(3, 2) if is_counted else Fraction(1)
    grid = {"ratio": ratio, "x_zero_point": 9, "zero_point": 12, "clamp": (3, 250)}
    return Case(
        *(kernel, name),
        lambda threads: run(
            steps.AvgPool(*step, **grid, count_include_pad=is_counted), (x,), threads
        ),
        lambda: conv.avg_pool_u8(x, *step, ratio, 9, 12, 3, 250, is_counted),
    )


def mean(pixels: int, channels: int) -> Case:
    """Make the test case that compares the mean of each channel with its oracle."""
    kernel, name = "mean", f"{pixels} codes, {channels} channels"
    x = case.uint8_codes("any", f"{kernel}: {name}: x", (2, pixels, channels))
    ratio = Fraction(11492393, 2**23)
    return Case(
        *(kernel, name),
        lambda threads: run(
            steps.Mean(ratio, 118, 90, (3, 250), keepdims=False), (x,), threads
        ),
        lambda: elementwise.mean_u8u8(x, ratio, 118, 90, 3, 250),
    )


def numbers(name: str, shape: tuple[int, ...], scale: float) -> Array:
    """Return float32 numbers: quarters of steps for ties, others, special values."""
    quarters = case.integers(f"{name}: quarters", shape, -600, 600)
    mantissas = case.integers(f"{name}: mantissas", shape, -(2**24), 2**24)
    is_quarter = case.integers(f"{name}: which", shape, 0, 1) == 1
    exact = np.where(is_quarter, quarters / 4.0, mantissas / 2.0**17) * scale
    found = exact.astype(np.float32)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45], np.float32)
    if found.size >= 4 * odd.size:
        found.reshape(-1)[: odd.size] = odd
    return found


def quantization(scale: tuple[int, int]) -> Case:
    """Make the test case that compares quantize with its oracle."""
    kernel, name = "quantize", f"step {scale[0]} * 2**{scale[1]}"
    step = float(np.ldexp(scale[0], scale[1]))
    x = numbers(f"{kernel}: {name}", (2087,), step)
    return Case(
        *(kernel, name),
        lambda threads: run(steps.Quantize(step, 131, (5, 250)), (x,), threads),
        lambda: elementwise.quantize_f32u8(x, step, 131, 5, 250),
    )


def pixels(scale: tuple[int, int], planes: int, width: int, channels: int) -> Case:
    """Make the test case of quantize from planes to padded pixels."""
    kernel = "quantize planes"
    name = f"{planes} of {width} to {channels}, step {scale[0]} * 2**{scale[1]}"
    step = float(np.ldexp(scale[0], scale[1]))
    x = numbers(f"{kernel}: {name}", (2, planes, 3, width), step)
    options: Any = {"channels_first": True, "padded_channels": channels}
    return Case(
        *(kernel, name),
        lambda threads: run(steps.Quantize(step, 7, **options), (x,), threads),
        lambda: elementwise.quantize_nchw_f32u8(x, channels, step, 7, 0, 255),
    )


def dequantization(scale: tuple[int, int]) -> Case:
    """Make the test case that compares dequantize of every code with its oracle."""
    step = float(np.ldexp(scale[0], scale[1]))
    x = np.arange(256, dtype=np.uint8)
    return Case(
        *("dequantize", f"every code, step {scale[0]} * 2**{scale[1]}"),
        lambda threads: run(steps.Dequantize(step, 131), (x,), threads),
        lambda: elementwise.dequantize_u8f32(x, step, 131),
    )
