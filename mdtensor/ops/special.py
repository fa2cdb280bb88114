"""Special functions of dense tensors on the host."""

from mdtensor.dispatch import method
from mdtensor.generics.special import erf
from mdtensor.kernels.dense import special as kernel
from mdtensor.leaves import FloatingTensor
from mdtensor.ops.operands import on_host
from mdtensor.tensor import Tensor


@method(erf)
def erf(x: FloatingTensor, /) -> Tensor:
    on_host("erf", x)
    return x.wrap(kernel.erf(x.buffer))
