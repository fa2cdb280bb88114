"""Methods of parts of estimators for dense tensors on the host."""

from typing import Any

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.errors import BoundsError, DataError, describe
from mdtensor.generics.estimators import decision_trees, pairwise_probabilities
from mdtensor.kernels.numpy import estimators as numpy_kernel
from mdtensor.kernels.numpy.matmul import round_to
from mdtensor.kernels.numpy.ufunc import compute_dtype
from mdtensor.ops.direct import direct_trees
from mdtensor.ops.operands import deduced
from mdtensor.promotion import result_type
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, IntegerTensor


@method(decision_trees, direct=direct_trees)
def decision_trees(
    x: FloatingTensor,
    thresholds: FloatingTensor,
    features: IntegerTensor,
    children: IntegerTensor,
    roots: IntegerTensor,
    /,
) -> Tensor:
    # Imported on use, because numba takes long to import.
    from mdtensor.kernels.cpu.generic import estimators as kernel

    given = (x, thresholds, features, children, roots)
    result = deduced(decision_trees, *given)
    wide = compute_dtype(result_type(x, thresholds).storage)
    numbers = (round_to(operand.buffer, wide) for operand in (x, thresholds))
    indices = _indices(features, children, roots)
    out = np.empty(result.shape, np.int64)
    arrays = map(np.ascontiguousarray, (*numbers, *indices))
    place = int(kernel.walk_trees(*arrays, out))
    if place != kernel.ENDED:
        raise _broken(kernel, place, given)
    found: type[Tensor] = result.type
    return found.wrap(out)


def _indices(*given: IntegerTensor) -> list[Any]:
    """Return the arrays of indices in one type, int32 if all have it, else int64."""
    arrays = [operand.buffer for operand in given]
    if all(array.dtype == np.int32 for array in arrays):
        return arrays
    # uint64 beyond int64 would wrap to the number of a leaf.
    limit = np.iinfo(np.int64).max
    large = [a.dtype == np.uint64 for a in arrays]
    bounded = (
        np.minimum(a, np.uint64(limit)) if is_large else a
        for a, is_large in zip(arrays, large, strict=True)
    )
    return [array.astype(np.int64, copy=False) for array in bounded]


def _broken(kernel: Any, place: int, given: tuple[Any, ...]) -> Exception:
    """Return the error for trees whose path leaves them or does not end."""
    x, thresholds, *_ = given
    call = describe("decision_trees", *given)
    if place == kernel.NO_NODE:
        last = thresholds.shape[0] - 1
        problem = f"a child or a root is above {last}, the last node"
        return BoundsError(problem, "Use a node, or -1 - j for leaf j", call)
    if place == kernel.NO_FEATURE:
        problem = f"a feature is outside of 0 to {x.shape[1] - 1}, the columns of x"
        return BoundsError(problem, "Use the index of a column", call)
    problem = "a path through a tree returns to a node and does not end"
    return DataError(problem, "Give children that lead to leaves", call)


@method(pairwise_probabilities)
def pairwise_probabilities(x: FloatingTensor, /) -> Tensor:
    result = deduced(pairwise_probabilities, x)
    dtype, count = result.dtype.storage, result.shape[1]
    wide = round_to(x.buffer, np.dtype(np.float64))
    found: type[Tensor] = result.type
    return found.wrap(round_to(numpy_kernel.couple_pairs(wide, int(count)), dtype))
