"""Convolutions of float32 arrays of NumPy, by the steps that plans run.

A call packs its weights each time, because they may have changed since the last call.
"""

from collections import deque
from functools import cache

import numpy as np

from mdtensor.kernels.cpu.program.floats import Conv2d, MatMul, Transpose
from mdtensor.kernels.numpy.threads import POOL

#: Fewer multiply-adds are done before another thread has woken up.
LARGE = 1 << 23


# Eager calls, traces and plans add in one order (decision 0116).
def conv2d(x, w, b, stride, padding, dilation, groups):
    """Return the convolution of images [n, c, h, w] as a fresh array.

    Args:
        x, w, b: float32, as for `kernels/numpy/conv.py:conv2d`; not empty.
        stride, padding, dilation, groups: as there.

    Rounding: each multiply-add, from the bias, in the order of taps, then channels.
    """
    is_pixelwise = w.shape[2:] == (1, 1) and groups == 1 and not any(padding)
    # A sum that begins at 0 + 1 · b loses the sign of a bias of -0.
    if is_pixelwise and (b is None or not (np.signbit(b) & (b == 0)).any()):
        return _mix_channels(x[:, :, :: stride[0], :: stride[1]], w[:, :, 0, 0], b)
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    step = Conv2d(w, b, **options, groups=groups)
    enter, leave = _transposes(step.on.name)

    def convolve(images):
        return leave(step(enter(images)))

    n, c, height, width = x.shape
    if n == 1 or POOL.size == 1 or step.macs((n, height, width, c)) < LARGE:
        return convolve(x)
    return _each_image(x, convolve)


@cache
def _transposes(isa_name):
    """Return the steps to channels last and back, which keep their plans."""
    return Transpose(to_images=True), Transpose(to_images=False)


def _mix_channels(x, w, b):
    """Return w @ x[i] + b for each image: images stay in their order.

    The pixels are the columns of the product, so no image is transposed.
    """
    step, (_, c, height, width) = MatMul(), x.shape
    given = w[None]
    if b is not None:
        # The sum begins with the bias, by the product of 1 and the bias.
        given = np.concatenate([b[:, None], w], axis=1)[None]

    def mix(image):
        pixels = image.reshape(1, c, -1)
        if b is not None:
            ones = np.ones((1, 1, pixels.shape[-1]), np.float32)
            pixels = np.concatenate([ones, pixels], axis=1)
        return step(given, pixels).reshape(1, len(w), height, width)

    return mix(x) if len(x) == 1 else _each_image(x, mix)


def _each_image(x, work):
    """Return the results of `work` for each image, on all threads if they are many."""
    parts = [None] * len(x)

    def run(first, end):
        for i in range(first, end):
            parts[i] = work(x[i : i + 1])

    POOL.share(run, deque((i, i + 1) for i in range(len(x))))
    return np.concatenate(parts)
