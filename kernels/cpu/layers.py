"""Linear layers of float32 activations, their weights packed once.

    out[..., j] = bias[j] + sum_k x[..., k] * w[j, k]    as in `float_matmul.py`

A layer is called with float32 [..., k] of any strides and gives new float32 [..., n].
"""

import math
from typing import Any

import numpy as np

from mdtensor.kernels.cpu import runway
from mdtensor.kernels.cpu.weight_only import padded_rows


class Layer:
    """A layer; a subclass sets `_kernel`, and `_weights` as that takes them."""

    _kernel: Any
    _weights: tuple = ()

    def __init__(self, n, k, bias):
        self.n, self.k = n, k
        given = np.zeros(n, np.float32) if bias is None else bias
        self._bias = padded_rows(np.asarray(given, np.float32))

    def __call__(self, x):
        assert x.dtype == np.float32 and x.shape[-1] == self.k, "float32 [..., k]"
        rows = np.ascontiguousarray(x).reshape(-1)
        m = math.prod(x.shape[:-1])
        out = np.empty((*x.shape[:-1], self.n), np.float32)
        packed, *grid = self._weights
        flat = out.reshape(-1)
        self._kernel(
            *(rows, self.k, m, self.k, packed, self.n, *grid),
            *(self._bias, flat, self.n),
        )
        return out

    @property
    def kernel(self):
        """Name of the kernel that does the work."""
        return self._kernel.__name__

    @property
    def runway(self):
        """Runway of that kernel."""
        return runway.runway_of(self._kernel)

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

    _kernel = staticmethod(runway.gemm_f32f32f32)

    def __init__(self, w, bias=None):
        super().__init__(*w.shape, bias)
        self._weights = (runway.pack_f32(w),)


class LinearS8(Layer):
    """Weights scale * (code - zero), rounded once.

    Args:
        codes: int8 [n, k].
        scales, zeros: [n, blocks]; each for `size` neighbours along k.
    """

    _kernel = staticmethod(runway.gemm_f32s8f32)

    def __init__(self, codes, scales, zeros, size, bias=None):
        super().__init__(*codes.shape, bias)
        grid = runway.pack_grid(scales), runway.pack_grid(zeros)
        self._weights = (runway.pack_rows(codes), *grid, max(size, 1))


class LinearU4(Layer):
    """As `LinearS8`, codes of 0 to 15.

    Args:
        pairs: uint8 [n, ceil(k / 2)], the even code in the low nibble.
        k: the number of codes in a row.
        size: even, or at least k.
    """

    _kernel = staticmethod(runway.gemm_f32u4f32)

    def __init__(self, pairs, k, scales, zeros, size, bias=None):
        super().__init__(len(pairs), k, bias)
        grid = runway.pack_grid(scales), runway.pack_grid(zeros)
        self._weights = (runway.pack_rows(pairs), *grid, max(size, 1))
