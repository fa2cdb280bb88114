"""Steps that multiply float32 by int8 weights, with words of 16 bits for each row.

    out = float(words(x) · w) · (scale of the row · scale of w) + bias

`generic/row_words.py` defines the words.
"""

from math import prod

import numpy as np

from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.dynamic import PANEL, padded_to, rows_at_once
from mdtensor.kernels.cpu.program.floats import FloatStep
from mdtensor.kernels.cpu.program.kinds import ALIGN, ITEM, SLACK
from mdtensor.kernels.cpu.program.step import Constants, Plan


def pack_words(w):
    """Pack int8 w[n, k] as panels [K/4][16][4]; K and columns padded with 0.

    All ISAs read this order. Four weights of a column lie in the order 0, 2, 1, 3.
    """
    n, k = w.shape
    wide = np.zeros((padded_to(n, PANEL), padded_to(k, 4)), np.int8)
    wide[:n, :k] = w
    panels = wide.reshape(-1, PANEL, wide.shape[1] // 4, 4)[..., [0, 2, 1, 3]]
    return np.ascontiguousarray(panels.transpose(0, 2, 1, 3)).reshape(-1)


def wide_scales(n, scale):
    """Return scale, one number or [n], for n columns padded with 0 to whole panels."""
    scales = np.zeros(padded_to(n, PANEL), np.float32)
    scales[:n] = scale
    return scales


def strip_of(m, n):
    """Return how many of m rows with n sums are multiplied at once."""
    return rows_at_once(m, padded_to(n, PANEL))


def scratch_of_words(strip, n, k):
    """Return the scratch of a strip, see `interpret_row_words`."""
    scales = padded_to(strip * ITEM, ALIGN)
    words = padded_to(strip * padded_to(k, 4) * 2 + SLACK, ALIGN)
    return scales + words + strip * padded_to(n, PANEL) * ITEM + SLACK


class WordLinear(FloatStep):
    """A product of rows with weights: x [..., k] gives [..., n].

    Args:
        weight: int8 [n, k].
        scale: float32, one number or [n].
        bias: float32 [n].
    """

    kind, kernels = kinds.WORD_LINEAR, ("gemm_s16s8s32",)

    def __init__(self, weight, scale, bias):
        constants = Constants()
        (n, k), self._sizes = weight.shape, weight.shape
        self._fields = {
            "depth": k,
            "columns": n,
            "weights": constants.add(pack_words(weight))[0],
            "multipliers": constants.add(wide_scales(n, scale))[0],
            "bias": constants.add(np.ascontiguousarray(bias, np.float32))[0],
        }
        self.constants = constants.array()

    def output_shape(self, shape):
        """Return the shape of the result."""
        return (*shape[:-1], self._sizes[0])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        (n, k), rows = self._sizes, prod(shape[:-1])
        strip = strip_of(rows, n)
        fields = {**self._fields, "rows": rows, "strip": strip}
        scratch = scratch_of_words(strip, n, k)
        return Plan(fields, self.constants, self.output_shape(shape), scratch)

    def macs(self, shape):
        """Return the multiply-accumulates of one call."""
        return prod(shape) * self._sizes[0]

    @property
    def bytes(self):
        """Return the bytes of the packed constants."""
        return self.constants.size
