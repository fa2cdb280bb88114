"""Layers on float32 activations with weights that are packed once.

    out[..., j] = bias[j] + sum_k x[..., k] * w[j, k]    as in `float_matmul.py`

A linear layer maps float32 [..., k] with any strides to new float32 [..., n]. A
convolution is one linear layer per group of channels, on im2col columns.
"""

import math

import numpy as np

from mdtensor.kernels import observe
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic.float_packing import pad_rows
from mdtensor.kernels.numpy.conv import windows


class Layer:
    """A layer with packed weights.

    Subclasses set `_kernel`, and `_weights` packed for that kernel. A layer uses the
    ISA of the context in which it is made.
    """

    _kernel: str
    _weights: tuple = ()

    def __init__(self, n, k, bias):
        self.n, self.k, self.on = n, k, kernel_set.CHOSEN.get()
        given = np.zeros(n, np.float32) if bias is None else bias
        self._bias = pad_rows(np.asarray(given, np.float32))

    def __call__(self, x):
        """Return the result for x as a new array."""
        assert x.dtype == np.float32 and x.shape[-1] == self.k, "float32 [..., k]"
        rows = np.ascontiguousarray(x).reshape(-1)
        m = math.prod(x.shape[:-1])
        out = np.empty((*x.shape[:-1], self.n), np.float32)
        packed, *grid = self._weights
        flat = out.reshape(-1)
        self._act(
            *(rows, self.k, m, self.k, packed, self.n, *grid),
            *(self._bias, flat, self.n),
        )
        if observe.ACTIVE:
            observe.ran(self.kernel, self.runway)
        return out

    @property
    def _act(self):
        """Return the kernel."""
        return getattr(self.on, self._kernel)

    @property
    def kernel(self):
        """Return the name of the kernel that does the work."""
        return self._act.__name__

    @property
    def runway(self):
        """Return the ISA of the kernel that this layer calls."""
        return kernel_set.isa_of(self._act)

    @property
    def bytes(self):
        """Return the bytes of the weights, with scales and zeros."""
        return sum(
            part.nbytes for part in self._weights if isinstance(part, np.ndarray)
        )

    def macs(self, shape):
        """Return the multiply-accumulates of one call."""
        return math.prod(shape) * self.n


class Linear(Layer):
    """A linear layer with weights float32 [n, k], any strides."""

    _kernel = "gemm_f32f32f32"

    def __init__(self, w, bias=None):
        super().__init__(*w.shape, bias)
        self._weights = (self.on.pack_f32(w),)


class LinearS8(Layer):
    """A linear layer with weights scale * (code - zero), rounded once.

    Args:
        codes: int8 [n, k].
        scales, zeros: [n, blocks]; a block is `size` neighbours along k.
    """

    _kernel = "gemm_f32s8f32"

    def __init__(self, codes, scales, zeros, size, bias=None):
        super().__init__(*codes.shape, bias)
        grid = self.on.pack_grid(scales), self.on.pack_grid(zeros)
        self._weights = (self.on.pack_rows(codes), *grid, max(size, 1))


class LinearU4(Layer):
    """A linear layer like `LinearS8`, with codes of 0 to 15.

    Args:
        pairs: uint8 [n, ceil(k / 2)], the even code in the low nibble.
        k: the number of codes in a row.
        size: even, or at least k.
    """

    _kernel = "gemm_f32u4f32"

    def __init__(self, pairs, k, scales, zeros, size, bias=None):
        super().__init__(len(pairs), k, bias)
        grid = self.on.pack_grid(scales), self.on.pack_grid(zeros)
        self._weights = (self.on.pack_rows(pairs), *grid, max(size, 1))


class Conv2d:
    """A convolution of float32 images.

        y[n, o, i, j] = bias[o] + sum_k x[n, c, i s + p d, j s + q d] * w[o, k]

    k counts p, then q, then the channel c of a group; the sum has that order. A call
    takes float32 [n, c, h, w] with any strides and returns new float32 [n, o, oh, ow].

    Args:
        layers: a `Layer` for each group of channels, all of one type and shape.
        kernel, stride, dilation: (height, width).
        padding: (top, left, bottom, right) zeros around an image.
    """

    def __init__(self, layers, kernel, stride, padding, dilation):
        self.layers, self._kernel = layers, kernel
        self._stride, self._padding, self._dilation = stride, padding, dilation

    def __call__(self, x):
        """Return the convolution of x as a new array."""
        seen = self._columns(x)
        n, oh, ow = seen.shape[:3]
        depth = seen.shape[-1] // len(self.layers)
        width = self.layers[0].n
        y = np.empty((n, len(self.layers) * width, oh, ow), np.float32)
        # The columns of one image at a time bound the memory.
        for image, target in zip(seen, y, strict=True):
            for group, layer in enumerate(self.layers):
                part = image[..., group * depth : (group + 1) * depth]
                found = layer(part.reshape(oh * ow, layer.k))
                target[group * width : (group + 1) * width] = np.moveaxis(
                    found.reshape(oh, ow, width), -1, 0
                )
        return y

    def _columns(self, x):
        """Return a view [n, oh, ow, kh, kw, c] of the pixels under the window."""
        top, left, bottom, right = self._padding
        n, c, height, width = x.shape
        # Only padding needs zeros; the image overwrites everything else.
        fill = np.zeros if any(self._padding) else np.empty
        image = fill((n, top + height + bottom, left + width + right, c), x.dtype)
        # Channels come last, because the sum over k runs over taps before channels.
        image[:, top : top + height, left : left + width] = x.transpose(0, 2, 3, 1)
        by_channel = image.transpose(0, 3, 1, 2)
        seen = windows(by_channel, self._kernel, self._stride, self._dilation)
        return seen.transpose(0, 4, 5, 2, 3, 1)

    @property
    def kernel(self):
        """Return the name of the kernel that does the work."""
        return self.layers[0].kernel

    @property
    def runway(self):
        """Return the ISA of the kernel of the first layer."""
        return self.layers[0].runway

    @property
    def bytes(self):
        """Return the bytes of the weights, with scales and zeros."""
        return sum(layer.bytes for layer in self.layers)

    def macs(self, shape):
        """Return the multiply-accumulates of one call."""
        n, oh, ow = self._columns(np.broadcast_to(np.float32(0), shape)).shape[:3]
        return n * oh * ow * sum(layer.k * layer.n for layer in self.layers)
