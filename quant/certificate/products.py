"""Cases of sums of products: matrix products and convolutions as steps."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import cycle, product as every
from typing import Any

import numpy as np

from mdtensor.kernels.cpu.program import products
from mdtensor.kernels.reference import conv, matmul
from mdtensor.quant.certificate import case
from mdtensor.quant.certificate.case import Case, run

#: Each row: rows, inner size, columns, around the sizes of tiles and their multiples.
PRODUCTS = (
    *((1, 1, 1), (1, 8, 8), (2, 9, 2), (3, 5, 16), (4, 8, 24), (5, 36, 40)),
    *((17, 27, 104), (23, 13, 88), (50, 8, 22), (7, 200, 200), (33, 88, 48)),
    *((37, 7, 50), (16, 3, 1), (6, 513, 3), (2, 1025, 17), (9, 64, 128)),
)
#: The longest sums that fit int32: 65,793 · 255 · 128 = 2**31 - 128.
LONGEST = 65_793
#: Each row: zero points of x and the result, clamp; extreme ones, a fused activation.
GRIDS = (
    *((0, 0, (0, 255)), (120, 131, (5, 250)), (255, 255, (0, 255))),
    *((7, 0, (0, 200)), (200, 118, (118, 255))),
)
#: Each row: (n, h, w, c), outputs, groups, kernel, stride, padding (top, left,
#: bottom, right), dilation.
CONVOLUTIONS = (
    ((1, 1, 1, 1), 1, 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((2, 1, 1, 3), 5, 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((1, 7, 9, 17), 24, 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((2, 7, 9, 16), 5, 1, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((1, 5, 6, 16), 8, 4, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((1, 12, 10, 3), 32, 1, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((1, 11, 13, 4), 16, 1, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    ((2, 7, 9, 8), 10, 1, (3, 3), (2, 1), (1, 1, 1, 1), (1, 1)),
    ((1, 7, 9, 16), 8, 4, (3, 2), (1, 1), (1, 0, 2, 1), (2, 2)),
    ((1, 3, 4, 3), 17, 1, (5, 5), (3, 2), (4, 4, 4, 4), (1, 1)),
    ((1, 1, 1, 17), 3, 1, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((1, 2, 3, 1), 3, 1, (2, 2), (5, 7), (0, 0, 0, 0), (1, 1)),
    ((1, 4, 5, 2), 4, 2, (2, 2), (1, 1), (6, 6, 6, 6), (7, 7)),
    ((1, 40, 30, 8), 3, 1, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
)
#: Each row: (n, h, w, c), kernel, stride, padding (top, left, bottom, right), dilation.
DEPTHWISE = (
    ((1, 1, 1, 3), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((2, 3, 7, 8), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((1, 9, 11, 17), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((1, 8, 30, 24), (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    ((1, 7, 9, 96), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((1, 5, 20, 24), (3, 3), (2, 1), (1, 1, 1, 1), (1, 1)),
    ((1, 4, 33, 40), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    ((1, 9, 9, 16), (5, 5), (2, 2), (2, 2, 2, 2), (1, 1)),
    ((1, 6, 35, 20), (5, 5), (1, 2), (1, 2, 2, 1), (1, 1)),
    ((1, 5, 9, 5), (2, 7), (1, 3), (1, 2, 0, 3), (1, 1)),
    ((1, 9, 20, 7), (3, 3), (1, 1), (2, 2, 2, 2), (2, 2)),
    ((1, 7, 18, 19), (3, 5), (2, 2), (3, 4, 1, 5), (3, 2)),
    ((1, 2, 3, 2), (2, 1), (1, 1), (1, 0, 0, 0), (2, 1)),
    ((1, 4, 5, 2), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((1, 3, 3, 33), (2, 2), (1, 1), (5, 5, 5, 5), (6, 6)),
)


ROUNDINGS = ("sums", "any ratio", "ties")


def cases() -> Iterator[Case]:
    """Return the cases of this module."""
    for shape, grid in zip(PRODUCTS, cycle(GRIDS), strict=False):
        for kind, rounding in every(case.KINDS, ROUNDINGS):
            yield product(shape, kind, rounding, grid)
    yield from map(longest, (-128, 127))
    wide = [("convolution", *row) for row in CONVOLUTIONS]
    for row, grid in zip(wide + depthwise(), cycle(GRIDS), strict=False):
        for rounding in ROUNDINGS:
            yield convolution(*row, rounding=rounding, grid=grid)


def depthwise() -> list[Any]:
    """Return the depthwise convolutions, with one group and one output per channel."""
    return [("depthwise", size, size[3], size[3], *row) for size, *row in DEPTHWISE]


def product(
    shape: tuple[int, int, int], kind: str, rounding: str, grid: tuple[Any, ...]
) -> Case:
    """Make the test case that compares a matrix product with its oracle."""
    m, k, n = shape
    kernel = "matrix product, sums" if rounding == "sums" else "matrix product"
    name = f"{m} x {k} x {n}, {kind} codes, {rounding}"
    x = case.uint8_codes(kind, f"{kernel}: {name}: x", (m, k))
    w = case.int8_codes(kind, f"{kernel}: {name}: w", (n, k))
    b, rules = bias_and_grids(f"{kernel}: {name}", n, k, rounding, grid)

    def oracle() -> Any:
        if rounding == "sums":
            return matmul.gemm_u8s8s32(x, w, b, grid[0]).astype(np.int32)
        ratios, zero, (lo, hi) = rules["ratios"], grid[1], grid[2]
        return matmul.gemm_u8s8u8(x, w, b, ratios, zero, lo, hi, grid[0])

    return Case(
        *(kernel, name),
        lambda threads: run(products.Linear(w, b, **rules), (x,), threads),
        oracle,
    )


def bias_and_grids(
    title: str, count: int, taps: int, rounding: str, grid: tuple[Any, ...]
) -> tuple[Any, dict[str, Any]]:
    """Return a bias, and the options that give a step its grids."""
    bias = case.integers(f"{title}: bias", (count,), -3000, 3000).astype(np.int32)
    options: dict[str, Any] = {"x_zero_point": grid[0]}
    if rounding != "sums":
        found = case.ratios(f"{title}: ratios", count, taps, rounding == "ties")
        options |= {"ratios": found, "zero_point": grid[1], "clamp": grid[2]}
    return bias, options


def longest(weight: int) -> Case:
    """Make the test case of the largest sums of one sign that int32 can contain."""
    x = np.full((1, LONGEST), 255, np.uint8)
    w = np.full((3, LONGEST), weight, np.int8)
    return Case(
        "matrix product, sums",
        f"{LONGEST} products of 255 and {weight}",
        lambda threads: run(products.Linear(w), (x,), threads),
        lambda: np.full((1, 3), LONGEST * 255 * weight, np.int32),
    )


def convolution(
    family: str,
    size: tuple[int, int, int, int],
    outputs: int,
    groups: int,
    taps: tuple[int, int],
    *window: Any,
    rounding: str,
    grid: tuple[Any, ...],
) -> Case:
    """Make the test case that compares a convolution with its oracle."""
    kernel = f"{family}, sums" if rounding == "sums" else family
    stride, padding, dilation = window
    places = f"{taps}, {stride}, {padding}, {dilation}"
    name = f"{size} to {outputs}, {groups} groups, {places}, {rounding}"
    per_group = size[3] // groups
    x = case.uint8_codes("any", f"{kernel}: {name}: x", size)
    w = case.int8_codes("any", f"{kernel}: {name}: w", (outputs, per_group, *taps))
    b, rules = bias_and_grids(
        f"{kernel}: {name}", outputs, per_group * taps[0] * taps[1], rounding, grid
    )
    options: dict[str, Any] = {"stride": stride, "padding": padding}
    options |= {"dilation": dilation, "groups": groups}

    def oracle() -> Any:
        given = options | {"x_zero_point": grid[0]}
        if rounding == "sums":
            return conv.conv2d_u8s8s32(x, w, b, **given).astype(np.int32)
        ratios: list[Fraction] = rules["ratios"]
        return conv.conv2d_u8s8u8(x, w, b, ratios, grid[1], *grid[2], **given)

    return Case(
        *(kernel, name),
        lambda threads: run(products.Conv2d(w, b, **options, **rules), (x,), threads),
        oracle,
    )
