"""Matrix decompositions of dense tensors, by LAPACK."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.errors import LinAlgError, describe
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
from mdtensor.kernels.numpy import linalg as kernel
from mdtensor.ops.operands import Inexact, deduced
from mdtensor.tensor import Tensor


@contextmanager
def lapack_errors(
    problem: str, fix: str, operation: Callable[..., Any], *arguments: Any
) -> Iterator[None]:
    """Turn a failure of LAPACK into an error with `problem` and `fix`.

    Raises:
        LinAlgError: LAPACK failed.
    """
    try:
        yield
    except np.linalg.LinAlgError:
        call = describe(operation.__name__, *arguments)
        raise LinAlgError(problem, fix, call) from None


def convergence_errors(
    operation: Callable[..., Any], *arguments: Any
) -> AbstractContextManager[None]:
    """Turn a failed iteration into an error, which only NaN and infinities cause."""
    problem, fix = "the iteration does not converge", "Replace NaN and infinities first"
    return lapack_errors(problem, fix, operation, *arguments)


def finite(x: Tensor) -> Any:
    """Return the buffer of a matrix with singular values.

    LAPACK refuses NaN, but returns NaN for infinities, of which a rank would be 0.

    Raises:
        numpy.linalg.LinAlgError: an element is not finite.
    """
    if not np.isfinite(x.buffer).all():
        raise np.linalg.LinAlgError
    return x.buffer


def wrap_all(results: Any, buffers: Iterable[Any]) -> Any:
    """Return the named tuple of tensors around `buffers`, typed by `results`."""
    pairs = zip(results, buffers, strict=True)
    return results._make(result.type.wrap(buffer) for result, buffer in pairs)


@method(cholesky)
def cholesky(x: Inexact, /, *, upper: bool) -> Tensor:
    deduced(cholesky, x, upper=upper)
    fix = "Use eigvalsh to see its eigenvalues"
    with lapack_errors("a matrix is not positive definite", fix, cholesky, x):
        return x.wrap(kernel.cholesky(x.buffer, upper))


@method(qr)
def qr(x: Inexact, /, *, mode: str) -> Any:
    result = deduced(qr, x, mode=mode)
    return wrap_all(result, kernel.qr(x.buffer, mode))


@method(svd)
def svd(x: Inexact, /, *, full_matrices: bool) -> Any:
    result = deduced(svd, x, full_matrices=full_matrices)
    with convergence_errors(svd, x):
        return wrap_all(result, kernel.svd(finite(x), full_matrices))


@method(svdvals)
def svdvals(x: Inexact, /) -> Tensor:
    result: type[Tensor] = deduced(svdvals, x).type
    with convergence_errors(svdvals, x):
        return result.wrap(kernel.svdvals(finite(x)))


@method(eig)
def eig(x: Inexact, /) -> Any:
    result = deduced(eig, x)
    with convergence_errors(eig, x):
        return wrap_all(result, kernel.eig(x.buffer))


@method(eigvals)
def eigvals(x: Inexact, /) -> Tensor:
    result: type[Tensor] = deduced(eigvals, x).type
    with convergence_errors(eigvals, x):
        return result.wrap(kernel.eigvals(x.buffer))


@method(eigh)
def eigh(x: Inexact, /) -> Any:
    result = deduced(eigh, x)
    with convergence_errors(eigh, x):
        return wrap_all(result, kernel.eigh(x.buffer))


@method(eigvalsh)
def eigvalsh(x: Inexact, /) -> Tensor:
    result: type[Tensor] = deduced(eigvalsh, x).type
    with convergence_errors(eigvalsh, x):
        return result.wrap(kernel.eigvalsh(x.buffer))
