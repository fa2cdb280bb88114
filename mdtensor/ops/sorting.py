"""Dense tensors in order, on the host."""

from mdtensor.dispatch.operation import method
from mdtensor.generics.sorting import argsort, sort
from mdtensor.kernels.numpy import sorting as kernel
from mdtensor.ops.operands import deduced
from mdtensor.tensor import Tensor
from mdtensor.types import RealTensor


@method(sort)
def sort(x: RealTensor, /, *, axis: int, descending: bool, stable: bool) -> Tensor:
    deduced(sort, x, axis=axis, descending=descending, stable=stable)
    return x.wrap(kernel.sort(x.buffer, axis, descending))


@method(argsort)
def argsort(x: RealTensor, /, *, axis: int, descending: bool, stable: bool) -> Tensor:
    options = {"axis": axis, "descending": descending, "stable": stable}
    result: type[Tensor] = deduced(argsort, x, **options).type
    return result.wrap(kernel.argsort(x.buffer, axis, descending))
