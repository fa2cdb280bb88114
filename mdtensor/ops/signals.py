"""Methods of convolution and correlation of two signals on the host."""

from mdtensor.dispatch.operation import method
from mdtensor.generics.signals import convolve, correlate
from mdtensor.kernels.numpy import signals as kernel
from mdtensor.ops.operands import deduced
from mdtensor.tensor import Tensor
from mdtensor.types import NumericTensor


@method(convolve)
def convolve(x1: NumericTensor, x2: NumericTensor, /, *, mode: str) -> Tensor:
    result: type[Tensor] = deduced(convolve, x1, x2, mode=mode).type
    return result.wrap(
        kernel.convolve(x1.buffer, x2.buffer, mode, result.dtype.storage)
    )


@method(correlate)
def correlate(x1: NumericTensor, x2: NumericTensor, /, *, mode: str) -> Tensor:
    result: type[Tensor] = deduced(correlate, x1, x2, mode=mode).type
    return result.wrap(
        kernel.correlate(x1.buffer, x2.buffer, mode, result.dtype.storage)
    )
