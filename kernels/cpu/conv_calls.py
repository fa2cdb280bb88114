"""Convolutions of float32 arrays of NumPy, by the steps that plans run.

A call packs its weights each time, because they may have changed since the last call.
Everything that depends on shapes alone is kept from call to call.
"""

from collections import deque
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.float_calls import F32, in_a_row
from mdtensor.kernels.cpu.program.floats import Convolution, MatMul, Transpose
from mdtensor.kernels.cpu.program.kinds import ITEM
from mdtensor.kernels.cpu.program.step import BoundStep, allocator
from mdtensor.kernels.numpy.threads import POOL

#: Fewer multiply-adds are done before another thread has woken up.
LARGE = 1 << 23
#: Number of shapes whose steps are kept.
MOST_SHAPES = 512
U8 = np.dtype(np.uint8)


# Eager calls, traces and plans add in one order (decision 0116).
def conv2d(x, w, b, stride, padding, dilation, groups):
    """Return the convolution of images [n, c, h, w] as a fresh array.

    Args:
        x, w, b: float32, as for `kernels/numpy/conv.py:conv2d`; not empty.
        stride, padding, dilation, groups: as there.

    Rounding: each multiply-add, from the bias, in the order of taps, then channels.
    """
    if w.shape[2:] == (1, 1) and groups == 1 and not any(padding):
        x = x[:, :, :: stride[0], :: stride[1]]
        found = _mixing(kernel_set.CHOSEN.get().name, x.shape, len(w), b is None)
    else:
        window = stride, padding, dilation, groups
        found = _sliding(kernel_set.CHOSEN.get().name, x.shape, w.shape, *window)
    return found(x, w, b)


def is_for_threads(images, macs):
    """Return whether all free threads share the images of a call."""
    return images > 1 and macs >= LARGE


# A call of few pixels takes as long as its Python code (decision 0110).
class ImageCall:
    """A convolution of images of one shape.

    Args: shape: of the images; out: of the result.
    """

    def __init__(self, shape, out):
        self._shape, self._out = shape, out
        self._sizes = prod(shape[1:]) * ITEM, prod(out[1:]) * ITEM
        self._allocate = allocator(prod(out) * ITEM)

    def __call__(self, x, w, b):
        """Return the convolution of x by weights w and bias b."""
        constants, out = self.packed(w, b), self._allocate(self._out, F32)
        if not out.size:
            return out
        given, flat = in_a_row(x).view(U8), out.reshape(-1).view(U8)
        if POOL.size == 1 or not is_for_threads(self._shape[0], self.macs):
            self.whole(given, constants, flat)
            return out
        size, step = self._sizes

        def run(first, end):
            for i in range(first, end):
                part = flat[i * step : (i + 1) * step]
                self.single(given[i * size : (i + 1) * size], constants, part)

        POOL.share(run, deque((i, i + 1) for i in range(self._shape[0])))
        return out

    @cached_property
    def whole(self):
        """Return what computes all images."""
        return self.bound(self._shape[0], BoundStep.share)

    @cached_property
    def single(self):
        """Return what computes one image, in a piece of the thread pool."""
        return self.bound(1, BoundStep.fill)


class Sliding(ImageCall):
    """A convolution by the step of plans, channels last."""

    def __init__(self, shape, weights, stride, padding, dilation, groups):
        options = {"stride": stride, "padding": padding, "dilation": dilation}
        self._step = Convolution(weights, **options, groups=groups)
        n, c, *size = shape
        _, height, width, channels = self._step.output_shape((n, *size, c))
        super().__init__(shape, (n, channels, height, width))
        self.macs = self._step.macs((n, *size, c))
        self._room = allocator(self._step.filters.bytes)
        self._turns = Transpose(to_images=True), Transpose(to_images=False)

    def packed(self, w, b):
        """Return the constants of a call."""
        return self._step.filters.pack(w, b, self._room)

    def bound(self, images, fill):
        """Return a function of pixels, constants and result, all bytes."""
        enter, leave = self._turns
        enter = enter.bound((images, *self._shape[1:]))
        work = self._step.bound(enter.shape)
        leave = leave.bound(work.shape)
        nothing, allocate, room = enter.constants, enter.allocate, work.allocate
        size, space = prod(enter.shape) * ITEM, prod(work.shape) * ITEM

        def convolve(x, constants, out):
            pixels, sums = allocate((size,), U8), room((space,), U8)
            fill(enter, pixels, x, x, nothing)
            fill(work, sums, pixels, pixels, constants)
            fill(leave, out, sums, sums, nothing)

        return convolve


class Mixing(ImageCall):
    """A convolution of one pixel: w @ x[i] + b for each image.

    The pixels are the columns of the product, so images stay in their order.
    """

    def __init__(self, shape, filters, has_bias):
        super().__init__(shape, (shape[0], filters, *shape[2:]))
        # The sum begins with the bias, by the product of 1 and the bias.
        self._step, self._depth = MatMul(has_bias), shape[1] + has_bias
        self._filters, self.macs = filters, prod(shape) * filters

    def packed(self, w, b):
        """Return the left side of the product."""
        rows = w.reshape(self._filters, -1)
        if b is not None:
            rows = np.concatenate([b[:, None], rows], axis=1)
        return in_a_row(rows).view(U8)

    def bound(self, images, fill):
        """Return a function of pixels, left side and result, all bytes."""
        _, c, *size = self._shape
        shapes = (1, self._filters, self._depth), (images, c, prod(size))
        work = self._step.bound(*shapes)

        def mix(x, given, out):
            fill(work, out, given, x, work.constants)

        return mix


@lru_cache(MOST_SHAPES)
def _sliding(isa_name, *shapes):
    """Return the `Sliding` of an ISA, which the context has chosen."""
    return Sliding(*shapes)


@lru_cache(MOST_SHAPES)
def _mixing(isa_name, shape, filters, lacks_bias):
    """Return the `Mixing` of an ISA, which the context has chosen."""
    return Mixing(shape, filters, not lacks_bias)
