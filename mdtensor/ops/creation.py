"""Tensors from sizes and numbers, and like others."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mdtensor.device import cpu, device as find_device
from mdtensor.dispatch.operation import method
from mdtensor.dtypes import DType
from mdtensor.errors import ShapeError, checked, describe
from mdtensor.generics.creation import (
    empty_like,
    full_like,
    ones_like,
    tril,
    triu,
    zeros_like,
)
from mdtensor.generics.rules.creation import check_diagonal
from mdtensor.kernels.numpy import creation as kernel
from mdtensor.ops.answered import answered
from mdtensor.ops.arrays import asarray
from mdtensor.ops.memory import allocated
from mdtensor.ops.operands import Dense, deduced, on_host
from mdtensor.promotion import DEFAULT_FLOAT
from mdtensor.spec.shapes import shape_sizes
from mdtensor.tensor import Tensor, element, leaf


@answered
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of `shape` with every element `fill_value`.

    Args:
        shape: a size, or a sequence of them.
        fill_value: a number, or a tensor without axes.
        dtype: element type; otherwise that of `asarray(fill_value)`.
        device: cpu unless given.

    Raises:
        ShapeError: a negative size, or more elements than memory holds.
        CastError: `dtype` does not hold the value.

    Example:
        >>> import mdtensor as md
        >>> md.full((2,), 7, dtype=md.int8).tolist()
        [7, 7]

    Source: array API 2024.12, `full`.
    """
    wanted = element(dtype, None)
    home = cpu if device is None else find_device(device)
    one = asarray(fill_value, dtype=wanted)
    on_host("full", one)
    if one.ndim:
        call = describe("full", shape, one)
        raise ShapeError("the value has axes", "Use broadcast_to", call)
    made = partial(np.full, _sizes("full", shape), one.buffer, one.dtype.storage)
    return placed(made, one.dtype, home, "full", shape, fill_value)


def placed(
    make: Callable[[], Any], dtype: DType, device: Any, name: str, *arguments: Any
) -> Any:
    """The tensor of `make()`, a host array, on `device`, which is cpu if None.

    `arguments` are those of the operation `name`.
    """
    target = _leaf(dtype, device)
    made = allocated(make, name, *arguments)
    return target.wrap(target.device.from_host(made))


def _leaf(dtype: DType, device: Any) -> type[Tensor]:
    found = leaf(dtype)
    return found if device is None else found.with_device(find_device(device))


def _sizes(name: str, shape: Any) -> tuple[int, ...]:
    return checked(name, (shape,), lambda: shape_sizes(shape))


@answered
def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of zeros, float32 unless another `dtype` is given.

    Example:
        >>> import mdtensor as md
        >>> md.zeros((2, 2))
        Float32Tensor[2,2]([[0., 0.],
                            [0., 0.]])

    Source: array API 2024.12, `zeros`.
    """
    sizes, found = _sizes("zeros", shape), element(dtype, DEFAULT_FLOAT)
    made = partial(np.zeros, sizes, found.storage)
    return placed(made, found, device, "zeros", shape)


@answered
def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of ones, float32 unless another `dtype` is given.

    Example:
        >>> import mdtensor as md
        >>> md.ones((2,), dtype=md.int32).tolist()
        [1, 1]

    Source: array API 2024.12, `ones`.
    """
    sizes, found = _sizes("ones", shape), element(dtype, DEFAULT_FLOAT)
    made = partial(np.ones, sizes, found.storage)
    return placed(made, found, device, "ones", shape)


@answered
def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor with undefined elements, float32 unless another `dtype` is given.

    Example:
        >>> import mdtensor as md
        >>> md.empty((3,)).shape
        (3,)

    Source: array API 2024.12, `empty`.
    """
    sizes, found = _sizes("empty", shape), _leaf(element(dtype, DEFAULT_FLOAT), device)
    made = partial(found.device.alloc, sizes, found.dtype.storage)
    return found.wrap(allocated(made, "empty", shape))


@answered
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """A matrix with ones on diagonal `k`, zeros elsewhere.

    Args:
        n_rows, n_cols: sizes; as many columns as rows unless given.
        k: 0 is the main diagonal, 1 the one above it, -1 below.
        dtype: float32 unless given.
        device: cpu unless given.

    Example:
        >>> import mdtensor as md
        >>> md.eye(2, 3, k=1, dtype=md.int8).tolist()
        [[0, 1, 0], [0, 0, 1]]

    Source: array API 2024.12, `eye`.
    """
    shape = n_rows, n_rows if n_cols is None else n_cols
    (rows, columns), found = _sizes("eye", shape), element(dtype, DEFAULT_FLOAT)
    checked("eye", shape, lambda: check_diagonal(k))
    made = partial(kernel.eye, rows, columns, k, found.storage)
    return placed(made, found, device, "eye", *shape)


@method(empty_like, anywhere=True)
def empty_like(x: Dense, /, *, dtype: Any, device: Any) -> Tensor:
    return empty(x.shape, **_alike(x, dtype, device))  # type: ignore[no-any-return]


@method(full_like, anywhere=True)
def full_like(x: Dense, /, *, fill_value: Any, dtype: Any, device: Any) -> Tensor:
    made = full(x.shape, fill_value, **_alike(x, dtype, device))
    return made  # type: ignore[no-any-return]


@method(ones_like, anywhere=True)
def ones_like(x: Dense, /, *, dtype: Any, device: Any) -> Tensor:
    return ones(x.shape, **_alike(x, dtype, device))  # type: ignore[no-any-return]


@method(zeros_like, anywhere=True)
def zeros_like(x: Dense, /, *, dtype: Any, device: Any) -> Tensor:
    return zeros(x.shape, **_alike(x, dtype, device))  # type: ignore[no-any-return]


def _alike(x: Tensor, dtype: Any, device: Any) -> dict[str, Any]:
    return {
        "dtype": x.dtype if dtype is None else dtype,
        "device": x.device if device is None else device,
    }


@method(tril)
def tril(x: Dense, /, *, k: int) -> Tensor:
    deduced(tril, x, k=k)
    return x.wrap(kernel.tril(x.buffer, k))


@method(triu)
def triu(x: Dense, /, *, k: int) -> Tensor:
    deduced(triu, x, k=k)
    return x.wrap(kernel.triu(x.buffer, k))
