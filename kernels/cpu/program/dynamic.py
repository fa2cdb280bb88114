"""Steps that multiply float32 by codes of weights, on a grid of each call.

    out = float(codes(x) · w) · (scale of x · scale of w) + bias

Source: ONNX Runtime, `DynamicQuantizeMatMul`.
"""

from math import prod

import numpy as np

from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.floats import FloatStep
from mdtensor.kernels.cpu.program.kinds import ALIGN, ITEM, SLACK
from mdtensor.kernels.cpu.program.step import Constants, Plan

#: Columns for which kernels read constants.
PANEL = 16
#: int32 sums that stay in the second cache, and rows of whole tiles.
SUMS, TILE = 1 << 15, 12


def padded_to(size, step):
    """Return the next multiple of a step."""
    return -(-size // step) * step


def rows_at_once(m, n):
    """Return how many of m rows with n sums are multiplied at once."""
    return min(m, max(1, SUMS // (TILE * n)) * TILE)


def pack_weights(on, constants, weight, scale):
    """Add int8 weights [n, k] to the constants; return the fields that describe them.

    Args:
        on: the kernels of the ISA.
        scale: float32, one number or [n].
    """
    n, k = weight.shape
    padded = padded_to(n, PANEL)
    packed = on.pack_s8(np.ascontiguousarray(weight))
    totals, scales = np.zeros(padded, np.int32), np.zeros(padded, np.float32)
    totals[:n], scales[:n] = weight.sum(axis=1, dtype=np.int64), scale
    fields = {"weights": constants.add(packed)[0], "weight_bytes": packed.size}
    fields |= {"exception_sums": constants.add(totals)[0]}
    fields |= {"multipliers": constants.add(scales)[0]}
    return fields | {"depth": k, "columns": n, "padded_columns": padded}


def scratch_bytes(m, n, k):
    """Return the scratch of a product of m rows, see `interpret_dynamic`."""
    constants = 2 * padded_to(n, PANEL) * ITEM
    sums = padded_to(rows_at_once(m, n) * n * ITEM, ALIGN)
    return ALIGN + constants + sums + m * k + SLACK


# One step has no calls of NumPy between its parts (decision 0108).
class DynamicLinear(FloatStep):
    """A product of rows with weights: x [..., k] gives [..., n].

    Args:
        weight: int8 [n, k].
        scale: float32, one number or [n].
        bias: float32 [n], or None.
    """

    kind, kernels = kinds.DYNAMIC_LINEAR, ("gemm_u8s8s32",)

    def __init__(self, weight, scale, bias=None):
        constants = Constants()
        self._fields = pack_weights(self.on, constants, weight, scale)
        self._sizes = weight.shape
        if bias is not None:
            wide = np.zeros(self._fields["padded_columns"], np.float32)
            wide[: len(bias)] = bias
            self._fields["bias"] = constants.add(wide)[0]
        self.constants = constants.array()

    def output_shape(self, shape):
        """Return the shape of the result."""
        return (*shape[:-1], self._sizes[0])

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        (n, k), rows = self._sizes, prod(shape[:-1])
        fields = {**self._fields, "rows": rows, "strip": rows_at_once(rows, n)}
        scratch = scratch_bytes(rows, n, k)
        return Plan(fields, self.constants, self.output_shape(shape), scratch)

    def macs(self, shape):
        """Return the multiply-accumulates of one call."""
        return prod(shape) * self._sizes[0]

    @property
    def bytes(self):
        """Return the bytes of the packed constants."""
        return self.constants.size
