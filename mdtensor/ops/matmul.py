"""Matrix products of dense tensors on the host."""

from typing import Union

from mdtensor.dispatch import method
from mdtensor.generics.matmul import linear, matmul
from mdtensor.kernels.dense import matmul as kernel
from mdtensor.leaves import NumericTensor
from mdtensor.ops.operands import deduced
from mdtensor.tensor import Tensor


@method(matmul)
def matmul(x1: NumericTensor, x2: NumericTensor, /) -> Tensor:
    result: type[Tensor] = deduced(matmul, x1, x2).type
    return result.wrap(kernel.matmul(x1.buffer, x2.buffer, result.dtype.storage))


@method(linear)
def linear(
    x: NumericTensor, w: NumericTensor, b: Union[NumericTensor, None], /
) -> Tensor:
    result: type[Tensor] = deduced(linear, x, w, b).type
    bias = b if b is None else b.buffer
    return result.wrap(kernel.linear(x.buffer, w.buffer, bias, result.dtype.storage))
