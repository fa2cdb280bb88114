"""Depthwise convolutions of float32 images, channels last, on any CPU.

    out[y, x, c] = act(bias[c] + sum of image[y s + p d, x s + q d, c] * w[c, p, q])

A sum begins at the bias and adds each product by a fused multiply-add, p and then q
ascending. Pixels outside of the image are 0, and count like others: 0 times an infinite
weight is NaN.
"""

import numpy as np

from mdtensor.kernels.cpu.generic import float_packing
from mdtensor.kernels.cpu.generic.activation import ZERO, finish
from mdtensor.kernels.cpu.generic.float_matmul import multiply_add
from mdtensor.kernels.cpu.generic.float_packing import BLOCK
from mdtensor.kernels.cpu.jit import kernel

first_channel = kernel(float_packing.first_channel)


@kernel
def depthwise_f32(x, window, packed, bias, activation, low, high, out):
    """Compute a depthwise convolution of one image.

    Args:
        x: float32 1-D [h, w, c].
        packed: by `pack_blocks_f32`.
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
            for n in range(width):
                sums[n] = bias[first + n]
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
                target[n] = finish(sums[n], activation, low, high)
