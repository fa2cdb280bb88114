"""Products of 8-bit integers on the kernels of codes, for tensors on the host.

    (a - za) · (w - zw) = a · w - za · sum(w) - zw · (sum(a) - k · za)

The product of the integers themselves does not depend on zero points, so that weights
are packed once, whatever zero points the data has. The kernel reads uint8 times int8;
other integers are shifted by 128 together with their zero points. All sums are of int32
and wrap around, and the result, which fits, is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor.dispatch.operation import method
from mdtensor.generics.integer_products import matmul_integer
from mdtensor.ops.operands import deduced
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor
from mdtensor.types import IntegerTensor

Array = npt.NDArray[Any]
#: What shifts uint8 to int8 and back.
SHIFT = 128


class PackedWeights:
    """Weights [k, n] with their zero points, packed for the kernel.

    Args:
        weight: int8 or uint8.
        zero: one zero point or n of them; None is 0.
    """

    def __init__(self, weight: Array, zero: Array | None) -> None:
        # Imported on use, because numba takes long to import.
        from mdtensor.kernels.cpu.program.products import Linear

        shift = SHIFT if weight.dtype == np.uint8 else 0
        moved = (weight.astype(np.int16) - shift).astype(np.int8)
        self.weight, self.step = weight, Linear(np.ascontiguousarray(moved.T))
        self.sums = moved.sum(axis=0, dtype=np.int32)
        zeros = np.zeros(1) if zero is None else zero.reshape(-1)
        self.zeros = zeros.astype(np.int32) - np.int32(shift)
        self._bound: dict[tuple[int, ...], Callable[[Array], Array]] = {}

    def __call__(self, x: Array, zero: Array | None) -> Array:
        """Return int32 [..., m, n] for x [..., m, k] and its zero point."""
        lifted, start = np.ascontiguousarray(x), 0 if zero is None else int(zero.item())
        if x.dtype == np.int8:
            lifted, start = lifted.view(np.uint8) ^ np.uint8(SHIFT), start + SHIFT
        found = self._run(lifted)
        if start:
            found -= np.int32(start) * self.sums
        if self.zeros.any():
            rows = lifted.sum(axis=-1, dtype=np.int32, keepdims=True)
            found -= (rows - np.int32(x.shape[-1] * start)) * self.zeros
        return found

    def _run(self, x: Array) -> Array:
        """Return the product of uint8 and the packed int8."""
        run = self._bound.get(x.shape)
        if run is None:
            # Only a plan calls this twice, and a plan has one shape.
            run = self._bound[x.shape] = self.step.bound(x.shape)
        return run(x.reshape(-1))


# A plan packs constants once; what is written into them later, it does not see, as in
# compiled steps.
def direct_matmul_integer(
    result: TensorSpec,
    x1: TensorSpec,
    x2: Tensor | TensorSpec,
    zero1: Tensor | TensorSpec | None,
    zero2: Tensor | TensorSpec | None,
    /,
) -> Callable[..., Array] | None:
    """Return the function of buffers; None unless the weights are constants."""
    if isinstance(x2, TensorSpec) or isinstance(zero2, TensorSpec):
        return None
    if 0 in (*result.shape, *x2.shape):
        return None
    packed = PackedWeights(x2.buffer, None if zero2 is None else zero2.buffer)
    if zero1 is None:
        return lambda x1, *_: packed(x1, None)
    return lambda x1, x2, zero1, *_: packed(x1, zero1)


@method(matmul_integer, direct=direct_matmul_integer)
def matmul_integer(
    x1: IntegerTensor,
    x2: IntegerTensor,
    zero1: Union[IntegerTensor, None],
    zero2: Union[IntegerTensor, None],
    /,
) -> Tensor:
    result = deduced(matmul_integer, x1, x2, zero1, zero2)
    zeros = [None if zero is None else zero.buffer for zero in (zero1, zero2)]
    leaf: type[Tensor] = result.type
    if 0 in (*result.shape, *x2.shape):
        return leaf.wrap(np.zeros(result.shape, np.int32))
    return leaf.wrap(PackedWeights(x2.buffer, zeros[1])(x1.buffer, zeros[0]))
