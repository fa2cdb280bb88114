"""Reductions over activation codes."""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import rounding
from mdtensor.kernels.cpu.dot8 import simd
from mdtensor.kernels.cpu.dot8.epilogue import QUAD, lane_mask, load_vectors
from mdtensor.kernels.cpu.dot8.float_epilogue import Rescaler, limits, trailing_zeros
from mdtensor.kernels.cpu.dot8.simd import BYTES, I8, I32, I64, PRODUCT, S32
from mdtensor.kernels.cpu.jit import kernel

LINE = 64
# A dot product with ones and zeros adds bytes without widening them first. Byte p of
# every dword counts in sum p.
PICK = tuple(
    ir.Constant(BYTES, [I8(int(i % 4 == p)) for i in range(LINE)]) for p in range(4)
)


@intrinsic
def sum_lines(typingctx, x, pitch, count, mask, out):
    """Set out[i], int32 [64], to the sum of byte i of `count` lines; all by address.

    `mask` has one bit for each byte of a line that may be read.
    """

    def emit(context, b, signature, arguments):
        x, pitch, count, mask, out = arguments

        picks = [PRODUCT.weights(b, pick) for pick in PICK]
        start = b.trunc(b.mul(count, I64(PRODUCT.offset)), I32)

        def step(i, sums):
            place = b.add(x, b.mul(i, pitch))
            codes = PRODUCT.codes(b, simd.load_lanes(b, place, BYTES, mask))
            return [
                PRODUCT.add(b, old, codes, pick)
                for old, pick in zip(sums, picks, strict=True)
            ]

        sums = simd.repeat(b, count, [simd.splat(b, start)] * 4, step)
        order = [16 * (i % 4) + i // 4 for i in range(LINE)]
        simd.store(b, simd.permute(b, simd.concat(b, *sums), order), out)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), emit


@intrinsic
def requantize_chunk(typingctx, job):
    """Compute out = clamp(rhe((sums - offset) * scale)) + zero_point for 64 int32.

    Args: job: sums, offset, scale, low, high, zero_point, out, mask.

    Returns: bits of the lanes near a tie.
    """

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[0])
        sums, offset, scale, low, high, zero_point, out, mask = job
        rescaler = Rescaler(b, low, high, zero_point)
        offset = simd.splat(b, b.trunc(offset, I32))
        ints = [b.sub(v, offset) for v in load_vectors(b, sums, QUAD, S32)]
        codes = rescaler.codes(b, ints, [simd.splat(b, scale)] * QUAD)
        simd.store_lanes(b, codes, out, mask)
        return b.and_(rescaler.near_tie_bits(b), mask)

    whole, real = types.int64, types.float32
    return whole(types.Tuple([whole] * 2 + [real] * 3 + [whole] * 3)), emit


@kernel
def mean_u8u8(x, p, c, x_zero_point, multiplier, limbs, zero_point, lo, hi, out):
    """out[c] = clamp(round_half_even(sum over p of (x - x_zero_point) * P / Q) + z).

    Args: as in the generic kernel. Pixels of few channels share a line of 64 bytes.

    Rounding: the exact rational, half to even. Overflow: int32 holds p <= 8,421,504.
    """
    # Few channels would leave most of a vector empty, so a line holds several pixels.
    pixels = max(1, LINE // c)
    lines = p // pixels
    span = pixels * c
    sums = np.zeros(c + LINE, np.int32)
    part = np.empty(LINE, np.int32)
    for first in range(0, span, LINE):
        mask = lane_mask(span - first)
        target = simd.address_of(part, 0)
        sum_lines(simd.address_of(x, first), span, lines, mask, target)
        if pixels > 1:
            for i in range(span):
                sums[i % c] = np.int32(sums[i % c] + part[i])
        else:
            for i in range(min(LINE, c - first)):
                sums[first + i] = part[i]
    for i in range(lines * span, p * c):
        sums[i % c] = np.int32(sums[i % c] + np.int32(x[i]))
    low, high = limits(zero_point, lo, hi)
    for first in range(0, c, LINE):
        source, target = simd.address_of(sums, first), simd.address_of(out, first)
        near = requantize_chunk(
            (source, p * x_zero_point, multiplier[0], low, high, zero_point, target,
             lane_mask(c - first))
        )  # fmt: skip
        while near != 0:
            j = first + trailing_zeros(near)
            near &= near - 1
            acc = np.int32(sums[j] - np.int32(p * x_zero_point))
            out[j] = rounding.requantize_s32u8(
                acc, multiplier[0], limbs, 0, zero_point, lo, hi
            )
