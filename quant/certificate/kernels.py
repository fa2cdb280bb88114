"""Cases of kernels that are called directly, without a step."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.cpu.generic.packing import window as geometry_of
from mdtensor.kernels.cpu.multipliers import NO_EXCEPTION_SUMS
from mdtensor.kernels.reference import conv, matmul, requantize_s32u8
from mdtensor.kernels.rescale import rescale
from mdtensor.quant.certificate import case
from mdtensor.quant.certificate.case import Array, Case, Pair, Sides

# Kernels load whole vectors, so up to 64 bytes past the activations must be readable.
SLACK = 64
lookup_u16 = Entry("generic.elementwise", "lookup_u16", variant="uint16")
requantize_lane = Entry("rounding", "requantize_s32u8")
#: Each row: (h, w, c), kernel, stride, (top, left, bottom, right), dilation.
IMAGES = (
    ((1, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((5, 7, 3), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((6, 9, 17), (3, 2), (1, 1), (1, 0, 2, 1), (2, 2)),
)


def cases() -> Iterator[Case]:
    """Return the cases of this module."""
    for kind in case.KINDS:
        for ties in (False, True):
            yield product(kind, ties)
    yield from (rows(*row) for row in IMAGES)
    yield words()
    yield from (lane_rounding(ties) for ties in (False, True))


def product(kind: str, ties: bool) -> Case:
    """Make the test case of a matrix product into rows of a wider matrix."""
    m, k, n, pitch = 9, 21, 37, 40
    kernel = "gemm_u8s8u8"
    name = f"{m} x {k} x {n}, {kind} codes, {'ties' if ties else 'any ratio'}"
    a = case.uint8_codes(kind, f"{kernel}: {name}: a", (m * k + SLACK,))
    w = case.int8_codes(kind, f"{kernel}: {name}: w", (n, k))
    ratios = case.ratios(f"{kernel}: {name}: ratios", n, k, ties)
    bias = case.integers(f"{kernel}: {name}: bias", (n,), -3000, 3000)

    def compute(threads: int) -> Array:
        padded = int(kernel_set.HOST.padded_columns(n))
        wide = np.zeros(padded, np.int32)
        wide[:n] = bias
        scale, limbs = np.zeros(padded, np.float32), np.zeros((padded, 8), np.int64)
        scale[:n], limbs[:n] = rescale(ratios)
        # 7 everywhere, so that a write past the columns of a row shows.
        out = np.full(m * pitch, 7, np.uint8)
        packed = kernel_set.HOST.pack_s8(w)
        kernel_set.HOST.gemm_u8s8u8(
            *(a, k, m, k, packed, n, wide, scale, limbs, NO_EXCEPTION_SUMS),
            *(131, 5, 250, out, pitch),
        )
        return out.reshape(m, pitch)

    def oracle() -> Array:
        out = np.full((m, pitch), 7, np.uint8)
        codes = a[: m * k].reshape(m, k)
        out[:, :n] = matmul.gemm_u8s8u8(codes, w, bias, ratios, 131, 5, 250)
        return out

    return Case(kernel, name, compute, oracle, is_quick=True)


def rows(
    size: tuple[int, int, int], taps: Pair, stride: Pair, padding: Sides, dilation: Pair
) -> Case:
    """Make the test case of the layout of an image as rows of a product."""
    kernel, name = "im2col_u8", f"{size}, {taps}, {stride}, {padding}, {dilation}"
    x = case.uint8_codes("any", f"{kernel}: {name}: x", size)
    window = (taps, stride, padding, dilation)

    def oracle() -> Array:
        found: Array = conv.im2col_u8(x[None], *window, 200)
        return found

    def compute(threads: int) -> Array:
        geometry = geometry_of((1, *size), *window)
        inside = np.zeros(x.size + SLACK, np.uint8)
        inside[: x.size] = x.reshape(-1)
        shape = (geometry.out_h * geometry.out_w, taps[0] * taps[1] * size[2])
        out = np.zeros(shape[0] * shape[1] + SLACK, np.uint8)
        kernel_set.HOST.im2col_u8(inside, geometry, 0, size[2], 200, shape[1], out)
        return out[: shape[0] * shape[1]].reshape(shape)

    return Case(kernel, name, compute, oracle)


def words() -> Case:
    """Make the test case that compares a 16-bit lookup table with its oracle."""
    kernel, name = "lookup_u16", "999 codes"
    x = case.integers(f"{kernel}: {name}: x", (999,), 0, 65_535).astype(np.uint16)
    table = case.integers(f"{kernel}: {name}: table", (65_536,), -(2**15), 2**15 - 1)
    entries = table.astype(np.int16)

    def compute(threads: int) -> Array:
        out = np.empty(x.shape, np.int16)
        lookup_u16(x, entries.view(np.uint16), out.view(np.uint16))
        return out

    return Case(kernel, name, compute, lambda: entries[x], is_quick=True)


def lane_rounding(ties: bool) -> Case:
    """Return a case of the rounding of one lane, with sums up to the ends of int32."""
    kernel, name = "requantize_s32u8", "ties" if ties else "any ratio"
    small = case.integers(f"{kernel}: {name}: small", (1500,), -9000, 9000)
    large = case.integers(f"{kernel}: {name}: large", (500,), -(2**31), 2**31 - 1)
    sums = np.concatenate([small, large, [-(2**31), 2**31 - 1, 0]]).astype(np.int32)
    ratio = Fraction(1, 64) if ties else Fraction(13421773, 2**30)

    def compute(threads: int) -> Array:
        scale, limbs = rescale([ratio])
        codes = [requantize_lane(s, scale[0], limbs, 0, 131, 5, 250) for s in sums]
        return np.array(codes, np.uint8)

    return Case(
        *(kernel, name, compute),
        lambda: requantize_s32u8(sums, [ratio], 131, 5, 250),
        is_quick=True,
    )
