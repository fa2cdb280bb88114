"""Diagonals, triangles and blocks of matrices: `diag`, `tril_indices`, `kron`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.compositions import as_tensor
from mdtensor.device import Device
from mdtensor.dispatch.composed import composed
from mdtensor.errors import OptionError, ShapeError, describe, shown
from mdtensor.generics.arithmetic import mul
from mdtensor.generics.conversion import to
from mdtensor.generics.linalg import diagonal
from mdtensor.generics.manipulation import pad, reshape
from mdtensor.generics.sorting import where
from mdtensor.ops.operands import allocate
from mdtensor.spec.shapes import is_size
from mdtensor.tensor import from_numpy


@composed
def diag(x: Any, /, k: int = 0) -> Any:
    """Return the matrix with `x` on diagonal `k`, or diagonal `k` of the matrix `x`.

    `linalg.diagonal` reads the diagonals of many matrices.

    Args:
        x: one axis, or two; any type.
        k: 0 is the main diagonal, 1 the one above it, -1 the one below it.

    Returns:
        The type of `x`. Of n elements a matrix of n + |k| rows and columns, with zeros
        elsewhere; of a matrix its diagonal, a view.

    Raises:
        ShapeError: `x` has other than one or two axes.
        OptionError: `k` is not an integer.

    Example:
        >>> import mdtensor as md
        >>> md.diag(md.asarray([1, 2])).tolist()
        [[1, 0], [0, 2]]
        >>> md.diag(md.asarray([[1, 2], [3, 4]]), 1).tolist()
        [2]

    Source: NumPy, `numpy.diag`; PyTorch, `torch.diag`.
    """
    x, call = as_tensor(x, "diag"), describe("diag", x)
    at = _integer(k, "k", call)
    if x.ndim == 2:
        return diagonal(x, offset=at)
    if x.ndim != 1:
        fix = "Give one or two axes, or use linalg.diagonal"
        raise ShapeError(f"x has {x.ndim} axes", fix, call)
    size = x.shape[0] + abs(at)
    longer = pad(x, [(0, abs(at))])
    # Above the main diagonal the row counts the elements, below it the column.
    lines = reshape(longer, (size, 1) if at >= 0 else (1, size))
    mask = to(from_numpy(np.eye(size, k=at, dtype=bool)), x.device)
    return where(mask, lines, False if x.dtype.kind == "bool" else 0)


@composed
def kron(x1: Any, x2: Any, /) -> Any:
    """Return the Kronecker product: blocks of `x2`, each times one element of `x1`.

    Args:
        x1: any shape.
        x2: any shape; the one with fewer axes gets axes of size 1 in front.

    Returns:
        The type of `mul`; each size is the product of the two sizes.

    Example:
        >>> import mdtensor as md
        >>> md.kron(md.asarray([1, 10]), md.asarray([1, 2])).tolist()
        [1, 2, 10, 20]

    Source: NumPy, `numpy.kron`; PyTorch, `torch.kron`.
    """
    x1, x2 = (as_tensor(x, "kron") for x in (x1, x2))
    ndim = max(x1.ndim, x2.ndim)
    one, other = ((1,) * (ndim - x.ndim) + x.shape for x in (x1, x2))
    blocks = mul(
        reshape(x1, tuple(n for size in one for n in (size, 1))),
        reshape(x2, tuple(n for size in other for n in (1, size))),
    )
    return reshape(blocks, tuple(m * n for m, n in zip(one, other, strict=True)))


@composed
def tril_indices(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    device: Device | str | None = None,
) -> tuple[Any, Any]:
    """Return the rows and columns of the elements on and below diagonal `k`.

    Args:
        n_rows, n_cols: sizes of the matrix; by default as many columns as rows.
        k: 0 is the main diagonal, 1 the one above it, -1 the one below it.
        device: by default cpu.

    Returns:
        Two Int64Tensors, row by row, which index a matrix.

    Raises:
        OptionError: a size is not an integer of at least 0, or `k` not an integer.
        ShapeError: the result does not fit into memory.

    Example:
        >>> import mdtensor as md
        >>> md.asarray([[1, 2], [3, 4]])[md.tril_indices(2)].tolist()
        [1, 3, 4]

    Source: NumPy, `numpy.tril_indices`; PyTorch, `torch.tril_indices`.
    """
    return _indices(np.tril, "tril_indices", n_rows, n_cols, k, device)


@composed
def triu_indices(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    device: Device | str | None = None,
) -> tuple[Any, Any]:
    """Return the rows and columns of the elements on and above diagonal `k`.

    Args:
        n_rows, n_cols, k, device: as for `tril_indices`.

    Returns:
        Two Int64Tensors, row by row, which index a matrix.

    Raises:
        OptionError: a size is not an integer of at least 0, or `k` not an integer.
        ShapeError: the result does not fit into memory.

    Example:
        >>> import mdtensor as md
        >>> md.asarray([[1, 2], [3, 4]])[md.triu_indices(2, k=1)].tolist()
        [2]

    Source: NumPy, `numpy.triu_indices`; PyTorch, `torch.triu_indices`.
    """
    return _indices(np.triu, "triu_indices", n_rows, n_cols, k, device)


def _indices(
    triangle: Callable[..., Any],
    name: str,
    n_rows: object,
    n_cols: object,
    k: object,
    device: Device | str | None,
) -> tuple[Any, Any]:
    """Return the rows and columns of a triangle."""
    sizes = (n_rows, n_rows if n_cols is None else n_cols)
    rows, columns = (_integer(n, "a size", name) for n in sizes)
    if min(rows, columns) < 0:
        problem = f"the sizes are {rows} and {columns}"
        raise OptionError(problem, "Use integers of at least 0", name)
    at = _integer(k, "k", name)
    ones = allocate(lambda: np.ones((rows, columns), bool), name, n_rows, n_cols)
    mask = triangle(ones, at)
    found = (from_numpy(each.astype(np.int64)) for each in np.nonzero(mask))
    first, second = found if device is None else (to(each, device) for each in found)
    return first, second


def _integer(value: object, name: str, call: str) -> int:
    """Return an integer.

    Raises:
        OptionError: `value` is not one.
    """
    if is_size(value):
        return int(value)  # type: ignore[call-overload, no-any-return]
    raise OptionError(f"{name} is {shown(value)}", "Give an integer", call)
