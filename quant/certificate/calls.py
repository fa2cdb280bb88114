"""Cases of calls on tensors: types and zero points of codes, which steps do not see."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.kernels.reference import round_half_even
from mdtensor.kernels.reference.conv import conv2d_u8s8s32
from mdtensor.quant import dtypes
from mdtensor.quant.certificate import case
from mdtensor.quant.certificate.case import Array, Case
from mdtensor.quant.certificate.curves import FUNCTIONS, exp
from mdtensor.quant.generics import requantize
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, quantized

#: Type and zero point.
Kind = tuple[md.DType, int]
#: Types and zero points of activations and weights.
ACTIVATIONS = (
    *((dtypes.qint8, 3), (dtypes.qint8, -128), (dtypes.quint8, 131)),
    *((dtypes.quint8, 255), (dtypes.qint4, -2), (dtypes.quint4, 5)),
)
WEIGHTS = (
    *((dtypes.qint8, 0), (dtypes.qint8, 3), (dtypes.quint8, 120)),
    *((dtypes.qint4, 0), (dtypes.qint4, 7), (dtypes.quint4, 8)),
)
#: Grids of the results; None returns the int32 sums.
RESULTS = (None, QParams(0.5, -5), QParams(0.3, 131, dtype=dtypes.quint8))
CURVES = (QParams(0.0625, 3), QParams(0.031, 128, dtype=dtypes.quint8))


def cases() -> Iterator[Case]:
    """Return the cases of this module."""
    for x, w, out in product(ACTIVATIONS, WEIGHTS, RESULTS):
        for multiply in (linear, matmul, conv2d):
            yield multiply(x, w, out)
    for grid in CURVES:
        yield from (curve(name, grid) for name in ("sigmoid", "tanh"))
        yield softmax(grid)
        yield from (requantization(grid, out) for out in (*CURVES, QParams(7.5, -2)))


def grid_of(kind: Kind, count: int, axis: int) -> QParams:
    """Return a grid with a scale per weight, or one scale and a zero point."""
    dtype, zero = kind
    # Multiples of 2**-9, which float32 and fractions represent exactly.
    scales = [(8 + i % 5) / 512 for i in range(count)]
    if zero:
        return QParams(scales[0], zero, dtype=dtype)
    return QParams(scales, dtype=dtype, axis=axis)


def codes_on(grid: QParams, name: str, shape: tuple[int, ...]) -> Any:
    """Return a tensor of arbitrary codes."""
    codes = case.integers(name, shape, grid.minimum, grid.maximum)
    return quantized(codes.astype(grid.dtype.storage), grid)


def title_of(x: Kind, w: Kind, out: QParams | None) -> str:
    """Return the name of a case: the types and zero points of the product."""
    result = "sums" if out is None else f"to {out.dtype} {out.zero}"
    return f"{x[0]} {x[1]} and {w[0]} {w[1]}, {result}"


def steps_of(x: QuantizedTensor) -> Array:
    """Return codes minus the zero point, which is one for the whole tensor."""
    return np.asarray(x.codes).astype(np.int64) - int(x.qparams.zero_point.flat[0])


def round_sums(
    sums: Array, x: QuantizedTensor, w: QuantizedTensor, out: QParams | None, axis: int
) -> Array:
    """Round sums of products to codes of `out`, or return them as int32 for None."""
    if out is None:
        return sums.astype(np.int32)
    # Fractions decide ties exactly, unlike floats.
    unit = x.qparams.fraction / out.fraction
    ratios = [unit * scale for scale in w.qparams.fractions]
    found = np.empty(sums.shape, np.int64)
    for place in np.ndindex(*sums.shape):
        exact = int(sums[place]) * ratios[place[axis] % len(ratios)]
        found[place] = round_half_even(exact) + out.zero
    clamped = np.clip(found, out.minimum, out.maximum)
    return np.asarray(clamped, out.dtype.storage)


def linear(x_kind: Kind, w_kind: Kind, out: QParams | None) -> Case:
    """Make the test case that compares linear with its oracle."""
    kernel, name = "linear", title_of(x_kind, w_kind, out)
    x = codes_on(
        QParams(0.078125, x_kind[1], dtype=x_kind[0]), f"{kernel}: {name}: x", (5, 37)
    )
    w = codes_on(grid_of(w_kind, 11, 0), f"{kernel}: {name}: w", (11, 37))
    return Case(
        *(kernel, name),
        lambda threads: np.asarray(md.linear(x, w, None, **out_option(out)).codes),
        lambda: round_sums(steps_of(x) @ steps_of(w).T, x, w, out, 1),
    )


def matmul(x_kind: Kind, w_kind: Kind, out: QParams | None) -> Case:
    """Make the test case that compares matmul with its oracle."""
    kernel, name = "matmul", title_of(x_kind, w_kind, out)
    x = codes_on(
        QParams(0.078125, x_kind[1], dtype=x_kind[0]), f"{kernel}: {name}: x", (3, 29)
    )
    w = codes_on(grid_of(w_kind, 17, 1), f"{kernel}: {name}: w", (29, 17))
    return Case(
        *(kernel, name),
        lambda threads: np.asarray(md.matmul(x, w, **out_option(out)).codes),
        lambda: round_sums(steps_of(x) @ steps_of(w), x, w, out, 1),
    )


def conv2d(x_kind: Kind, w_kind: Kind, out: QParams | None) -> Case:
    """Return a case of conv2d, with stride, padding and groups."""
    kernel, name = "conv2d", title_of(x_kind, w_kind, out)
    grid = QParams(0.078125, x_kind[1], dtype=x_kind[0])
    x = codes_on(grid, f"{kernel}: {name}: x", (1, 4, 6, 5))
    w = codes_on(grid_of(w_kind, 6, 0), f"{kernel}: {name}: w", (6, 2, 3, 3))

    def oracle() -> Array:
        images = np.moveaxis(steps_of(x), 1, -1)
        sums = conv2d_u8s8s32(
            images, steps_of(w), None, stride=(2, 1), padding=(1,) * 4, groups=2
        )
        return round_sums(np.moveaxis(sums, -1, 1), x, w, out, 1)

    return Case(
        *(kernel, name),
        lambda threads: np.asarray(
            md.conv2d(
                x, w, None, stride=(2, 1), padding=1, groups=2, **out_option(out)
            ).codes
        ),
        oracle,
    )


def out_option(out: QParams | None) -> dict[str, Any]:
    """Return the argument `out`, if there is one."""
    return {} if out is None else {"out": out}


def every_code(grid: QParams) -> Any:
    """Return a tensor of the 256 codes of a grid."""
    codes = np.arange(grid.minimum, grid.maximum + 1)
    return quantized(codes.astype(grid.dtype.storage), grid)


def nearest(values: list[Fraction], out: QParams) -> Array:
    """Round fractions to codes of `out`."""
    found = [round_half_even(v / out.fraction) + out.zero for v in values]
    clamped = np.clip(found, out.minimum, out.maximum)
    return np.asarray(clamped, out.dtype.storage)


def curve(name: str, grid: QParams) -> Case:
    """Make the test case of sigmoid or tanh of every code."""
    x = every_code(grid)
    out = QParams(2**-7, 0) if name == "tanh" else QParams(2**-8, -128)

    def oracle() -> Array:
        return nearest(
            [FUNCTIONS[name](int(n) * grid.fraction) for n in steps_of(x)], out
        )

    return Case(
        *(name, f"every code of {grid.dtype}"),
        lambda threads: np.asarray(getattr(md, name)(x, out=out).codes),
        oracle,
    )


def softmax(grid: QParams) -> Case:
    """Make the test case that compares softmax over rows with its oracle."""
    kernel, name = "softmax", f"rows of {grid.dtype}"
    x = codes_on(grid, f"{kernel}: {name}: x", (9, 33))
    out = QParams(2**-8, -128)

    def oracle() -> Array:
        rows = []
        for row in steps_of(x):
            weights = [exp(int(n) * grid.fraction) for n in row]
            rows.append(nearest([w / sum(weights) for w in weights], out))
        return np.stack(rows)

    return Case(
        *(kernel, name),
        lambda threads: np.asarray(md.softmax(x, axis=-1, out=out).codes),
        oracle,
    )


def requantization(grid: QParams, out: QParams) -> Case:
    """Return the case that moves every code to another grid."""
    x = every_code(grid)
    return Case(
        "requantize",
        f"every code of {grid.dtype} to {out.dtype}, step {float(out.scale):g}",
        lambda threads: np.asarray(requantize(x, out=out).codes),
        lambda: nearest([int(n) * grid.fraction for n in steps_of(x)], out),
    )
