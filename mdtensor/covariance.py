"""How variables vary together: `cov` and `corrcoef`.

They are made of other operations, so they take every type and device that these take.
"""

from typing import Any

from mdtensor.compositions import as_real
from mdtensor.dispatch.composed import composed
from mdtensor.dtypes import float64
from mdtensor.errors import OptionError, ShapeError, describe, shown
from mdtensor.generics.arithmetic import clip, div, sub
from mdtensor.generics.conversion import astype
from mdtensor.generics.indexing import getitem
from mdtensor.generics.linalg import diagonal, matrix_transpose
from mdtensor.generics.manipulation import expand_dims, reshape
from mdtensor.generics.math import sqrt
from mdtensor.generics.matmul import matmul
from mdtensor.generics.reduction import mean


@composed
def cov(x: Any, /, *, correction: int = 1) -> Any:
    """Return the covariance matrix of variables, whose observations are the rows.

    Everything is computed in float64, and the result is rounded once to its type.

    Args:
        x: real, [variables, observations], or [observations] of one variable.
        correction: what is subtracted from the number of observations in the divisor:
            1 estimates the covariance from a sample, 0 is the covariance of all there
            are.

    Returns:
        [variables, variables], or a tensor without axes for one variable; of the type
        of `mean`.

    Raises:
        ShapeError: `x` has more than two axes or none, or not more observations than
            `correction`.
        OptionError: `correction` is not an integer of at least 0.

    Example:
        >>> import mdtensor as md
        >>> md.cov(md.asarray([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])).tolist()
        [[1.0, -2.0], [-2.0, 4.0]]

    Source: NumPy, `numpy.cov`, whose `ddof` is `correction`; PyTorch, `torch.cov`.
    """
    x = as_real(x, "cov")
    return astype(_covariance(x, "cov", correction), _type_of_mean(x))


@composed
def corrcoef(x: Any, /) -> Any:
    """Return the correlation coefficients of variables; the rows are observations.

    Everything is computed in float64, limited to -1 to 1, and rounded once to the type
    of the result. A variable that does not vary has NaN.

    Args:
        x: real, [variables, observations], or [observations] of one variable.

    Returns:
        [variables, variables], or a tensor without axes for one variable; of the type
        of `mean`.

    Raises:
        ShapeError: `x` has more than two axes or none, or fewer than two observations.

    Example:
        >>> import mdtensor as md
        >>> md.corrcoef(md.asarray([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]

    Source: NumPy, `numpy.corrcoef`; PyTorch, `torch.corrcoef`.
    """
    x = as_real(x, "corrcoef")
    found, kind = _covariance(x, "corrcoef", 1), _type_of_mean(x)
    if found.ndim == 0:
        return astype(div(found, found), kind)
    width = sqrt(diagonal(found))
    found = div(div(found, expand_dims(width, axis=1)), width)
    return astype(clip(found, -1.0, 1.0), kind)


def _covariance(x: Any, name: str, correction: object) -> Any:
    """Return the covariance matrix in float64.

    Raises:
        ShapeError: the shape is not one of observations, or there are too few.
        OptionError: `correction` is not an integer of at least 0.
    """
    call = describe(name, x)
    if x.ndim not in (1, 2):
        fix = "Give [variables, observations]"
        raise ShapeError(f"there are {x.ndim} axes, not 1 or 2", fix, call)
    is_integer = isinstance(correction, int) and not isinstance(correction, bool)
    if not is_integer or correction < 0:  # type: ignore[operator]
        problem = f"correction is {shown(correction)}, not an integer of at least 0"
        raise OptionError(problem, "Use 1, or 0", call)
    divisor = x.shape[-1] - correction
    if divisor < 1:
        problem = f"{x.shape[-1]} observations are too few for correction={correction}"
        raise ShapeError(problem, f"Give at least {x.shape[-1] - divisor + 1}", call)
    wide = astype(x, float64)
    rows = reshape(wide, (1, x.shape[0])) if x.ndim == 1 else wide
    centered = sub(rows, mean(rows, axis=-1, keepdims=True))
    found = div(matmul(centered, matrix_transpose(centered)), float(divisor))
    return getitem(found, (0, 0)) if x.ndim == 1 else found


def _type_of_mean(x: Any) -> Any:
    """Return the element type of the mean of x: integers have fractions."""
    return mean(getitem(x, (..., slice(0, 1))), axis=-1).dtype
