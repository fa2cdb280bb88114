"""The sets of the elements of dense tensors, on the host."""

from mdtensor.dispatch.operation import method
from mdtensor.generics.rules.sets import (
    UniqueAllResult,
    UniqueCountsResult,
    UniqueInverseResult,
)
from mdtensor.generics.sets import (
    isin,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from mdtensor.kernels.dense import sets as kernel
from mdtensor.ops.operands import Dense, Real, deduced, measured
from mdtensor.tensor import Tensor


@method(unique_all)
def unique_all(x: Dense, /) -> UniqueAllResult:
    results = deduced(unique_all, x)
    pairs = zip(results, kernel.unique(x.buffer), strict=True)
    return UniqueAllResult(*(result.type.wrap(found) for result, found in pairs))


@method(unique_counts)
def unique_counts(x: Dense, /) -> UniqueCountsResult:
    results = deduced(unique_counts, x)
    values, _, _, counts = kernel.unique(x.buffer)
    return UniqueCountsResult(x.wrap(values), results.counts.type.wrap(counts))


@method(unique_inverse)
def unique_inverse(x: Dense, /) -> UniqueInverseResult:
    results = deduced(unique_inverse, x)
    values, _, inverse, _ = kernel.unique(x.buffer)
    which = results.inverse_indices.type
    return UniqueInverseResult(x.wrap(values), which.wrap(inverse))


@method(unique_values)
def unique_values(x: Dense, /) -> Tensor:
    deduced(unique_values, x)
    return x.wrap(kernel.unique_values(x.buffer))


@method(isin)
def isin(x1: Real, x2: Real, /, *, invert: bool) -> Tensor:
    result: type[Tensor] = deduced(isin, x1, x2, invert=invert).type
    x, members = measured(isin, x1, x2)
    return result.wrap(kernel.isin(x, members, bool(invert)))
