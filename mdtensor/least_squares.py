"""Least-squares solutions: `linalg.lstsq`, by the singular values of a matrix."""

from typing import Any, NamedTuple

import numpy as np

from mdtensor.compositions import as_tensor
from mdtensor.dispatch.composed import composed
from mdtensor.errors import OptionError, ShapeError, checked, describe, shown
from mdtensor.generics.arithmetic import (
    abs as magnitude,
    conj,
    mul,
    reciprocal,
    square,
    sub,
)
from mdtensor.generics.comparison import greater
from mdtensor.generics.conversion import astype
from mdtensor.generics.decomposition import svd
from mdtensor.generics.linalg import matrix_transpose
from mdtensor.generics.manipulation import expand_dims, squeeze
from mdtensor.generics.matmul import matmul
from mdtensor.generics.reduction import max as largest, sum as total
from mdtensor.generics.sorting import where
from mdtensor.spec.options import number


class LstsqResult(NamedTuple):
    """The result of `lstsq`."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


@composed
def lstsq(x1: Any, x2: Any, /, *, rtol: float | None = None) -> LstsqResult:
    """Return the y for which |x1 · y - x2| is least; of several, the shortest.

    y = V · S⁺ · Uᴴ · x2, of the singular values S of x1. Float products round.

    Args:
        x1: [..., m, n]; float32, float64 or complex, of the type of `x2`.
        x2: [m], or [..., m, k].
        rtol: singular values up to `rtol` times the largest count as 0;
            max(m, n) · eps if None.

    Returns:
        `solution` [n] or [..., n, k]; `residuals`, the sums of |x1 · y - x2|² for each
        column, [] or [..., k]; `rank` [...], int64; and `singular_values`
        [..., min(m, n)] in descending order.

    Raises:
        ShapeError: `x1` has fewer than 2 axes, or the shapes do not fit.
        OptionError: `rtol` is negative or NaN.
        LinAlgError: singular values do not converge: an element is not finite.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
        >>> found = md.linalg.lstsq(x, md.asarray([1.0, 3.0, 5.0]))
        >>> [round(number, 4) for number in found.solution.tolist()], found.rank.item()
        ([2.0, 1.0], 2)

    Source: NumPy, `numpy.linalg.lstsq`; LAPACK, `gelsd`.
    """
    a, b = (as_tensor(x, "lstsq") for x in (x1, x2))
    checked("lstsq", (a, b), lambda: _check(a, b))
    u, s, vh = svd(a, full_matrices=False)
    part = checked("lstsq", (a, b), lambda: _tolerance(rtol, a.shape, s))
    if not s.shape[-1]:
        raise ShapeError("there is no element", "Give one", describe("lstsq", a, b))
    is_used = greater(s, mul(largest(s, axis=-1, keepdims=True), part))
    # Their reciprocal is not used, so that it may be infinite.
    inverse = where(is_used, reciprocal(where(is_used, s, 1.0)), 0.0)
    right = expand_dims(b, axis=-1) if b.ndim == 1 else b
    shares = matmul(_adjoint(u), right)
    scaled = mul(shares, astype(expand_dims(inverse, axis=-1), shares.dtype))
    found = matmul(_adjoint(vh), scaled)
    rest = total(square(magnitude(sub(matmul(a, found), right))), axis=-2)
    if b.ndim == 1:
        found, rest = squeeze(found, axis=-1), squeeze(rest, axis=-1)
    return LstsqResult(found, rest, total(is_used, axis=-1), s)


def _adjoint(x: Any) -> Any:
    """Return the transpose of the conjugate."""
    turned = matrix_transpose(x)
    return conj(turned) if x.dtype.is_complex else turned


def _check(a: Any, b: Any) -> None:
    """Raise unless `a` is a matrix, or a stack, with a right side `b`.

    Raises:
        ShapeError: it is not.
    """
    if a.ndim < 2:
        raise ShapeError(f"x1 has {a.ndim} axes", "Give a matrix")
    rows = b.shape[0 if b.ndim == 1 else -2] if b.ndim else None
    if rows != a.shape[-2]:
        problem = f"x1 has {a.shape[-2]} rows, and x2 has {rows}"
        raise ShapeError(problem, "Give x2 a row for each row of x1")


def _tolerance(rtol: object, shape: tuple[int, ...], s: Any) -> float:
    """Return the part of the largest singular value that counts as 0.

    Raises:
        OptionError: `rtol` is negative or NaN.
    """
    if rtol is None:
        return max(shape[-2:]) * float(np.finfo(s.dtype.storage).eps)
    found = number(rtol, "rtol")
    if not found >= 0:
        raise OptionError(f"rtol is {shown(rtol)}", "Use a number of at least 0")
    return found
