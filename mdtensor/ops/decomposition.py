"""Factors of dense matrices on the host."""

from collections.abc import Iterable
from typing import Any

from mdtensor.dispatch.operation import method
from mdtensor.generics.decomposition import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from mdtensor.kernels.dense import decomposition as kernel
from mdtensor.ops.failures import failing, not_converging
from mdtensor.ops.operands import Inexact, deduced
from mdtensor.tensor import Tensor


def wrapped(results: Any, buffers: Iterable[Any]) -> Any:
    """Tensors around `buffers`, named as the deduced `results`."""
    pairs = zip(results, buffers, strict=True)
    return results._make(result.type.wrap(buffer) for result, buffer in pairs)


@method(cholesky)
def cholesky(x: Inexact, /, *, upper: bool) -> Tensor:
    deduced(cholesky, x, upper=upper)
    fix = "Use eigvalsh to see its eigenvalues"
    with failing("a matrix is not positive definite", fix, cholesky, x):
        return x.wrap(kernel.cholesky(x.buffer, upper))


@method(qr)
def qr(x: Inexact, /, *, mode: str) -> Any:
    result = deduced(qr, x, mode=mode)
    return wrapped(result, kernel.qr(x.buffer, mode))


@method(svd)
def svd(x: Inexact, /, *, full_matrices: bool) -> Any:
    result = deduced(svd, x, full_matrices=full_matrices)
    with not_converging(svd, x):
        return wrapped(result, kernel.svd(x.buffer, full_matrices))


@method(svdvals)
def svdvals(x: Inexact, /) -> Tensor:
    result: type[Tensor] = deduced(svdvals, x).type
    with not_converging(svdvals, x):
        return result.wrap(kernel.svdvals(x.buffer))


@method(eig)
def eig(x: Inexact, /) -> Any:
    result = deduced(eig, x)
    with not_converging(eig, x):
        return wrapped(result, kernel.eig(x.buffer))


@method(eigvals)
def eigvals(x: Inexact, /) -> Tensor:
    result: type[Tensor] = deduced(eigvals, x).type
    with not_converging(eigvals, x):
        return result.wrap(kernel.eigvals(x.buffer))


@method(eigh)
def eigh(x: Inexact, /) -> Any:
    result = deduced(eigh, x)
    with not_converging(eigh, x):
        return wrapped(result, kernel.eigh(x.buffer))


@method(eigvalsh)
def eigvalsh(x: Inexact, /) -> Tensor:
    result: type[Tensor] = deduced(eigvalsh, x).type
    with not_converging(eigvalsh, x):
        return result.wrap(kernel.eigvalsh(x.buffer))
