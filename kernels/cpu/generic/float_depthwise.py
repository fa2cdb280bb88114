"""Depthwise convolutions of float32 images, channels last, on any CPU.

    out[y, x, c] = act(bias[c] + sum of image[y s + p d, x s + q d, c] * w[c, p, q])

A sum begins at the bias and adds each product by a fused multiply-add, p and then q
ascending. Pixels outside of the image are 0, and count like others: 0 times an infinite
weight is NaN.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.activation import ZERO, activate
from mdtensor.kernels.cpu.generic.float_matmul import allocate_f32, multiply_add
from mdtensor.kernels.cpu.jit import kernel

#: Channels of a block.
BLOCK = 8


@kernel
def first_channel(block, c):
    """Return the first channel of a block; the last block overlaps the one before."""
    return max(0, min(block * BLOCK, c - BLOCK))


def block_count(c):
    """Return the number of blocks of c channels."""
    return -(-c // BLOCK)


def pack_depthwise_f32(weight):
    """Pack weights [c, kh, kw] as [blocks][kh * kw][8], missing channels as 0.

    Returns: float32 1-D.
    """
    c = len(weight)
    rows = weight.reshape(c, -1)
    packed = allocate_f32(block_count(c) * rows.shape[1] * BLOCK)
    blocks = packed.reshape(block_count(c), rows.shape[1], BLOCK)
    for number, block in enumerate(blocks):
        part = rows[first_channel(number, c) :][:BLOCK]
        block[:, : len(part)] = part.T
    return packed


@kernel
def depthwise_f32(x, window, packed, bias, activation, low, high, out):
    """Compute a depthwise convolution of one image.

    Args:
        x: float32 1-D [h, w, c].
        packed: by `pack_depthwise_f32`.
        bias: float32 [c].
        activation, low, high: see `activation.py`.
        out: float32 1-D [oh, ow, c], written.

    Rounding: each step of the sum once, half to even; then the activation.
    """
    h, w, c, kh, kw, sh, sw = window[:7]
    top, left, dh, dw, oh, ow = window[7:13]
    width = min(c, BLOCK)
    sums = np.empty(BLOCK, np.float32)
    for pixel in range(oh * ow):
        for block in range((c + BLOCK - 1) // BLOCK):
            first = first_channel(block, c)
            sums[:width] = bias[first : first + width]
            for tap in range(kh * kw):
                y = (pixel // ow) * sh - top + (tap // kw) * dh
                at = (pixel % ow) * sw - left + (tap % kw) * dw
                is_inside = 0 <= y < h and 0 <= at < w
                weights = packed[(block * kh * kw + tap) * BLOCK :]
                place = (y * w + at) * c + first
                for n in range(width):
                    number = x[place + n] if is_inside else ZERO
                    sums[n] = multiply_add(number, weights[n], sums[n])
            target = out[pixel * c + first :]
            for n in range(width):
                target[n] = activate(sums[n], activation, low, high)
