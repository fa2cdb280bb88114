"""Special functions of dense tensors on the host."""

from mdtensor.dispatch.operation import method
from mdtensor.generics.special import erf
from mdtensor.kernels.numpy import math as kernel
from mdtensor.ops.operands import on_host
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor


@method(erf)
def erf(x: FloatingTensor, /) -> Tensor:
    on_host("erf", x)
    return x.wrap(kernel.erf(x.buffer))
