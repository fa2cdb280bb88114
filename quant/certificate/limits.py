"""Cases of calls at limits: ends of ranges, sizes 0 and 1, windows past images."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.kernels.reference.conv import conv2d_u8s8s32, iter_taps
from mdtensor.quant import dtypes
from mdtensor.quant.certificate import case
from mdtensor.quant.certificate.calls import nearest, out_option, round_sums, steps_of
from mdtensor.quant.certificate.case import Array, Case, Pair
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, quantized

#: Kernel, stride, padding on all sides, dilation.
Window = tuple[Pair, Pair, int, Pair]
#: Grids of two types with zero points at both ends of the range.
GRIDS = (
    *(QParams(0.25, -128), QParams(0.25, 127)),
    *(QParams(0.25, 0, dtype=dtypes.quint8), QParams(0.25, 255, dtype=dtypes.quint8)),
)
OUTS = (None, QParams(8.0, 127), QParams(0.75, -128))
#: Each row: kernel, stride, padding on all sides, dilation, for one pixel.
WINDOWS = (
    *(((1, 1), (1, 1), 0, (1, 1)), ((3, 3), (1, 1), 1, (1, 1))),
    *(((3, 3), (7, 5), 6, (6, 6)), ((2, 3), (9, 9), 4, (3, 2))),
)
#: Each row: rows, inner size, columns; some are 0, the last has one product.
EMPTY = ((0, 5, 4), (3, 0, 4), (3, 5, 0), (0, 0, 0), (1, 1, 1))
#: Each row: images, channels, outputs; one of them is 0.
EMPTY_IMAGES = ((0, 3, 4), (1, 0, 4), (1, 3, 0))


def cases() -> Iterator[Case]:
    """Return the cases of this module."""
    for grid, channels, out in product(GRIDS, (1, 3, 17), OUTS):
        for window in WINDOWS:
            for groups in {1, channels}:
                yield pixel(grid, channels, groups, window, out)
    for grid, channels, window in product(GRIDS, (1, 3, 17), WINDOWS[:2]):
        yield pool("max_pool2d", grid, channels, window)
        yield pool("avg_pool2d", grid, channels, window)
    for grid, sizes, out in product(GRIDS[:3:2], EMPTY, OUTS[:2]):
        yield rows("linear", grid, sizes, out)
        yield rows("matmul", grid, sizes, out)
    for grid, sizes, out in product(GRIDS[:3:2], EMPTY_IMAGES, OUTS[:2]):
        yield no_image(grid, sizes, out)


def ends_on(grid: QParams, name: str, shape: tuple[int, ...]) -> Any:
    """Return a tensor with only the smallest and the largest code."""
    codes = case.ends(name, shape, grid.minimum, grid.maximum)
    return quantized(codes.astype(grid.dtype.storage), grid)


def weights_on(name: str, shape: tuple[int, ...]) -> Any:
    """Return weights at the ends of their range, with a scale for each output."""
    steps = [(1 + i % 4) / 64 for i in range(shape[0])]
    grid = QParams(steps, axis=0) if steps else QParams(1)
    return ends_on(grid, name, shape)


def label(grid: QParams, out: QParams | None) -> str:
    """Return the name of a case: its grids."""
    result = "sums" if out is None else f"to step {float(out.scale):g} {out.zero}"
    return f"{grid.dtype} {grid.zero}, {result}"


def convolution_oracle(
    x: QuantizedTensor, w: QuantizedTensor, out: QParams | None, **options: Any
) -> Array:
    """Compute a convolution exactly: integer sums, rounded once."""
    images = np.moveaxis(steps_of(x), 1, -1)
    sums = np.moveaxis(conv2d_u8s8s32(images, steps_of(w), None, **options), -1, 1)
    return round_sums(sums, x, w, out, 1)


def pixel(
    grid: QParams, channels: int, groups: int, window: Window, out: QParams | None
) -> Case:
    """Make the test case of a convolution of images of one pixel."""
    taps, stride, padding, dilation = window
    places = (
        f"{channels} channels, {groups} groups, {taps} {stride} {padding} {dilation}"
    )
    kernel, name = "conv2d", f"one pixel, {places}, {label(grid, out)}"
    x = ends_on(grid, f"{kernel}: {name}: x", (2, channels, 1, 1))
    shape = (channels, channels // groups, *taps)
    w = weights_on(f"{kernel}: {name}: w", shape)
    options: Any = {"stride": stride, "dilation": dilation, "groups": groups}
    return Case(
        *(kernel, name),
        lambda threads: np.asarray(
            md.conv2d(x, w, None, padding=padding, **options, **out_option(out)).codes
        ),
        lambda: convolution_oracle(x, w, out, padding=(padding,) * 4, **options),
    )


def pool(kernel: str, grid: QParams, channels: int, window: Window) -> Case:
    """Make the test case of a pool of images of one pixel."""
    taps, stride, padding, _ = window
    name = f"one pixel, {channels} channels, {taps}, {grid.dtype} {grid.zero}"
    x = ends_on(grid, f"{kernel}: {name}: x", (2, channels, 1, 1))
    options: Any = {"kernel_size": taps, "stride": stride, "padding": padding}
    if kernel == "max_pool2d":
        return Case(
            *(kernel, name),
            lambda threads: np.asarray(md.max_pool2d(x, **options).codes),
            # The window has one pixel, and padding never is the maximum.
            lambda: np.asarray(x.codes),
        )
    out = QParams(0.75, 3)

    def oracle() -> Array:
        images = np.moveaxis(steps_of(x), 1, -1)
        parts = iter_taps(images, taps, stride, (padding,) * 4, (1, 1), 0)
        total = np.moveaxis(sum(part for _, _, part in parts), -1, 1)
        unit = grid.fraction / (taps[0] * taps[1])
        return nearest([int(n) * unit for n in total.ravel()], out).reshape(total.shape)

    return Case(
        *(kernel, name),
        lambda threads: np.asarray(md.avg_pool2d(x, **options, out=out).codes),
        oracle,
    )


def rows(
    kernel: str, grid: QParams, sizes: tuple[int, int, int], out: QParams | None
) -> Case:
    """Return a case of a product, some of whose sizes are 0 or 1."""
    m, k, n = sizes
    name = f"{m} x {k} x {n}, {label(grid, out)}"
    x = ends_on(grid, f"{kernel}: {name}: x", (m, k))
    w = weights_on(f"{kernel}: {name}: w", (n, k))
    by_column = w.qparams.on_axis(1) if n else w.qparams
    columns = quantized(np.asarray(w.codes).T, by_column)

    def compute(threads: int) -> Array:
        if kernel == "linear":
            return np.asarray(md.linear(x, w, None, **out_option(out)).codes)
        return np.asarray(md.matmul(x, columns, **out_option(out)).codes)

    def oracle() -> Array:
        return round_sums(steps_of(x) @ steps_of(w).T, x, w, out, 1)

    return Case(kernel, name, compute, oracle)


def no_image(grid: QParams, sizes: tuple[int, int, int], out: QParams | None) -> Case:
    """Make the test case of a convolution with a size of 0."""
    images, channels, outputs = sizes
    kernel = "conv2d"
    name = f"{images} images, {channels} to {outputs} channels, {label(grid, out)}"
    x = ends_on(grid, f"{kernel}: {name}: x", (images, channels, 4, 5))
    w = weights_on(f"{kernel}: {name}: w", (outputs, channels, 3, 3))
    return Case(
        *(kernel, name),
        lambda threads: np.asarray(md.conv2d(x, w, None, **out_option(out)).codes),
        lambda: convolution_oracle(x, w, out),
    )
