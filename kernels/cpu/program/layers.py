"""Layers of float32 activations, their weights packed once.

    out[..., j] = bias[j] + sum_k x[..., k] * w[j, k]    as in `float_matmul.py`

A linear layer is called with float32 [..., k] of any strides and gives new float32
[..., n]; a convolution is one for each group of channels, of what its window sees.
"""

import math

import numpy as np

from mdtensor.kernels import observe
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic.weight_only import padded_rows
from mdtensor.kernels.numpy.conv import windows


class Layer:
    """A layer; a subclass sets `_kernel`, and `_weights` as that takes them.

    It is of the runway that is chosen where it is made.
    """

    _kernel: str
    _weights: tuple = ()

    def __init__(self, n, k, bias):
        self.n, self.k, self.on = n, k, kernel_set.CHOSEN.get()
        given = np.zeros(n, np.float32) if bias is None else bias
        self._bias = padded_rows(np.asarray(given, np.float32))

    def __call__(self, x):
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
        return getattr(self.on, self._kernel)

    @property
    def kernel(self):
        """Name of the kernel that does the work."""
        return self._act.__name__

    @property
    def runway(self):
        """Runway of that kernel."""
        return kernel_set.runway_of(self._act)

    @property
    def bytes(self):
        """Bytes of the weights, scales and zeros included."""
        return sum(
            part.nbytes for part in self._weights if isinstance(part, np.ndarray)
        )

    def macs(self, shape):
        """Multiply-accumulates of one call."""
        return math.prod(shape) * self.n


class Linear(Layer):
    """Weights float32 [n, k], any strides."""

    _kernel = "gemm_f32f32f32"

    def __init__(self, w, bias=None):
        super().__init__(*w.shape, bias)
        self._weights = (self.on.pack_f32(w),)


class LinearS8(Layer):
    """Weights scale * (code - zero), rounded once.

    Args:
        codes: int8 [n, k].
        scales, zeros: [n, blocks]; each for `size` neighbours along k.
    """

    _kernel = "gemm_f32s8f32"

    def __init__(self, codes, scales, zeros, size, bias=None):
        super().__init__(*codes.shape, bias)
        grid = self.on.pack_grid(scales), self.on.pack_grid(zeros)
        self._weights = (self.on.pack_rows(codes), *grid, max(size, 1))


class LinearU4(Layer):
    """As `LinearS8`, codes of 0 to 15.

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
    """y[n, o, i, j] = bias[o] + sum_k x[n, c, i s + p d, j s + q d] * w[o, k].

    k counts p, then q, then the channel c of a group, which is the order of the sum.
    Called with float32 [n, c, h, w] of any strides; gives new float32 [n, o, oh, ow].

    Args:
        layers: a `Layer` for each group of channels, all alike.
        kernel, stride, dilation: (height, width).
        padding: (top, left, bottom, right) zeros around an image.
    """

    def __init__(self, layers, kernel, stride, padding, dilation):
        self.layers, self._kernel = layers, kernel
        self._stride, self._padding, self._dilation = stride, padding, dilation

    def __call__(self, x):
        seen = self._columns(x)
        n, oh, ow = seen.shape[:3]
        depth = seen.shape[-1] // len(self.layers)
        width = self.layers[0].n
        y = np.empty((n, len(self.layers) * width, oh, ow), np.float32)
        for image, target in zip(seen, y, strict=True):  # one image's columns at a time
            for group, layer in enumerate(self.layers):
                part = image[..., group * depth : (group + 1) * depth]
                found = layer(part.reshape(oh * ow, layer.k))
                target[group * width : (group + 1) * width] = np.moveaxis(
                    found.reshape(oh, ow, width), -1, 0
                )
        return y

    def _columns(self, x):
        """A view [n, oh, ow, kh, kw, c]: what each position of the window sees."""
        top, left, bottom, right = self._padding
        n, c, height, width = x.shape
        fill = np.zeros if any(self._padding) else np.empty
        image = fill((n, top + height + bottom, left + width + right, c), x.dtype)
        image[:, top : top + height, left : left + width] = x.transpose(0, 2, 3, 1)
        by_channel = image.transpose(0, 3, 1, 2)
        seen = windows(by_channel, self._kernel, self._stride, self._dilation)
        return seen.transpose(0, 4, 5, 2, 3, 1)

    @property
    def kernel(self):
        """Name of the kernel that does the work."""
        return self.layers[0].kernel

    @property
    def runway(self):
        """Runway of that kernel."""
        return self.layers[0].runway

    @property
    def bytes(self):
        """Bytes of the weights, scales and zeros included."""
        return sum(layer.bytes for layer in self.layers)

    def macs(self, shape):
        """Multiply-accumulates of one call."""
        n, oh, ow = self._columns(np.broadcast_to(np.float32(0), shape)).shape[:3]
        return n * oh * ow * sum(layer.k * layer.n for layer in self.layers)
